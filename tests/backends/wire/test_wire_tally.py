"""What a stream tells about itself, in the shapes that servers use."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sse import EventSplitter, Kind, Tally


def event(payload: object, *, compact: bool = True) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":") if compact else None).encode() + b"\n\n"


def chat(delta: dict, *, index: int = 0, finish: str | None = None, **more: object) -> dict:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], **more}


def read(*payloads: object) -> tuple[Tally, list[Kind]]:
    tally = Tally()
    return tally, [tally.read(one if isinstance(one, bytes) else event(one)) for one in payloads]


USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
DONE = b"data: [DONE]\n\n"


def test_a_chat_stream_of_vllm():
    """Role, content, finish, usage and [DONE], each for what it is."""
    tally, kinds = read(
        chat({"role": "assistant", "content": ""}),
        chat({"content": "Hel"}),
        chat({"content": "lo"}),
        chat({"content": ""}, finish="stop", stop_reason=None),
        {"object": "chat.completion.chunk", "choices": [], "usage": {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}},
        DONE,
    )
    assert kinds == [Kind.OTHER, Kind.CONTENT, Kind.CONTENT, Kind.OTHER, Kind.USAGE, Kind.DONE]
    assert (tally.prompt_tokens, tally.completion_tokens, tally.cached_tokens) == (7, 3, 4)
    assert (tally.deltas, tally.done, tally.finish_reasons, tally.error) == (2, True, {0: "stop"}, None)


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"role": "assistant", "content": "x"},
        {"reasoning": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x", "reasoning_content": "x", "content": None},
        {"refusal": "no"},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
        {"function_call": {"arguments": "{"}},
        {"content": '"usage":{"prompt_tokens":9},"error":{},"finish_reason":"stop" data: [DONE]\n\n'},
    ],
)
@pytest.mark.parametrize("compact", [True, False])
def test_what_counts_as_generated(delta, compact):
    """Text, reasoning, refusals and tool calls count, under every name and spacing, whatever the text says."""
    tally, kinds = read(event(chat(delta), compact=compact))
    assert (kinds, tally.deltas) == ([Kind.CONTENT], 1)
    assert (tally.prompt_tokens, tally.error, tally.finish_reasons, tally.done) == (None, None, {}, False)


@pytest.mark.parametrize("delta", [{}, {"role": "assistant"}, {"role": "assistant", "content": None}, {"tool_calls": []}])
def test_what_does_not_count_as_generated(delta):
    """A chunk that only opens or closes a choice is not charged."""
    tally, kinds = read(chat(delta))
    assert (kinds, tally.deltas) == ([Kind.OTHER], 0)


def test_log_probabilities_without_text_count():
    """A token that gave no text yet, such as half a character, is a token."""
    payload = chat({"content": ""})
    payload["choices"][0]["logprobs"] = {"content": [{"token": "\ufffd", "logprob": -1.0}]}
    assert read(payload)[0].deltas == 1


def test_usage_on_a_chunk_with_choices():
    """Usage counts wherever it stands; a chunk with choices is not the usage-only one."""
    tally, kinds = read(chat({"content": "x"}, usage=USAGE), chat({}, finish="length", usage={**USAGE, "completion_tokens": 5}))
    assert kinds == [Kind.CONTENT, Kind.OTHER]
    assert (tally.prompt_tokens, tally.completion_tokens) == (7, 5)


def test_usage_null_in_every_chunk():
    """A null usage changes nothing, neither before nor after a real one."""
    tally, kinds = read(
        chat({"content": "x"}, usage=None), {"choices": [], "usage": USAGE}, {"choices": [], "usage": None}, chat({}, usage=None)
    )
    assert kinds == [Kind.CONTENT, Kind.USAGE, Kind.OTHER, Kind.OTHER]
    assert tally.completion_tokens == 3


def test_a_stream_of_llama_cpp():
    """Usage and timings on the last chunk, finish reason without a delta."""
    tally, _ = read(
        chat({"role": "assistant", "content": None}),
        chat({"content": "Hi"}),
        chat({}, finish="stop", usage=USAGE, timings={"prompt_n": 7}),
        DONE,
    )
    assert (tally.deltas, tally.completion_tokens, tally.finish_reasons, tally.done) == (1, 3, {0: "stop"}, True)


def test_a_stream_of_transformers_serve():
    """Keys that are absent instead of null, and no [DONE]."""
    tally, kinds = read(
        {"object": "chat.completion.chunk", "choices": [{"delta": {"role": "assistant"}, "index": 0}]},
        {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "Hi"}, "index": 0}]},
        {"object": "chat.completion.chunk", "choices": [{"delta": {}, "finish_reason": "stop", "index": 0}]},
    )
    assert kinds == [Kind.OTHER, Kind.CONTENT, Kind.OTHER]
    assert (tally.done, tally.finish_reasons, tally.prompt_tokens) == (False, {0: "stop"}, None)


def test_a_completions_stream():
    """/v1/completions has `text`, and usage like chat."""
    tally, kinds = read(
        {"object": "text_completion", "choices": [{"index": 0, "text": "Hi", "finish_reason": None}]},
        {"object": "text_completion", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
        {"object": "text_completion", "choices": [], "usage": USAGE},
        b"data:[DONE]\r\n\r\n",
    )
    assert kinds == [Kind.CONTENT, Kind.OTHER, Kind.USAGE, Kind.DONE]
    assert (tally.completion_tokens, tally.finish_reasons) == (3, {0: "stop"})


def test_several_choices():
    """Each choice has a finish reason of its own, in one event or in several; an event counts once."""
    both = chat({"content": "a"}, finish="stop")
    both["choices"].append({"index": 2, "delta": {"content": "b"}, "finish_reason": "length"})
    tally, kinds = read(both, chat({}, index=1, finish="tool_calls"))
    assert kinds == [Kind.CONTENT, Kind.OTHER]
    assert (tally.finish_reasons, tally.deltas) == ({0: "stop", 2: "length", 1: "tool_calls"}, 1)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (
            {"error": {"message": "no", "type": "t", "param": None, "code": 400}},
            {"message": "no", "type": "t", "param": None, "code": 400},
        ),
        ({"error": {"message": "no", "code": "context_length_exceeded"}}, {"message": "no", "code": "context_length_exceeded"}),
        ({"error": "no"}, {"message": "no"}),
        ({"object": "error", "message": "no", "code": 400}, {"object": "error", "message": "no", "code": 400}),
        ({"type": "error", "message": "no"}, {"type": "error", "message": "no"}),
        ({"choices": [], "error": {"message": "no"}}, {"message": "no"}),
        ({"type": "response.failed", "response": {"error": {"code": "server_error"}}}, {"code": "server_error"}),
    ],
)
def test_error_events(payload, error):
    """An error inside a stream is kept with its type and code, whatever type its code has; the first one stays."""
    tally, kinds = read(payload, {"error": {"message": "another"}})
    assert (kinds[0], tally.error) == (Kind.ERROR, error)


@pytest.mark.parametrize("nothing", [None, {}, "", False])
def test_an_error_of_nothing_is_none(nothing):
    """`"error": null` and its like on a healthy chunk is no error."""
    tally, kinds = read(chat({"content": "x"}, error=nothing))
    assert (kinds, tally.error) == ([Kind.CONTENT], None)


def test_a_responses_stream():
    """/v1/responses tells its usage inside `response`, and its deltas by type."""
    usage = {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}
    tally, kinds = read(
        b'event: response.created\ndata: {"type":"response.created","response":{"usage":null,"error":null}}\n\n',
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"Hi"}\n\n',
        {"type": "response.completed", "response": {"usage": usage, "error": None}},
    )
    assert kinds == [Kind.OTHER, Kind.CONTENT, Kind.DONE]
    assert (tally.prompt_tokens, tally.completion_tokens, tally.cached_tokens, tally.deltas) == (7, 3, 2, 1)
    assert tally.done


def test_a_failed_response():
    """`response.failed` is an error and the stream's end at once."""
    tally, kinds = read({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "no"}}})
    assert (kinds, tally.done, tally.error) == ([Kind.ERROR], True, {"code": "server_error", "message": "no"})


