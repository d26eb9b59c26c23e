"""/v1/responses: a stream of named events → the answer, and back."""

import json

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from caches.assemble import assemble
from caches.replay import as_events

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
names = st.text("abcdefgh_", min_size=1, max_size=12)
statuses = st.just("completed")


def numbered(items):
    """Items whose ids tell their places."""
    return [{**item, "id": f"item_{place}"} if "id" in item else item for place, item in enumerate(items)]


@st.composite
def output_texts(draw):
    text = draw(texts)
    part = {"type": "output_text", "text": text, "annotations": []}
    if draw(st.booleans()):
        url = {"type": "url_citation", "url": "http://x", "title": "x", "start_index": 0, "end_index": 1}
        part["annotations"] = [url] * draw(st.integers(0, 2))
    if draw(st.booleans()):
        tokens = [text[at : at + 5] for at in range(0, len(text), 5)] if draw(st.booleans()) else ["a", "b"]
        logprobs = [{"token": token, "logprob": -1.0, "bytes": [], "top_logprobs": []} for token in tokens]
        part["logprobs"] = draw(st.none() | st.just(logprobs))
    return part


refusals = st.builds(lambda text: {"type": "refusal", "refusal": text}, texts)
messages = st.builds(
    lambda parts, status: {"id": "", "type": "message", "role": "assistant", "status": status, "content": parts},
    st.lists(output_texts() | refusals, max_size=3),
    statuses,
)


@st.composite
def reasonings(draw):
    item = {
        "id": "",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": t} for t in draw(st.lists(texts, max_size=2))],
    }
    if draw(st.booleans()):
        item["content"] = draw(st.none() | st.lists(texts.map(lambda t: {"type": "reasoning_text", "text": t}), max_size=2))
    if draw(st.booleans()):
        item["encrypted_content"] = draw(st.none() | names)
    return item


@st.composite
def calls(draw):
    item = {"type": "function_call", "call_id": f"call_{draw(st.integers())}", "name": draw(names), "arguments": draw(texts)}
    return item | draw(st.sampled_from([{"id": ""}, {"id": "", "status": "completed"}, {}]))


customs = st.builds(
    lambda number, name, text: {"id": "", "type": "custom_tool_call", "call_id": f"call_{number}", "name": name, "input": text},
    st.integers(), names, texts,
)  # fmt: skip
items = messages | reasonings() | calls() | customs


def unlike(output):
    """No two calls have one id: no backend does that, and the SDK refuses it."""
    known = [item["call_id"] for item in output if "call_id" in item]
    return len(known) == len(set(known))


@st.composite
def answers(draw, status=statuses):
    return {
        "id": f"resp_{draw(names)}", "object": "response", "created_at": draw(st.integers(0, 2**40)), "status": draw(status),
        "error": None, "incomplete_details": None, "instructions": draw(st.none() | texts), "metadata": {"a": "b"},
        "model": draw(names), "output": numbered(draw(st.lists(items, max_size=4).filter(unlike))), "parallel_tool_calls": True,
        "temperature": 0.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": {"input_tokens": 3, "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0}, "output_tokens": 4,
                  "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 7},
        **draw(st.dictionaries(names.map("x_{}".format), texts | st.none() | st.integers(), max_size=2)),
    }  # fmt: skip


def told(events):
    """The payload of each event, whose lines are as they must be."""
    payloads = []
    for event in events:
        name, data, *rest = event.decode().split("\n")
        assert rest == ["", ""]
        payloads.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {payloads[-1]['type']}"
    return payloads


def replay(answer):
    return as_events("responses", answer, include_usage=False)


def answer_of(*items, **fields):
    return {"id": "resp_1", "object": "response", "status": "completed", "output": [*items], **fields}


def message(*parts):
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [*parts]}


def text(said, **fields):
    return {"type": "output_text", "text": said, "annotations": [], **fields}


def shape(answer):
    return [event["type"].removeprefix("response.") for event in told(replay(answer))]


@given(answers())
def test_replay_and_assembly_are_inverse(answer):
    """The answer that a replay's stream ends with is the one it was made from, byte for byte as JSON has it."""
    assert json.loads(assemble("responses", replay(answer))) == answer


