"""Which parts of a request reach the library."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provider_talk import MESSAGES

from backends.litellm.arguments import ALLOWED, Unusable, arguments_of, operation_of

IMAGE = "data:image/png;base64,AAAA"


def given_to(operation="chat", **fields):
    return arguments_of(operation, json.dumps(fields).encode())


def part(kind, **more):
    return [{"role": "user", "content": [{"type": kind, **more}]}]


@pytest.mark.parametrize("operation", ["chat", "completions", "embeddings"])
def test_no_argument_that_steers_is_allowed(operation):
    """Where to send, with which key, and what to do besides is never the request's choice."""
    steering = {
        "api_base", "api_key", "api_version", "azure_ad_token", "base_url", "cache", "client", "custom_llm_provider",
        "drop_params",
        "extra_body", "extra_headers", "fallbacks", "headers", "logger_fn", "metadata", "mock_response", "model", "model_list",
        "num_retries", "organization", "prompt_id", "service_tier", "store", "success_callback", "timeout", "web_search_options",
    }  # fmt: skip
    assert not steering & ALLOWED[operation]


@given(st.dictionaries(st.text(max_size=12), st.none() | st.booleans() | st.integers() | st.text(max_size=5)))
def test_only_what_is_allowed_comes_through(fields):
    """Whatever else a body holds is left out, and nulls with it."""
    arguments = given_to(**{**fields, "messages": MESSAGES, "stream": None})
    assert set(arguments) <= ALLOWED["chat"]
    assert None not in arguments.values()


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": True, "evil": 1}])
def test_a_stream_always_counts(options):
    """The usage is asked for whatever the request says of it."""
    arguments = given_to(messages=MESSAGES, stream=True, stream_options=options)
    assert (arguments["stream"], arguments["stream_options"]) == (True, {"include_usage": True})
    assert "stream" not in given_to("embeddings", input="x", stream=True)


@pytest.mark.parametrize(
    "messages",
    [
        None, [], "hi", {}, [1], [None], [[]], [{}], [{"role": 1}],
        [{"role": "user", "content": 1}], [{"role": "user", "content": {}}],
        part("file", file={"file_id": "x"}), part("image_url"), part("image_url", image_url={"url": 1}), part([]), part(None),
        part("image_url", image_url={"url": "gs://bucket/secret"}), part("image_url", image_url="file:///etc/passwd"),
        [{"role": "user", "content": ["text"]}],
    ],
)  # fmt: skip
def test_messages_that_are_refused(messages):
    """A shape that the library would stumble over, or a link into the operator's own storage."""
    with pytest.raises(Unusable) as caught:
        given_to(messages=messages)
    assert caught.value.param == "messages"


@pytest.mark.parametrize("content", [None, "hi", [], [{"type": "text", "text": "hi"}], [{"type": "refusal", "refusal": "no"}]])
def test_contents_that_pass(content):
    """Every form that OpenAI's API has."""
    messages = [{"role": "user", "content": content}]
    assert given_to(messages=messages)["messages"] == messages


@pytest.mark.parametrize("image", [IMAGE, {"url": IMAGE}, {"url": "HTTPS://example.com/a.png", "detail": "low"}])
def test_images_that_pass(image):
    """Data URLs, and addresses on the web: whether those are fetched is not decided here."""
    assert given_to(messages=part("image_url", image_url=image))


@pytest.mark.parametrize("tools", ["x", {}, [1], [{}], [{"type": "mcp", "server_url": "litellm_proxy"}], [{"type": "function"}]])
def test_tools_that_are_refused(tools):
    """Functions only: the library may connect to the server that another kind of tool names."""
    with pytest.raises(Unusable) as caught:
        given_to(messages=MESSAGES, tools=tools)
    assert caught.value.param == "tools"


@pytest.mark.parametrize(("operation", "name"), [("completions", "prompt"), ("embeddings", "input")])
@pytest.mark.parametrize("value", [None, "", [], 1, {}, True])
def test_prompts_that_are_refused(operation, name, value):
    """There must be something to say."""
    with pytest.raises(Unusable) as caught:
        given_to(operation, **{name: value})
    assert caught.value.param == name


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "type", "image_url", "url"]), inner)
    ),
    max_leaves=8,
)


@given(_JSON, _JSON)
def test_any_shape_is_taken_or_refused(messages, tools):
    """Nothing else happens, whatever a body holds."""
    try:
        given_to(messages=messages, tools=tools)
    except Unusable:
        return
    assert isinstance(messages, list)


def ref(name):
    return {"$ref": f"#/$defs/{name}"}


def doubling(depth):
    """Each definition has the next one twice: two to the power of `depth` when written out."""
    steps = {f"a{i}": {"type": "object", "properties": {"x": ref(f"a{i + 1}"), "y": ref(f"a{i + 1}")}} for i in range(depth)}
    return {"type": "object", "properties": {"x": ref("a0")}, "$defs": {**steps, f"a{depth}": {"type": "string"}}}


def everybody(count):
    """Each definition has all of them: the factorial of `count` when each is written out once along every path."""
    names = [f"b{i}" for i in range(count)]
    return {"definitions": {name: {"anyOf": [ref(other) for other in names]} for name in names}, **ref("b0")}


def chained(count):
    return {"$defs": {f"c{i}": {"items": ref(f"c{i + 1}")} for i in range(count)}, **ref("c0")}


@pytest.mark.parametrize("schema", [doubling(40), everybody(30), chained(500), {"not": doubling(40), "$defs": {"a0": {}}}])
@pytest.mark.parametrize(
    ("param", "wrap"),
    [
        ("tools", lambda schema: [{"type": "function", "function": {"name": "f", "parameters": schema}}]),
        ("functions", lambda schema: [{"name": "f", "parameters": schema}]),
        ("response_format", lambda schema: {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}),
    ],
)
def test_a_schema_that_explodes_is_refused(schema, param, wrap):
    """What the library would write out until the memory is full is found by counting to a bound."""
    with pytest.raises(Unusable) as caught:
        given_to(messages=MESSAGES, **{param: wrap(schema)})
    assert caught.value.param == param


@pytest.mark.parametrize(
    "schema",
    [doubling(5), everybody(4), chained(20), {"$defs": {"tree": {"items": ref("tree")}}, **ref("tree")}, ref("nowhere"), {}],
)
def test_a_usual_schema_passes(schema):
    """References, also recursive ones, are fine."""
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}
    assert given_to(messages=MESSAGES, response_format=form)["response_format"] == form


def test_the_endpoints():
    """Three of them, by their paths."""
    assert [operation_of(path) for path in (b"/chat/completions", b"/completions", b"/embeddings", b"/rerank", b"")] == [
        "chat", "completions", "embeddings", None, None
    ]  # fmt: skip