def test_a_messages_stream():
    """/v1/messages tells the prompt at its start and the completion at its end."""
    tally, kinds = read(
        {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    )
    assert kinds == [Kind.OTHER, Kind.CONTENT, Kind.OTHER]
    assert (tally.prompt_tokens, tally.completion_tokens, tally.deltas) == (7, 3, 1)
    assert not tally.done
    assert tally.read(b'event: message_stop\ndata: {"type":"message_stop"}\n\n') is Kind.DONE
    assert tally.done


def test_a_messages_stream_from_a_warm_cache():
    """Anthropic's input_tokens leave out what came from the cache: together they are the prompt."""
    tally, _ = read(
        {"type": "message_start", "message": {"usage": {"input_tokens": 70, "output_tokens": 0}}},
        {"type": "message_delta", "delta": {}, "usage": {
            "input_tokens": 6, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 4, "output_tokens": 3}},
    )  # fmt: skip
    assert (tally.prompt_tokens, tally.completion_tokens, tally.cached_tokens) == (70, 3, 60)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"\n\n",
        b": heartbeat\n\n",
        b': {"choices":[{"delta":{"content":"x"}}]}\n\n',
        b"data:\n\n",
        b"data: \n\n",
        b"event: ping\ndata: {}\n\n",
        b"data: null\n\n",
        b"data: [1]\n\n",
        b'data: "x"\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"tru\n\n',
        b'data: {"choices": x, "usage": {"prompt_tokens": 1}}\n\n',
        b'data: {"error": {"message": \n\n',
        b'data: {"a":"\xff"}\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n",
        b"data: " + b'{"a":' * 5_000 + b"\n\n",
        b"data: 1e999999\n\n",
        b"DATA: [DONE]\n\n",
        b"data: [DONE] and more\n\n",
        b'{"error": {"message": "no stream"}}',
    ],
)
def test_what_says_nothing(raw):
    """Comments, heartbeats and malformed JSON are OTHER and change nothing."""
    tally, kinds = read(raw)
    assert kinds == [Kind.OTHER]
    assert (tally.deltas, tally.done, tally.error, tally.prompt_tokens, tally.finish_reasons) == (0, False, None, None, {})


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_data_over_several_lines(end):
    """The lines of one payload are joined, beside comments and other fields, after a byte order mark."""
    lines = [b"\xef\xbb\xbf: c", b'data: {"choices": [],', b"id: 1", b'data:"usage": {"prompt_tokens": 5}}', b"", b""]
    tally, kinds = read(end.join(lines))
    assert (kinds, tally.prompt_tokens) == ([Kind.USAGE], 5)


