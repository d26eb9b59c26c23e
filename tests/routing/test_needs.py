import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.needs import MAX_PARTS, needs_of

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def needed(body, endpoint="chat"):
    return set(needs_of(body, endpoint, 10).capabilities)


def user(*parts):
    return {"messages": [{"role": "user", "content": list(parts)}]}


@pytest.mark.parametrize(
    ("body", "capabilities"),
    [
        ({}, set()),
        ({"messages": [{"role": "user", "content": "hello"}]}, set()),
        ({"tools": [{"type": "function"}]}, {"tools"}),
        ({"functions": [{"name": "f"}]}, {"tools"}),
        ({"tools": []}, set()),
        ({"tools": None, "tool_choice": "auto"}, set()),
        ({"tool_choice": "required"}, set()),
        ({"tools": [{}], "tool_choice": "none"}, set()),
        ({"tools": [{}], "tool_choice": "required"}, {"tools"}),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, {"json_schema"}),
        ({"response_format": {"type": "structural_tag"}}, {"json_schema"}),
        ({"response_format": {"type": "json_object"}}, set()),
        ({"response_format": {"type": "text"}}, set()),
        ({"structured_outputs": {"regex": "a"}}, {"json_schema"}),
        ({"guided_json": {"type": "object"}}, {"json_schema"}),
        ({"guided_regex": "a+"}, {"json_schema"}),
        ({"guided_grammar": "root ::= x"}, {"json_schema"}),
        ({"guided_choice": ["a", "b"]}, {"json_schema"}),
        ({"guided_json": None}, set()),
        ({"text": {"format": {"type": "json_schema"}}}, {"json_schema"}),
        ({"reasoning_effort": "high"}, {"reasoning"}),
        ({"reasoning_effort": "none"}, set()),
        ({"reasoning_effort": None}, set()),
        ({"reasoning": {"effort": "low"}}, {"reasoning"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, {"reasoning"}),
        ({"thinking": {"type": "disabled"}}, set()),
        ({"modalities": ["text", "audio"]}, {"audio"}),
        ({"modalities": ["text"]}, set()),
        (user(IMAGE), {"vision"}),
        (user({"type": "text", "text": "image_url"}), set()),
        (user({"image_url": "https://x"}), {"vision"}),
        (user({"type": "input_audio", "input_audio": {}}), {"audio"}),
        (user({"type": "video_url"}), {"vision"}),
        (user({"type": "image", "source": {}}, {"type": "input_audio"}), {"vision", "audio"}),
        (user({"type": "tool_result", "content": [{"type": "image"}]}), {"vision"}),
        (user({"type": "tool_result", "content": "image"}), set()),
    ],
)
def test_only_what_is_asked_for_is_needed(body, capabilities):
    """Each field and part that asks for a capability is read, and its empty or negative form asks nothing."""
    assert needed(body) == capabilities


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": [{"type": "input_image"}]},
        {"type": "input_image"},
        {"type": "function_call_output", "output": [{"type": "input_image"}]},
    ],
)
def test_images_are_found_in_the_input_of_the_responses_endpoint(item):
    """The responses endpoint carries its conversation in `input`."""
    assert needed({"input": [{"role": "user", "content": "hi"}, item]}, "responses") == {"vision"}


def test_an_image_early_in_the_conversation_is_still_needed():
    """The whole conversation goes to the model, so an old image counts."""
    messages = [{"role": "user", "content": [IMAGE]}] + [{"role": "user", "content": "more"}] * 1000
    assert needed({"messages": messages}) == {"vision"}


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ({}, None),
        ({"max_tokens": 0}, 0),
        ({"max_tokens": 1, "max_completion_tokens": 700}, 700),
        ({"max_output_tokens": 9}, 9),
        ({"max_tokens": True}, None),
        ({"max_tokens": "100"}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": -5}, 0),
    ],
)
def test_the_output_limit_is_the_largest_that_was_given(body, limit):
    """Of several limits the largest counts, an explicit zero is a value, and other types are none."""
    assert needs_of(body, "chat", 1).max_tokens == limit


def nested(depth):
    value = "x"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "messages",
    [
        "a string",
        7,
        None,
        {"role": "user"},
        [1, 2, None, True, "x", [], {}],
        [{"role": 1, "content": 2}],
        [{"content": [1, None, "x", [IMAGE], {"type": 3}, {"type": ["image_url"]}, {"type": {}}]}],
        [{"content": nested(1000)}],
        nested(1000),
    ],
)
def test_hostile_shapes_need_nothing_and_raise_nothing(messages):
    """A conversation of any shape is taken; what is not a part is not looked into."""
    assert needed({"messages": messages}) == set()


def test_a_huge_conversation_is_looked_at_up_to_a_bound():
    """Parts beyond the bound are not read, so the work does not grow with the request."""

    class Counting(dict):
        reads = 0

        def get(self, key, default=None):
            Counting.reads += 1
            return super().get(key, default)

    parts = [Counting(type="text", text="x") for _ in range(100_000)]
    assert needed({"messages": [{"role": "user", "content": parts}]}) == set()
    assert Counting.reads <= 3 * MAX_PARTS


def test_tool_results_are_counted_against_the_bound_too():
    """Many messages with many outputs each are not all looked at."""
    outputs = [{"type": "input_text"}] * MAX_PARTS
    messages = [{"output": [IMAGE]}, *[{"output": outputs}] * 2]
    assert needed({"messages": messages}) == set()
    assert needed({"messages": messages[:1]}) == {"vision"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "type", "content", "text", "output"]), inner, max_size=3)
    ),
    max_leaves=12,
)
FIELDS = [
    "messages",
    "input",
    "tools",
    "functions",
    "tool_choice",
    "response_format",
    "text",
    "reasoning",
    "reasoning_effort",
    "thinking",
    "modalities",
    "max_tokens",
    "guided_json",
    "output_config",
]


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6), st.sampled_from(["chat", "responses", "completions"]))
def test_no_json_body_makes_it_raise(body, endpoint):
    """Whatever JSON a client sends, the needs are some set of known capabilities."""
    assert needed(body, endpoint) <= {"tools", "json_schema", "vision", "audio", "reasoning"}
