"""How large a prompt is thought to be, without a tokenizer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_texts import VALUES

from gateway.endpoints import ENDPOINTS
from gateway.prompt import READ, TEMPLATE_BYTES, prompts
from gateway.prompt import prompt_size as size_of
from gateway.wire import parse

TEMPLATE = {"chat": TEMPLATE_BYTES, "responses": TEMPLATE_BYTES, "messages": TEMPLATE_BYTES}
KNOWN = {endpoint.name: endpoint for endpoint in ENDPOINTS}


def prompt_size(ask, endpoint="chat"):
    return size_of(ask, KNOWN[endpoint])


def sized(**fields):
    return prompt_size(parse(json.dumps({"model": "m", **fields}).encode()))


def message(*parts):
    return [{"role": "user", "content": list(parts)}]


def test_text_counts_its_bytes():
    """Without pictures or token ids the size is that of the JSON of the messages, and of the template."""
    messages = [{"role": "user", "content": "x" * 1000}]
    assert sized(messages=messages) == (len(json.dumps(messages)) + TEMPLATE_BYTES, 0)


STEERING = {
    "metadata": {f"k{number}": "v" * 500 for number in range(16)},
    "logit_bias": {str(token): 0.5 for token in range(1000)},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"description": "d" * 9000}}},
    "structured_outputs": {"choice": ["c" * 900] * 9},
    "guided_json": {"description": "d" * 9000},
    "stop": ["s" * 900] * 4,
    "user": "u" * 9000,
    "vllm_xargs": {"a": "b" * 9000},
    "not a field at all": "n" * 9000,
}


@pytest.mark.parametrize("endpoint", READ)
def test_what_the_model_does_not_read_is_no_prompt(endpoint):
    """Labels, biases, grammars and what nobody knows are not of the prompt, on any endpoint, however long."""
    template, spoken = TEMPLATE.get(endpoint, 0), {READ[endpoint][0]: "hello"}
    assert sized_for(endpoint, **STEERING) == (template, 0)
    assert sized_for(endpoint, **spoken, **STEERING) == sized_for(endpoint, **spoken) == (template + len('"hello"'), 0)


@given(st.sampled_from([(endpoint, name) for endpoint, names in READ.items() for name in names]), st.text(max_size=300), VALUES)
def test_every_byte_of_a_field_that_is_read_counts(field, text, other):
    """No text of such a field is lost, whatever stands in the fields that are not read and however its name is spelled."""
    endpoint, name = field
    value = json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")
    spelled = f"\\u{ord(name[0]):04x}{name[1:]}"
    for key in (name, spelled):
        raw = b'{"model":"m","metadata":%b,"%b":%b,"x":%b}' % (other.encode(), key.encode(), value, other.encode())
        assert prompt_size(parse(raw), endpoint) == (len(value) + TEMPLATE.get(endpoint, 0), 0)


def test_fields_of_another_endpoint_take_nothing_away():
    """Token ids and pictures where the endpoint reads none do not make its own prompt smaller."""
    text = [{"role": "user", "content": "x" * 9000}]
    picture = message({"type": "image_url", "image_url": {"url": "A" * 9000}})
    assert sized_for("chat", messages=text, prompt=[1] * 9000, input=[1] * 9000) == sized_for("chat", messages=text)
    assert sized_for("completions", prompt="x" * 9000, messages=picture, input=[1] * 9000) == (9002, 0)
    assert sized_for("responses", input=text, messages=picture, documents=picture) == sized_for("responses", input=text)
    size, tokens = sized_for("completions", prompt=[1] * 2000, suffix="x" * 9000)
    assert (size, tokens) == (9002, 2000)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}},
        {"type": "image_url", "image_url": "data:image/png;base64," + "A" * 400_000},
        {"type": "input_audio", "input_audio": {"data": "A" * 400_000, "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64," + "A" * 400_000}},
        {"type": "audio_url", "audio_url": {"url": "data:audio/mp3;base64," + "A" * 400_000}},
    ],
)
def test_embedded_media_count_as_a_flat_sum(part):
    """A picture's base64 is no prompt text: it counts a thousand tokens, not a hundred thousand."""
    size, tokens = sized(messages=message({"type": "text", "text": "what?"}, part, part))
    assert size < 500
    assert tokens == 2000


def test_linked_media_count_the_same():
    """A picture behind a URL costs the model as much as one in the body."""
    size, tokens = sized(messages=message({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}))
    assert size < 150
    assert tokens == 1000


