"""SSE events → one JSON answer."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.assemble import assemble

DONE = b"data: [DONE]\n\n"


def event(data):
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def chunk(*choices, **more):
    return event({"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": list(choices), **more})


def delta(index=0, finish=None, *, beside=None, **fields):
    return {"index": index, "delta": fields, "finish_reason": finish, **(beside or {})}


def assembled(*events, endpoint="chat"):
    body = assemble(endpoint, events)
    return None if body is None else json.loads(body)


def message(*events):
    return assembled(*events)["choices"][0]["message"]


def calls(*deltas):
    pieces = [chunk(delta(tool_calls=[piece])) for piece in deltas]
    return message(*pieces, chunk(delta(finish="tool_calls")), DONE).get("tool_calls")


def call(ident, name, arguments):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": [1]},
        {"choices": {"a": 1}},
        {"choices": "x"},
        {"choices": [{"index": "y", "delta": {"content": "z"}}]},
        {"choices": [{"index": 0, "delta": "x"}]},
        {"choices": [], "usage": []},
        {"choices": [], "usage": "x"},
    ],
    ids=json.dumps,
)
def test_what_is_not_understood_is_not_kept(odd):
    """A replay would leave it out, so a stream that has such a chunk is no answer to keep, wherever it stands."""
    good = [chunk(delta(content="hello")), chunk(delta(finish="stop")), chunk(usage={"prompt_tokens": 5, "completion_tokens": 1})]
    assert assembled(*good, DONE) is not None
    for place in range(len(good) + 1):
        assert assembled(*good[:place], event(odd), *good[place:], DONE) is None


def test_a_plain_stream():
    """Texts are joined, and the envelope, finish reason, stop reason and usage are those of the stream."""
    assert assembled(
        chunk(delta(role="assistant", content="", beside={"logprobs": None}), system_fingerprint="fp"),
        chunk(delta(content="你好")),
        chunk(delta(content=" 👋")),
        chunk(delta(finish="stop", beside={"stop_reason": 151645})),
        chunk(usage={"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}),
        DONE,
    ) == {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "你好 👋"},
                "logprobs": None,
                "finish_reason": "stop",
                "stop_reason": 151645,
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
    }


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content", "refusal"])
def test_texts_beside_the_content_are_kept(name):
    """Reasoning under either of its names, and a refusal, are joined like the content."""
    said = message(chunk(delta(**{name: "a"})), chunk(delta(**{name: "b", "content": "c"})), chunk(delta(finish="stop")))
    assert said == {"role": "assistant", "content": "c", name: "ab"}


def test_choices_are_kept_apart_and_in_order():
    """Interleaved choices, also within one chunk, each get their own text and finish reason."""
    answer = assembled(
        chunk(delta(1, content="x"), delta(0, content="a")),
        chunk(delta(0, content="b")),
        chunk(delta(1, "length", content="y")),
        chunk(delta(0, "stop")),
        DONE,
    )
    assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in answer["choices"]] == [
        (0, "ab", "stop"),
        (1, "xy", "length"),
    ]


def test_parallel_tool_calls_with_interleaved_deltas():
    """Two calls streamed in turns stay two calls, each with its own name and arguments."""
    assert calls(
        {"index": 0, "id": "a", "type": "function", "function": {"name": "search_circular", "arguments": ""}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "search_circular", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"q":'}},
        {"index": 1, "function": {"arguments": '{"q":'}},
        {"index": 0, "function": {"arguments": "1}"}},
        {"index": 1, "function": {"arguments": "2}"}},
    ) == [call("a", "search_circular", '{"q":1}'), call("b", "search_circular", '{"q":2}')]


def test_calls_come_out_by_index():
    """The order of the calls is that of their indexes, not of their first deltas."""
    later, earlier = {"index": 1, "id": "b", "function": {"name": "g"}}, {"index": 0, "id": "a", "function": {"name": "f"}}
    assert [made["id"] for made in calls(later, earlier)] == ["a", "b"]


def test_all_calls_numbered_zero():
    """A backend that gives every call the index 0 still made several calls: a new id with a name starts the next one."""
    assert calls(
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"index": 0, "id": "b", "type": "function", "function": {"name": "f", "arguments": '{"x"'}},
        {"index": 0, "function": {"arguments": ":1}"}},
    ) == [call("a", "f", "{}"), call("b", "f", '{"x":1}')]


def test_calls_without_an_index():
    """Where a backend leaves out the index, a delta continues the call under way, and a new id with a name starts one."""
    assert calls(
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"function": {"arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
        {"function": {"arguments": "[]"}},
    ) == [call("a", "f", "{}"), call("b", "g", "[]")]


@pytest.mark.parametrize(
    "functions",
    [
        [{"name": "get_weather", "arguments": ""}, {"arguments": "{"}, {"arguments": "}"}],
        [{"name": "get_weather", "arguments": ""}, {"name": "get_weather", "arguments": "{"}, {"name": "", "arguments": "}"}],
        [{"name": "get_weather"}, {"name": "get_weather"}, {"name": "get_weather", "arguments": "{}"}],
        [{"name": "get_", "arguments": ""}, {"name": "weather", "arguments": ""}, {"arguments": "{}"}],
        [{"name": "get_", "arguments": ""}, {"name": "get_weather", "arguments": ""}, {"arguments": "{}"}],
        [{"name": "", "arguments": ""}, {"name": "get_weather", "arguments": ""}, {"name": None, "arguments": "{}"}],
    ],
)
def test_a_name_is_never_doubled(functions):
    """Once, with every delta, in pieces or growing: the name comes out once and whole."""
    first, *rest = ({"index": 0, "function": function} for function in functions)
    assert calls({"id": "a", "type": "function", **first}, *rest) == [call("a", "get_weather", "{}")]


def test_arguments_that_are_no_text():
    """A backend that sends arguments as an object, or a call of a kind nobody knows, has it kept as it is."""
    custom = {"id": "b", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    assert calls(
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": 1}, "strict": True}},
        {"index": 1, **custom},
    ) == [{"id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": 1}, "strict": True}}, custom]


def test_an_id_that_changes_with_every_delta():
    """Some backends make up an id for each delta: the first one is the call's, and the call stays one."""
    assert calls(
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "id": "x", "function": {"arguments": "{"}},
        {"index": 0, "id": "", "function": {"arguments": "}"}},
    ) == [call("a", "f", "{}")]