def without_parsed(value):
    """What the SDK has read, without what it adds of its own."""
    if type(value) is list:
        return [without_parsed(item) for item in value]
    if type(value) is not dict:
        return value
    return {name: without_parsed(inner) for name, inner in value.items() if name not in ("parsed", "parsed_arguments")}


@settings(max_examples=40)
@given(answers())
def test_the_sdk_makes_the_same_answer_of_a_replay(answer):
    """The OpenAI SDK takes every event for what it is called, follows the items as they grow, and ends with the answer."""
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(replay(answer)))
    )
    client = httpx.Client(transport=transport)
    with (
        openai.OpenAI(base_url="http://x", api_key="x", http_client=client) as sdk,
        sdk.responses.stream(model="m", input="") as stream,
    ):
        seen = list(stream)
        final = stream.get_final_response()
    assert without_parsed(final.to_dict(mode="json")) == answer
    said = "".join(part["text"] for item in answer["output"] if item["type"] == "message"
                   for part in item["content"] if part["type"] == "output_text")  # fmt: skip
    assert final.output_text == "".join(event.delta for event in seen if event.type == "response.output_text.delta") == said


@pytest.fixture(scope="module")
def known():
    return TypeAdapter(ResponseStreamEvent)


@settings(max_examples=20)
@given(answer=answers())
def test_every_event_is_one_of_the_api(known, answer):
    """Each event has the fields that OpenAI's own types ask for; numbers count up from 0."""
    events = told(replay(answer))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        known.validate_python({"name": "x", **event})  # of the arguments' end: some releases of the SDK ask for it


@given(answers())
def test_pieces_make_up_what_is_done(answer):
    """The deltas of each place are what its `.done` says, and the items that are done are those of the answer."""
    events = told(replay(answer))
    pieces = {}
    for event in events:
        kind, _, end = event["type"].rpartition(".")
        place = (kind, *(event.get(name) for name in ("output_index", "content_index", "summary_index")))
        if end == "delta":
            pieces.setdefault(place, []).append(event["delta"])
        elif (
            end == "done"
            and "delta" not in kind
            and (whole := event.get("text", event.get("arguments", event.get("input", event.get("refusal"))))) is not None
        ):
            assert "".join(pieces.get(place, [])) == whole
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == answer["output"]


def test_the_order_of_events():
    """Created, in progress, then each item opened, filled and done in its turn, then the whole answer; no `[DONE]`."""
    thought = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}],
               "content": [{"type": "reasoning_text", "text": "b"}], "encrypted_content": "secret"}  # fmt: skip
    call = {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}
    note = {"type": "file_path", "file_id": "x", "index": 0}
    answer = answer_of(thought, message(text("hi", annotations=[note]), {"type": "refusal", "refusal": "no"}), call)
    assert shape(answer) == [
        "created", "in_progress",
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done",
        "reasoning_summary_part.done", "content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done",
        "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.done", "output_text.annotation.added",
        "content_part.done", "content_part.added", "refusal.delta", "refusal.done", "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip


def test_an_answer_begins_empty():
    """What the first events tell of the answer and of an item is what was known then: no output, no usage, no secrets."""
    thought = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "x", "status": "completed"}
    answer = answer_of(thought, usage={"input_tokens": 1}, metrics={"x": 1}, completed_at=5, model="m")
    created, progress, added, *_ = told(replay(answer))
    begun = {"id": "resp_1", "object": "response", "status": "in_progress", "output": [], "usage": None, "completed_at": None,
             "model": "m"}  # fmt: skip
    assert created["response"] == progress["response"] == begun
    assert added["item"] == {"id": "rs_1", "type": "reasoning", "summary": [], "content": None, "status": "in_progress"}