@pytest.mark.parametrize("wrong", [True, -1, 1.5, "7", None, [], 2**60])
def test_numbers_that_are_none(wrong):
    """A count that is no count leaves the one before."""
    tally, _ = read({"choices": [], "usage": USAGE}, {"choices": [], "usage": {"prompt_tokens": wrong, "completion_tokens": 4}})
    assert (tally.prompt_tokens, tally.completion_tokens) == (7, 4)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "usage", "error", "delta", "finish_reason", "index", "text", "logprobs", "response", "type"]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_no_shape_raises(payload):
    """Whatever JSON an event holds, reading it raises nothing, and its kind is a kind."""
    tally = Tally()
    assert isinstance(tally.read(event(payload)), Kind)
    assert isinstance(tally.read(event({"choices": payload, "usage": payload, "message": payload})), Kind)
    assert isinstance(tally.read(event({"choices": [payload, {"delta": payload, "index": payload}]})), Kind)


@given(st.binary(max_size=100))
def test_no_bytes_raise(raw):
    """Nor do any bytes."""
    assert isinstance(Tally().read(raw), Kind)
    assert isinstance(Tally().read(b"data: " + raw + b"\n\n"), Kind)


def test_choices_for_ever_are_bounded():
    """A stream cannot fill the memory with finish reasons."""
    tally = Tally()
    for index in range(5_000):
        tally.read(event(chat({}, index=index, finish="stop")))
    assert len(tally.finish_reasons) <= 1_024


def test_split_and_read_together():
    """A whole stream cut anywhere gives the same tally."""
    stream = (
        event(chat({"content": "你好👋\u2028"})) * 3
        + event(chat({}, finish="stop"))
        + event({"choices": [], "usage": USAGE})
        + DONE
    )
    for size in (1, 2, 3, 7, 64, len(stream)):
        splitter, tally = EventSplitter(), Tally()
        for at in range(0, len(stream), size):
            for one in splitter.feed(stream[at : at + size]):
                tally.read(one)
        assert (tally.deltas, tally.completion_tokens, tally.finish_reasons, tally.done) == (3, 3, {0: "stop"}, True)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ('{"message": "boom"}', {"message": "boom"}),
        ('{"error": {"code": 500}}', {"code": 500}),
        (json.dumps(chat({"content": "x"})), chat({"content": "x"})),
        ("boom", {"message": "boom"}),
        ("null", {"message": "null"}),
        ("[DONE]", {"message": "[DONE]"}),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_event_that_is_named_error_is_one(data, told, end):
    """Whatever it says, and wherever its name stands; one of another name is what its data makes it."""
    for lines in (
        ["event: error", f"data: {data}"],
        [f"data: {data}", "event:error"],
        ["id: 1", "event: error", f"data: {data}"],
    ):
        tally, kinds = read((end.join(lines) + end + end).encode())
        assert (kinds, tally.error, tally.done) == ([Kind.ERROR], told, False)
    tally, kinds = read((f"event: errors{end}data: " + json.dumps(chat({"content": "error"})) + end + end).encode())
    assert (kinds, tally.error) == ([Kind.CONTENT], None)


@given(
    st.lists(
        st.sampled_from(
            [
                *[b'data: {"choices":[{"delta":{"content":"%s"},"usage":null}]}\n\n' % text for text in (b"a", b"", b"data: ")],
                b'data: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}\n\n',
                b'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n',
                b'data: {"choices":[{"delta":{"content":"c"}}]}\n{"choices":[{"delta":{"content":"d"}}]}\n\n',
                b": heartbeat\n\n",
                b"data: [DONE]\n\n",
                b"\n",
            ]
        ),
        min_size=1,
        max_size=6,
    )
)
def test_events_that_come_together_count_as_they_do_one_by_one(events):
    """Read at once they are as many deltas as read one after the other; what cannot be read at once has changed nothing."""
    together, apart = Tally(), Tally()
    kinds = [apart.read(event) for event in EventSplitter().feed(b"".join(events))]
    if together.read_plain(b"".join(events)):
        assert set(kinds) <= {Kind.CONTENT, Kind.OTHER}
        assert (together.deltas, apart.finish_reasons) == (apart.deltas, {})
    else:
        assert together.deltas == 0