def test_function_call_of_old():
    """The older single function call is merged by the same rules."""
    said = message(
        chunk(delta(function_call={"name": "f", "arguments": ""})),
        chunk(delta(function_call={"name": "f", "arguments": "{"})),
        chunk(delta(function_call={"arguments": "}"})),
        chunk(delta(finish="function_call")),
    )
    assert said == {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}


def test_logprobs_and_token_ids_are_joined():
    """Lists a token long grow with every chunk; `top_logprobs` stays the empty list or the null that was sent."""
    entries = [{"token": t, "logprob": -0.5, "bytes": None, "top_logprobs": top} for t, top in (("a", []), ("b", None))]
    choice = assembled(
        *(
            chunk(delta(content=e["token"], beside={"logprobs": {"content": [e]}, "token_ids": [n]}))
            for n, e in enumerate(entries)
        ),
        chunk(delta(finish="stop", beside={"logprobs": None, "token_ids": None})),
    )["choices"][0]
    assert choice["logprobs"] == {"content": entries}
    assert choice["token_ids"] == [0, 1]


def test_unknown_fields_are_kept():
    """Fields nobody knows yet survive at every level; the last value that is not null wins."""
    answer = assembled(
        chunk(delta(annotations=[1], beside={"x": 1, "y": None}), service_tier="a", z=None),
        chunk(delta(annotations=None, beside={"x": None}), service_tier="b"),
        chunk(delta(finish="stop", annotations=[2])),
    )
    assert (answer["service_tier"], answer["z"]) == ("b", None)
    assert (answer["choices"][0]["x"], answer["choices"][0]["y"]) == (1, None)
    assert answer["choices"][0]["message"]["annotations"] == [2]