def test_a_text_comes_in_several_pieces_with_their_logprobs():
    """As on the other endpoints; log probabilities that do not fit the text come once, with its end."""
    said = "The quick brown fox jumps over the lazy dog."
    entries = [{"token": token, "logprob": -1.0} for token in ("The", " quick", " brown", " fox", said[19:])]
    deltas = [e for e in told(replay(answer_of(message(text(said, logprobs=entries))))) if e["type"].endswith("text.delta")]
    assert len(deltas) == 3
    assert all(e["delta"] == "".join(entry["token"] for entry in e["logprobs"]) for e in deltas)
    *deltas, done = [e for e in told(replay(answer_of(message(text(said, logprobs=entries[1:]))))) if "output_text" in e["type"]]
    assert len(deltas) > 4
    assert [e["logprobs"] for e in [*deltas, done]] == [[]] * len(deltas) + [entries[1:]]


def test_an_item_of_an_unknown_kind_is_replayed_whole():
    """What nobody knows how to stream is added and done as it is."""
    item = {"id": "x_1", "type": "next_year", "what": 1}
    _, _, added, done, end = told(replay(answer_of(item)))
    assert added["item"] == done["item"] == end["response"]["output"][0] == item


@pytest.mark.parametrize(("status", "end"), [("incomplete", "incomplete"), ("failed", "failed"), (None, "completed")])
def test_an_answer_ends_as_it_did(status, end):
    """Somebody who shares an answer that was cut, in the other form, learns that it was."""
    assert shape(answer_of(status=status))[-1] == end


DONE = {"type": "response.completed", "response": {"id": "r", "output": []}}


def stream(*payloads):
    return [b"event: x\ndata: " + (p if type(p) is bytes else json.dumps(p).encode()) + b"\n\n" for p in payloads]


@pytest.mark.parametrize(
    "payloads",
    [
        [DONE],
        [{"type": "response.created", "response": {"id": "old"}}, {"type": "response.output_text.delta", "delta": "x"}, DONE],
        [{"type": "response.output_text.delta", "delta": '{"type":"response.failed","error":{}}'}, DONE],
        [{"type": "ping"}, {"type": ["error"]}, {}, DONE, b"[DONE]"],
        [{"type": "response.incomplete", "response": DONE["response"]}],
    ],
)
def test_the_answer_is_what_the_last_event_tells(payloads):
    """Whatever came before, and whether or not somebody adds a `[DONE]`."""
    assert json.loads(assemble("responses", stream(*payloads))) == DONE["response"]


@pytest.mark.parametrize(
    "payloads",
    [
        [],
        [{"type": "response.created", "response": DONE["response"]}],
        [b"[DONE]"],
        [{"type": "response.failed", "response": DONE["response"]}],
        [{"type": "error", "code": "x", "message": "x"}, DONE],
        [{"error": {"message": "x"}}, DONE],
        [b"{", DONE],
        [b"[1]", DONE],
        [b"\xff", DONE],
        [b"[" * 100_000, DONE],
        [{"type": "response.completed"}],
        [{"type": "response.completed", "response": None}],
        [{"type": "response.completed", "response": "x"}],
        [b'{"type":"response.completed","response":{"a":"\xff"}}'],
        [b'{"type":"response.completed","response":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"],
    ],
)
def test_a_stream_that_broke_has_no_answer(payloads):
    """Without its last event, after an error, or with anything that cannot be read, there is nothing to keep."""
    assert assemble("responses", stream(*payloads)) is None


def test_the_bytes_are_those_that_came():
    """The answer is kept as the backend wrote it: spacing, escapes and numbers."""
    body = b'{ "id":"r", "output" : [], "x": 1.50, "y": "\\u00e9" }'
    cut = b'event: response.completed\r\ndata: {"response":' + body + b',"type":"response.completed"}\r\n\r\n'
    assert assemble("responses", [cut[at : at + 7] for at in range(0, len(cut), 7)]) == body


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["output", "type", "content", "summary", "text", "logprobs", "token", "arguments", "input", "id",
                         "call_id", "annotations", "refusal", "status", "usage"]),
        inner | st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call", "output_text", "refusal"]),
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["output", "status", "usage", "id"]), junk | st.lists(junk, max_size=3)))
def test_hostile_answers_never_raise(answer):
    """Whatever JSON object a backend gave, it can be replayed, and ends with itself."""
    events = told(replay(answer))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["response"] == answer