@pytest.mark.parametrize("field", ["prompt", "input"])
def test_ready_token_ids_count_one_each(field):
    """A list of ids, or of lists of ids, is counted, not guessed from its digits."""
    endpoint = {"prompt": "completions", "input": "embeddings"}[field]
    assert sized_for(endpoint, **{field: [12345] * 1000})[1] == 1000
    assert sized_for(endpoint, **{field: [[1, 2, 3], [4, 5]]})[1] == 5
    assert sized_for(endpoint, **{field: ["one", "two"]})[1] == 0
    assert sized_for(endpoint, **{field: []})[1] == 0


def test_a_size_is_never_negative():
    """Escapes and short ids can make the parts seem longer than the whole."""
    assert sized_for("completions", prompt=[1] * 1000) == (0, 1000)
    raw = b'{"model":"m","messages":[{"content":[' + b",".join([b'{"image_url":"\\u00e9"}'] * 9) + b"]}]}"
    assert prompt_size(parse(raw))[0] >= 0


def test_prompts_are_counted():
    """/v1/completions takes one prompt or a list of them; a list of ids is one."""
    for prompt, count in (("a", 1), (["a", "b", "c"], 3), ([1, 2, 3], 1), ([[1], [2]], 2), ([], 1), (None, 1), ({}, 1), (7, 1)):
        assert prompts(parse(json.dumps({"model": "m", "prompt": prompt}).encode())) == count


@given(VALUES, VALUES, VALUES)
def test_hostile_shapes_are_no_more_than_bytes(messages, prompt, part):
    """Any JSON in the place of messages, prompts and parts is sized without an exception."""
    for text in (messages, f"[{part}]", f'[{{"content":[{part},{{"image_url":{part}}},{{"input_audio":{{"data":{part}}}}}]}}]'):
        ask = parse(f'{{"model":"m","messages":{text},"prompt":{prompt},"input":[{part}]}}'.encode())
        for endpoint in KNOWN:
            assert min(prompt_size(ask, endpoint)) >= 0
        assert prompts(ask) >= 1


def sized_for(endpoint, **fields):
    return prompt_size(parse(json.dumps({"model": "m", **fields}).encode()), endpoint)


def test_the_query_counts_once_for_each_document():
    """A reranker reads the query with every document; so does a scorer one text with many, but pairs are read once."""
    query = "q" * 1000
    for endpoint, one, many in (("rerank", "query", "documents"), ("score", "text_1", "text_2"), ("score", "queries", "items")):
        alone, _ = sized_for(endpoint, **{one: query, many: ["a"]})
        ten, _ = sized_for(endpoint, **{one: query, many: ["a"] * 10})
        assert 9_000 <= ten - alone <= 9_100
        told, _ = sized_for(endpoint, **{one: query, many: ["a"] * 10}, instruction="i" * 998)
        assert told - ten == 10_000
    pairs, _ = sized_for("score", text_1=[query] * 2, text_2=["a"] * 2)
    assert pairs < 2_200


def test_pictures_in_the_other_apis():
    """A picture's base64 is no text in Responses' and Anthropic's forms either, also in the result of a tool."""
    data = "A" * 400_000
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    result = {"type": "tool_result", "tool_use_id": "x", "content": [image]}
    for endpoint, fields in (
        ("messages", {"messages": message(image)}),
        ("messages", {"messages": message(result)}),
        ("responses", {"input": message({"type": "input_image", "image_url": "data:image/png;base64," + data})}),
        ("responses", {"input": [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": data}]}]}),
        ("responses", {"input": message({"type": "input_file", "file_data": data})}),
        ("rerank", {"query": "q", "documents": [{"content": [{"type": "image_url", "image_url": {"url": data}}]}]}),
    ):
        size, tokens = sized_for(endpoint, **fields)
        assert size < 300
        assert tokens == 1000
    document = {"type": "document", "source": {"type": "text", "data": "words " * 1000}}
    assert sized_for("messages", messages=message(document)) > (6_000, 0)


def test_what_is_free_has_no_size():
    """Counting tokens costs none, however long the text."""
    for endpoint in ("tokenize", "detokenize", "count_tokens"):
        assert sized_for(endpoint, prompt="x" * 10_000) == (0, 0)


@given(VALUES, VALUES)
def test_hostile_shapes_of_the_other_apis(one, two):
    """Any JSON in any of their fields is sized without an exception."""
    fields = ("query", "documents", "text_1", "text_2", "items", "input", "messages", "system", "data_1")
    for value in (one, f"[{two}]", f'[{{"content":[{one},{{"content":[{two}]}},{{"source":{two}}}]}},{{"output":[{one}]}}]'):
        ask = parse(("{" + '"model":"m",' + ",".join(f'"{name}":{value}' for name in fields) + "}").encode())
        for endpoint in KNOWN:
            assert min(prompt_size(ask, endpoint)) >= 0
