"""One JSON answer → SSE events, and back; and which answers are worth keeping."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.assemble import assemble
from caches.replay import as_events

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
names = st.text("abcdefgh_", min_size=1, max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | texts
unknown = st.dictionaries(names.map("x_{}".format), scalars | st.lists(scalars, max_size=3), max_size=2)
usages = st.fixed_dictionaries(
    {"prompt_tokens": st.integers(0, 9), "completion_tokens": st.integers(0, 9)},
    optional={"prompt_tokens_details": st.none() | st.fixed_dictionaries({"cached_tokens": st.integers(0, 9)})},
)


@st.composite
def logprob_entries(draw, text):
    """One entry a token: the tokens make up the text, or they do not."""
    if draw(st.booleans()):
        size = draw(st.integers(1, 9))
        tokens = [text[i : i + size] for i in range(0, len(text), size)]
    else:
        tokens = draw(st.lists(texts, max_size=5))
    top = draw(st.sampled_from([[], None]))
    return [{"token": token, "logprob": -0.5, "bytes": list(token.encode()), "top_logprobs": top} for token in tokens]


@st.composite
def tool_calls(draw):
    count = draw(st.integers(1, 3))
    return [
        {
            "id": f"call-{n}",
            "type": "function",
            "function": {"name": draw(names), "arguments": draw(texts), **draw(unknown)},
            **draw(unknown),
        }
        for n in range(count)
    ]


@st.composite
def chat_choices(draw, index):
    content = draw(st.none() | texts)
    message = {"role": "assistant", "content": content, **draw(unknown)}
    for name in draw(st.sets(st.sampled_from(["reasoning", "reasoning_content", "refusal"]))):
        message[name] = draw(st.none() | texts)
    if draw(st.booleans()):
        message["tool_calls"] = draw(tool_calls())
    if draw(st.booleans()):
        message["function_call"] = draw(st.none() | st.fixed_dictionaries({"name": names, "arguments": texts}))
    choice = {"index": index, "message": message, "finish_reason": draw(st.sampled_from(["stop", "tool_calls", "length"]))}
    choice |= draw(unknown)
    if draw(st.booleans()):
        choice["stop_reason"] = draw(st.none() | st.integers(0, 9) | texts)
    if draw(st.booleans()):
        choice["token_ids"] = draw(st.lists(st.integers(0, 9), min_size=1))
    if draw(st.booleans()):
        lists = {"content": draw(st.none() | logprob_entries(content or ""))}
        if draw(st.booleans()):
            lists["refusal"] = draw(st.none() | logprob_entries(message.get("refusal") or ""))
        choice["logprobs"] = draw(st.none() | st.just(lists))
    return choice


@st.composite
def text_choices(draw, index):
    text = draw(texts)
    choice = {"index": index, "text": text, "finish_reason": draw(st.sampled_from(["stop", "length"])), **draw(unknown)}
    if draw(st.booleans()):
        tokens = [entry["token"] for entry in draw(logprob_entries(text))]
        choice["logprobs"] = {
            "tokens": tokens,
            "token_logprobs": [None, *[-0.25 for _ in tokens[1:]]] if tokens else [],
            "top_logprobs": draw(st.sampled_from([None, [{"a": -1.0}] * len(tokens)])),
            "text_offset": list(range(len(tokens))),
        }
    return choice


@st.composite
def answers(draw):
    chat = draw(st.booleans())
    answer = {
        "id": draw(names),
        "object": "chat.completion" if chat else "text_completion",
        "created": draw(st.integers(0, 2**40)),
        "model": draw(names),
        "choices": [draw((chat_choices if chat else text_choices)(index)) for index in range(draw(st.integers(1, 3)))],
        **draw(unknown),
    }
    if draw(st.booleans()):
        answer["system_fingerprint"] = draw(st.none() | names)
    if draw(st.booleans()):
        answer["usage"] = draw(usages)
    return answer


def endpoint_of(answer):
    return "completions" if answer.get("object") == "text_completion" else "chat"


def chunks_of(events):
    assert all(event.startswith(b"data: ") and event.endswith(b"\n\n") and event.count(b"\n") == 2 for event in events)
    assert events[-1] == b"data: [DONE]\n\n"
    return [json.loads(event[6:]) for event in events[:-1]]


@given(answers())
def test_replay_and_assembly_are_inverse(answer):
    """Put together again, the events of a replay are the answer they were made from, field by field."""
    before = copy.deepcopy(answer)
    events = as_events(endpoint_of(answer), answer, include_usage=True)
    assert answer == before
    assert json.loads(assemble(endpoint_of(answer), events)) == answer


@given(answers())
def test_every_chunk_is_a_chunk(answer):
    """Each chunk has the envelope, and a choice with its index and a finish reason that is null until the last one."""
    kind = "chat.completion.chunk" if endpoint_of(answer) == "chat" else "text_completion"
    finished = set()
    for chunk in chunks_of(as_events(endpoint_of(answer), answer, include_usage=False)):
        assert chunk["object"] == kind
        assert all(chunk[name] == answer[name] for name in ("id", "created", "model"))
        assert chunk.get("system_fingerprint") == answer.get("system_fingerprint")
        assert "usage" not in chunk
        (choice,) = chunk["choices"]
        assert choice["index"] not in finished
        if choice["finish_reason"] is not None:
            finished.add(choice["index"])
        assert "finish_reason" in choice
        assert ("logprobs" in choice) == ("logprobs" in answer["choices"][choice["index"]])
    assert finished == {choice["index"] for choice in answer["choices"]}


@given(answers())
def test_usage_only_if_asked_for(answer):
    """The usage chunk is the last before `[DONE]`, has `choices: []`, and is there only if asked for and known."""
    chunks = chunks_of(as_events(endpoint_of(answer), answer, include_usage=True))
    with_usage = [chunk for chunk in chunks if "usage" in chunk]
    if "usage" in answer:
        assert with_usage == chunks[-1:]
        assert (chunks[-1]["choices"], chunks[-1]["usage"]) == ([], answer["usage"])
    else:
        assert with_usage == []


def chat(message, **choice):
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop", **choice}],
    }


def deltas_of(answer):
    return [chunk["choices"][0]["delta"] for chunk in chunks_of(as_events(endpoint_of(answer), answer, include_usage=False))]


def test_a_text_comes_in_several_deltas():
    """The role comes first, then the content in pieces, then an empty delta with the finish reason."""
    deltas = deltas_of(chat({"content": "The quick brown fox jumps over the lazy dog."}))
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert len(deltas) > 4
    assert all(list(delta) == ["content"] for delta in deltas[1:-1])
    assert deltas[-1] == {}


def test_a_long_text_comes_in_a_bounded_number_of_deltas():
    """However long the answer is, its replay has at most some dozens of events for a text."""
    assert len(deltas_of(chat({"content": "x" * 1_000_000}))) <= 66


@pytest.mark.parametrize("cluster", ["👩‍👩‍👧‍👦", "e\u0301", "👍🏽", "❤️", "กำ", "a" + "\u0308" * 5])
def test_marks_stay_with_their_letters(cluster):
    """A text is not cut inside what a reader sees as one character."""
    pieces = [delta["content"] for delta in deltas_of(chat({"content": cluster * 40}))[1:-1]]
    assert len(pieces) > 4
    assert all(piece.count(cluster[0]) >= 1 and piece.endswith(cluster) and piece.startswith(cluster) for piece in pieces)


def test_endless_marks_are_cut_nevertheless():
    """A text that is nothing but marks still comes in bounded pieces."""
    pieces = deltas_of(chat({"content": "\u0301" * 2000}))
    assert max(len(delta.get("content", "")) for delta in pieces) < 100


def test_tool_calls_start_with_their_name():
    """A call's first delta has index, id, type, name and empty arguments; the next have the index and a piece each."""
    arguments = '{"city": "Paris, France"}'
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": f"f{n}", "arguments": arguments}} for n in range(2)]
    deltas = [delta["tool_calls"] for delta in deltas_of(chat({"content": None, "tool_calls": calls})) if "tool_calls" in delta]
    assert all(len(delta) == 1 for delta in deltas)
    for n in range(2):
        mine = [delta[0] for delta in deltas if delta[0]["index"] == n]
        assert mine[0] == {"type": "function", "id": f"c{n}", "index": n, "function": {"name": f"f{n}", "arguments": ""}}
        assert len(mine) > 2
        assert all(set(piece) == {"index", "function"} and set(piece["function"]) == {"arguments"} for piece in mine[1:])
        assert "".join(piece["function"]["arguments"] for piece in mine) == arguments


