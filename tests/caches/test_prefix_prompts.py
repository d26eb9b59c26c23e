import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.prompts import prompt_parts

TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
IMAGE = "data:image/png;base64," + "A" * 5000


def spelled(body, endpoint="chat"):
    parts, _ = prompt_parts(body, endpoint)
    return b"".join(parts)


def said(role, content):
    return {"role": role, "content": content}


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), TEXT), min_size=2, max_size=8), st.data())
def test_the_next_turn_begins_with_this_one(turns, data):
    """The bytes of a conversation begin with the bytes of each earlier state of it, whatever is spelled differently."""
    messages = [said(role, text) for role, text in turns]
    cut = data.draw(st.integers(1, len(messages) - 1))
    earlier = [dict(reversed(message.items())) for message in messages[:cut]]
    for endpoint in ("chat", "messages"):
        later = spelled({"messages": messages, "tools": [{"name": "t"}], "temperature": 1}, endpoint)
        assert later.startswith(spelled({"tools": [{"name": "t"}], "messages": earlier, "max_tokens": 5}, endpoint))


@given(TEXT, TEXT, TEXT)
def test_texts_that_begin_alike_are_spelled_alike_from_their_start(common, one, other):
    """A long text with another end has the same bytes up to there, however long either is."""
    for body in (lambda text: {"messages": [said("user", text)]}, lambda text: {"messages": [said("user", [{"text": text}])]}):
        first, second = spelled(body(common + one)), spelled(body(common + other))
        same = len(spelled(body(common))) - len(spelled(body("")))
        assert first[:same] == second[:same]
    assert spelled({"prompt": common + one}, "completions").startswith(common.encode())


def test_the_last_answer_is_found():
    """It is the last run of what the model itself made, with its tool calls."""
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    turns = [said("user", "a"), said("assistant", "b"), said("user", "c"), call, said("tool", "d")]
    assert prompt_parts({"messages": turns}, "chat")[1] == (3, 4)
    assert prompt_parts({"messages": turns[:3], "tools": [1]}, "chat")[1] == (2, 3)
    assert prompt_parts({"messages": turns[:1]}, "chat")[1] is None
    items = [said("user", "a"), {"type": "reasoning"}, {"type": "function_call", "name": "f"}, {"type": "function_call_output"}]
    assert prompt_parts({"input": items, "instructions": "be brief"}, "responses")[1] == (2, 4)


def test_a_response_is_continued_by_its_items():
    """A question that was a string is the first item of the next turn."""
    first = spelled({"input": "What?", "instructions": "be brief"}, "responses")
    items = [said("user", "What?"), {"type": "message", "role": "assistant", "content": []}, said("user", "Why?")]
    assert spelled({"input": items, "instructions": "be brief"}, "responses").startswith(first)


@pytest.mark.parametrize("name", ["tools", "documents", "chat_template", "chat_template_kwargs", "reasoning_effort"])
def test_what_stands_in_front_of_the_messages_counts_from_the_first_byte(name):
    """Other tools, documents or settings of the template are another prompt from its start; sampling is not."""
    messages = [said("user", "x" * 40)]
    assert spelled({"messages": messages, name: ["a"]})[:32] != spelled({"messages": messages, name: ["b"]})[:32]
    assert spelled({"messages": messages, "temperature": 0.5, "seed": 4}) == spelled({"messages": messages})


def test_of_several_prompts_the_first_counts():
    """A list of prompts is placed by its first; token ids are a prompt too."""
    assert spelled({"prompt": ["one", "two"]}, "completions") == b"one"
    ids = spelled({"prompt": [[5, 6, 7], [8]]}, "completions")
    assert ids == spelled({"prompt": [5, 6, 7]}, "completions")
    assert spelled({"prompt": [5, 6, 7, 8]}, "completions").startswith(ids)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda data: {"type": "image_url", "image_url": {"url": data}},
        lambda data: {"type": "image", "source": {"type": "base64", "data": data}},
        lambda data: {"type": "input_image", "image_url": data},
        lambda data: {"type": "tool_result", "content": [{"type": "image", "source": {"type": "base64", "data": data}}]},
    ],
)
def test_an_image_is_told_apart_without_being_read(wrap):
    """Embedded data takes a bounded number of bytes, and two images differ; text beside it stays whole."""
    text = "w" * 9000
    body = {"messages": [said("user", [{"type": "text", "text": text}, wrap(IMAGE)])]}
    other = {"messages": [said("user", [{"type": "text", "text": text}, wrap(IMAGE + "B")])]}
    assert text.encode() in spelled(body)
    assert len(spelled(body)) < 12_000
    assert spelled(body) != spelled(other)


@pytest.mark.parametrize("part", ["text", "tool_result"])
def test_what_a_model_reads_as_text_is_never_cut(part):
    """A long text, also a tool's or a document's, is there from its first to its last byte."""
    long = string.ascii_letters * 400
    inner = {"type": part, "text": long} if part == "text" else {"type": part, "content": long}
    document = {"type": "document", "source": {"type": "text", "data": long}}
    assert spelled({"messages": [said("user", [inner, document])]}, "messages").count(long.encode()) == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "type", "content", "output", "text"]), inner)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["messages", "prompt", "input", "tools", "system", "instructions"]), JSON))
def test_nothing_that_can_be_sent_is_an_error(body):
    """Whatever a body holds, it has a prompt or none; the answer lies within it."""
    for endpoint in ("chat", "completions", "responses", "messages", "embeddings", "tokenize"):
        parts, answer = prompt_parts(body, endpoint)
        assert all(isinstance(part, bytes) for part in parts)
        assert answer is None or 0 <= answer[0] < answer[1] <= len(parts)


def test_a_text_that_cannot_be_written_is_no_prompt():
    """Half of a surrogate pair, or a number beyond all bounds, makes a request that nobody can place."""
    assert prompt_parts({"messages": [said("user", "\ud800")]}, "chat") == ([], None)
    assert prompt_parts({"prompt": [2**70]}, "completions") == ([], None)
