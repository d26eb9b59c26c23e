"""/v1/messages: a stream of named events → the message, and back."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caches.assemble import assemble
from caches.replay import as_events

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
names = st.text("abcdefgh_", min_size=1, max_size=12)
inputs = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
citation = {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": None, "start_char_index": 0,
            "end_char_index": 1, "file_id": None}  # fmt: skip
blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    st.builds(lambda text, count: {"type": "text", "text": text, "citations": [citation] * count}, texts, st.integers(1, 2)),
    st.builds(lambda text, signature: {"type": "thinking", "thinking": text, "signature": signature}, texts, names | st.just("")),
    st.builds(lambda data: {"type": "redacted_thinking", "data": data}, names),
    st.builds(
        lambda name, given: {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": given},
        names,
        st.dictionaries(names, inputs, max_size=3),
    ),
)


@st.composite
def answers(draw):
    stops = ["end_turn", "tool_use", "max_tokens", "stop_sequence"]
    return {
        "id": f"msg_{draw(names)}", "type": "message", "role": "assistant", "model": draw(names),
        "content": draw(st.lists(blocks, max_size=4)), "stop_reason": draw(st.sampled_from(stops)),
        "usage": {"input_tokens": 1, "output_tokens": draw(st.integers(0, 9)), "cache_read_input_tokens": 2},
        **draw(st.sampled_from([{}, {"stop_sequence": None}, {"stop_sequence": "x"}])),
        **draw(st.dictionaries(names.map("x_{}".format), texts | st.none(), max_size=2)),
    }  # fmt: skip


def told(events):
    payloads = []
    for event in events:
        name, data, *rest = event.decode().split("\n")
        assert rest == ["", ""]
        payloads.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {payloads[-1]['type']}"
    return payloads


def replay(answer):
    return as_events("messages", answer, include_usage=False)


def stream(*payloads):
    return [b"event: x\ndata: " + (p if type(p) is bytes else json.dumps(p).encode()) + b"\n\n" for p in payloads]


@given(answers())
def test_replay_and_assembly_are_inverse(answer):
    """Put together again, the events of a replay are the message they were made from."""
    assert json.loads(assemble("messages", replay(answer))) == answer


@settings(max_examples=40)
@given(answers())
def test_the_sdk_makes_the_same_message_of_a_replay(answer):
    """Anthropic's SDK follows the blocks as they grow, and ends with the message."""
    anthropic = pytest.importorskip("anthropic", reason="the Anthropic SDK is not installed")
    httpx2 = pytest.importorskip("httpx2", reason="the Anthropic SDK is of another age")
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(replay(answer)))
    )
    client = httpx2.Client(transport=transport)
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    with anthropic.Anthropic(base_url="http://x", api_key="x", http_client=client) as sdk, sdk.messages.stream(**asked) as seen:
        final = seen.get_final_message()
    made = final.to_dict(mode="json")
    assert made["content"] == answer["content"]
    assert {made[name] for name in ("id", "stop_reason")} == {answer[name] for name in ("id", "stop_reason")}
    assert made["usage"].items() >= answer["usage"].items()


def test_the_order_of_events():
    """The message, each block opened, filled and closed in its turn, why it stopped, the end; no `[DONE]`."""
    answer = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "stop_sequence": None,
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "hi"},
                    {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}],
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }  # fmt: skip
    events = told(replay(answer))
    assert [event.get("delta", {}).get("type") or event["type"] for event in events] == [
        "message_start",
        "content_block_start", "thinking_delta", "signature_delta", "content_block_stop",
        "content_block_start", "text_delta", "content_block_stop",
        "content_block_start", "input_json_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip
    assert events[0]["message"] == {
        **answer,
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 3, "output_tokens": 0},
    }
    assert events[8]["content_block"] == {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    assert events[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert events[-2]["usage"] == answer["usage"]


START = {"type": "message_start", "message": {"id": "m", "type": "message", "content": [], "usage": {"input_tokens": 3}}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}
ENDING = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1, "input_tokens": None}}
STOP = {"type": "message_stop"}
USE = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}


def piece(text):
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}}


def test_a_stream_of_a_backend():
    """Pings and unknown events between, usage told in two parts, blocks that begin with something."""
    begun = {**BLOCK, "content_block": {"type": "text", "text": "oh, "}}
    events = stream(START, {"type": "ping"}, begun, {"type": "next_year"}, DELTA, ENDING, STOP)
    assert json.loads(assemble("messages", events)) == {
        "id": "m", "type": "message", "content": [{"type": "text", "text": "oh, hi"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }  # fmt: skip


def test_an_input_without_pieces_is_empty():
    """A tool that takes nothing is called with an empty object, whether a backend sends an empty piece or none."""
    for pieces in ([], [piece("")], [piece("{"), piece("}")]):
        made = json.loads(assemble("messages", stream(START, USE, *pieces, STOP)))
        assert made["content"] == [USE["content_block"]]


@pytest.mark.parametrize(
    "payloads",
    [
        [],
        [START, BLOCK, DELTA, ENDING],
        [STOP],
        [START, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, STOP],
        [START, {"error": {"message": "x"}}, STOP],
        [START, DELTA, STOP],
        [START, BLOCK, {**DELTA, "index": 1}, STOP],
        [START, BLOCK, {**DELTA, "index": [0]}, STOP],
        [START, BLOCK, {**DELTA, "delta": {"type": "next_year_delta", "x": "y"}}, STOP],
        [START, BLOCK, {**DELTA, "delta": {"type": "text_delta", "text": 7}}, STOP],
        [START, BLOCK, {**DELTA, "delta": {"type": "text_delta"}}, STOP],
        [START, {**BLOCK, "content_block": {"type": "text", "text": 7}}, DELTA, STOP],
        [START, {**BLOCK, "content_block": 7}, STOP],
        [{**START, "message": None}, STOP],
        [START, {"type": "message_delta", "delta": None}, STOP],
        [START, USE, piece("{"), STOP],
        [START, {**BLOCK, "index": "a"}, BLOCK, STOP],
        [START, b"{", STOP],
        [START, b"[1]", STOP],
        [START, b"\xff", STOP],
        [START, b"[" * 100_000, STOP],
    ],
)
def test_a_stream_that_broke_has_no_message(payloads):
    """Without its end, after an error, or with anything that is not of the API, there is nothing to keep."""
    assert assemble("messages", stream(*payloads)) is None


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "text", "thinking", "signature", "input", "citations", "content", "index", "delta", "message",
                         "content_block", "usage", "partial_json"]),
        inner | st.sampled_from(["text", "thinking", "tool_use", "text_delta", "message_start", "content_block_start",
                                 "content_block_delta", "message_delta", "citations_delta"]),
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["content", "usage", "stop_reason", "stop_sequence", "id"]), junk | st.lists(junk)))
def test_hostile_answers_never_raise(answer):
    """Whatever JSON object a backend gave, it can be replayed."""
    assert told(replay(answer))[-1] == STOP


@given(st.lists(junk, max_size=6))
def test_hostile_streams_never_raise(payloads):
    """Whatever a backend streams, it is a message or it is none."""
    body = assemble("messages", stream(START, *payloads, STOP))
    assert body is None or type(json.loads(body)) is dict