def test_unusual_calls_survive_the_replay():
    """A call of an unknown kind, and arguments that are no text, come in one delta and are put together again."""
    calls = [
        {"id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
        {"id": "b", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
    ]
    answer = chat({"content": None, "tool_calls": calls})
    assert [delta["tool_calls"] for delta in deltas_of(answer) if "tool_calls" in delta] == [
        [{"index": 0, **calls[0]}],
        [{"index": 1, **calls[1]}],
    ]
    assert json.loads(assemble("chat", as_events(endpoint_of(answer), answer, include_usage=False))) == answer


def test_reasoning_comes_before_the_content():
    """A reasoning model's replay thinks first, as the live stream did."""
    deltas = deltas_of(chat({"content": "four", "reasoning": "two and two", "reasoning_content": "x"}))
    assert [name for delta in deltas for name in delta] == ["role", "content", *["reasoning"] * 2, "reasoning_content", "content"]


def test_logprobs_go_with_their_tokens():
    """Where tokens make up the text, each piece of it bears the logprobs of its own tokens."""
    text = "The quick brown fox jumps over the lazy dog."
    entries = [{"token": word, "logprob": -1.0, "top_logprobs": []} for word in ("The", " quick", " brown", " fox", text[19:])]
    chunks = chunks_of(as_events("chat", chat({"content": text}, logprobs={"content": entries}), include_usage=False))
    pieces = [(c["choices"][0]["delta"].get("content"), c["choices"][0]["logprobs"]) for c in chunks]
    told = [(text, "".join(e["token"] for e in logprobs["content"])) for text, logprobs in pieces if logprobs]
    assert len(told) == 3
    assert all(text == tokens for text, tokens in told)


def test_other_logprobs_come_once():
    """What is not a list as long as the tokens goes with the first piece alone, so nothing is doubled."""
    words = ["one two three ", "four five six ", "seven eight nine"]
    logprobs = {"content": [{"token": word} for word in words], "refusal": [{"token": "no"}], "note": 7}
    answer = chat({"content": "".join(words)}, logprobs=logprobs)
    assert json.loads(assemble("chat", as_events(endpoint_of(answer), answer, include_usage=False))) == answer


def test_empty_or_null_calls_are_none():
    """A message with `tool_calls: []` or null is replayed without any."""
    for calls in ([], None):
        assert not any("tool_calls" in delta for delta in deltas_of(chat({"content": "x", "tool_calls": calls})))


def test_once_only_fields_come_once():
    """What is neither envelope nor choice goes with the first chunk alone."""
    chunks = chunks_of(
        as_events("chat", {**chat({"content": "hello"}), "prompt_logprobs": None, "service_tier": "x"}, include_usage=True)
    )
    assert [("service_tier" in chunk, "prompt_logprobs" in chunk) for chunk in chunks] == [
        (True, True),
        *[(False, False)] * (len(chunks) - 1),
    ]


junk = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "tool_calls",
                    "function",
                    "arguments",
                    "logprobs",
                    "tokens",
                    "text",
                    "object",
                    "data",
                    "embedding",
                    "finish_reason",
                    "error",
                    "usage",
                    "function_call",
                    "index",
                    "token",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
objects = st.dictionaries(st.sampled_from(["choices", "data", "usage", "object", "error"]), junk | st.lists(junk, max_size=3))


@given(objects, st.sampled_from(["chat", "completions"]), st.booleans())
def test_hostile_answers_never_raise(answer, endpoint, include_usage):
    """Whatever JSON object a backend gave, replaying it does not raise."""
    assert as_events(endpoint, answer, include_usage=include_usage)[-1] == b"data: [DONE]\n\n"