def test_the_envelope_is_that_of_the_first_chunk():
    """Should a backend change its mind about id, time or model, the first is kept; an id that comes late counts too."""
    later = {"id": "c2", "created": 8, "model": "n", "choices": [delta(finish="stop")]}
    answer = assembled(event({"id": None, "choices": []}), chunk(delta(content="a")), event(later))
    assert (answer["id"], answer["created"], answer["model"]) == ("c1", 7, "m")


def test_usage_is_the_last_one_that_is_not_null():
    """Usage counts wherever it stands: on a chunk with choices, repeated, followed by null."""
    first, last = {"completion_tokens": 1}, {"completion_tokens": 2}
    answer = assembled(chunk(delta(content="a"), usage=first), chunk(delta(finish="stop"), usage=last), chunk(usage=None))
    assert answer["usage"] == last


def test_completions():
    """A text completion is joined likewise, with its four lists of logprobs."""
    lists = {"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": [None], "text_offset": [0]}
    more = {"tokens": ["b"], "token_logprobs": [-2.0], "top_logprobs": [{"b": -2.0}], "text_offset": [1]}
    assert assembled(
        chunk({"index": 0, "text": "a", "logprobs": lists, "finish_reason": None}),
        chunk({"index": 0, "text": "b", "logprobs": more, "finish_reason": None}),
        chunk({"index": 0, "text": "", "logprobs": None, "finish_reason": "stop", "stop_reason": None}),
        DONE,
        endpoint="completions",
    ) == {
        "id": "c1",
        "object": "text_completion",
        "created": 7,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "text": "ab",
                "finish_reason": "stop",
                "stop_reason": None,
                "logprobs": {k: lists[k] + more[k] for k in lists},
            }
        ],
    }


ENDED = {
    "chat": chunk(delta(content="a", finish="stop")),
    "completions": chunk({"index": 0, "text": "a", "finish_reason": "stop"}),
    "responses": b"",
    "messages": b"",
}
ENDS = {
    "responses": event({"type": "response.completed", "response": {"output": []}}),
    "messages": event({"type": "message_start", "message": {"content": []}}) + event({"type": "message_stop"}),
}


@pytest.mark.parametrize("endpoint", ENDED)
@pytest.mark.parametrize("data", ['data: {"message": "boom"}', "data: boom", "data: null", "data: [DONE]", "data:", ": x"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_event_that_is_named_error_is_one(endpoint, data, end):
    """Whatever it says, and wherever its name stands, the stream is no answer; an event of another name spoils nothing."""
    last = ENDS.get(endpoint, DONE)
    for lines in (["event: error", data], ["event:error", "id: 1", data], [data, "event: error "]):
        named = (end.join(lines) + end + end).encode()
        assert assembled(ENDED[endpoint], named, last, endpoint=endpoint) is None
    assert assembled(ENDED[endpoint], b"event: errors\n: x\n\n", last, endpoint=endpoint) is not None


@pytest.mark.parametrize(
    "events",
    [
        [],
        [DONE],
        [chunk(), DONE],
        [chunk(delta(content="a"))],
        [chunk(delta(0, "stop")), chunk(delta(1, content="a"))],
        [chunk(delta(finish="stop")), event({"error": {"message": "gone"}}), DONE],
        [chunk(delta(finish="stop")), b'data: {"choices":[{\n\n', DONE],
        [chunk(delta(finish="stop")), b"data: 7\n\n", DONE],
        [chunk(delta(finish="stop")), b'data: "\xff"\n\n', DONE],
        [chunk(delta(finish="stop")), b'data: {"x":"\\ud83d"}\n\n', DONE],
        [chunk(delta(finish="stop")), b"data: " + b"[" * 100_000 + b"\n\n", DONE],
        [chunk(delta(finish="stop")), b'data: {"x":1e999}\n\n', DONE],
    ],
)
def test_no_answer_unless_complete(events):
    """Nothing, no choice, an unfinished choice without `[DONE]`, an error or an unreadable event: there is no answer."""
    assert assembled(*events) is None


@pytest.mark.parametrize(
    "events", [[chunk(delta(finish="stop"))], [chunk(delta(content="a")), DONE], [chunk(delta(finish="stop")), DONE, b"rest"]]
)
def test_complete_is_done_or_finished(events):
    """`[DONE]` or a finish reason for every choice completes a stream; what follows `[DONE]` is not read."""
    assert assembled(*events) is not None


@pytest.mark.parametrize(
    ("chunks", "content"),
    [
        (['{"index":0,"delta":{"content":"a"},"delta":{}}'] * 3, None),
        (['{"index":0,"delta":{"content":"a"},"delta":{"content":"b"}}'] * 3, "bbb"),
        (['{"index":0,"delta":{"content":"a"},"delta":null}'] * 3, None),
        (['{"index":0,"delta":{"content":"a","content":"b"}}'] * 3, "bbb"),
    ],
)
def test_a_name_that_comes_twice(chunks, content):
    """Of two values of one name the last counts, in every chunk alike, and nothing is raised."""
    events = [b'data: {"id":"c","choices":[' + choice.encode() + b"]}\n\n" for choice in chunks]
    assert message(*events, chunk(delta(finish="stop")))["content"] == content


def test_a_text_beside_a_delta():
    """A completion's text is joined in full even if a backend sends a delta along with it."""
    piece = {"index": 0, "text": "x", "delta": {"content": "a"}, "finish_reason": None}
    answer = assembled(*[chunk(piece)] * 3, DONE, endpoint="completions")
    assert answer["choices"][0]["text"] == "xxx"


EVENTS = [chunk(delta(content="a b")), chunk(delta(content="\n\nc")), chunk(delta(finish="stop")), DONE]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_comments_and_fields(end):
    """Any line end, comments, other fields, data over several lines, with or without a space, a BOM, no last blank line."""
    split = b"event: x\n: comment\nid: 1\n" + EVENTS[0].replace(b'"choices"', b'\ndata:"choices"')
    stream = b"\xef\xbb\xbf: ping\n\n\n" + split + EVENTS[1].replace(b"data: ", b"data:") + b"".join(EVENTS[2:]).rstrip()
    assert assembled(stream.replace(b"\n", end)) == assembled(*EVENTS)


@given(st.lists(st.integers(0, len(b"".join(EVENTS))), max_size=8))
def test_how_the_bytes_are_cut_does_not_matter(cuts):
    """Pieces of a stream, cut anywhere, give the same answer as its events."""
    stream = b"".join(EVENTS)
    edges = [0, *sorted(cuts), len(stream)]
    assert assembled(*(stream[a:b] for a, b in itertools.pairwise(edges))) == assembled(*EVENTS)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.just("stop"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "index",
                    "delta",
                    "choices",
                    "tool_calls",
                    "function",
                    "function_call",
                    "name",
                    "arguments",
                    "id",
                    "content",
                    "logprobs",
                    "token_ids",
                    "finish_reason",
                    "usage",
                    "text",
                    "message",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(junk | st.fixed_dictionaries({"choices": st.lists(junk)}), max_size=5), st.sampled_from(["chat", "completions"]))
def test_hostile_shapes_never_raise(chunks, endpoint):
    """A backend may send any JSON whatever: it is assembled or not, but nothing is raised."""
    body = assemble(endpoint, [*map(event, chunks), DONE])
    assert body is None or json.loads(body)
