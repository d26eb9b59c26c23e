"""Which answers are worth keeping."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.worth import worth_keeping


def chat(message, **choice):
    return {
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": "stop", **choice}
        ],
    }


def text(said, reason="stop"):
    return {"object": "text_completion", "choices": [{"index": 0, "text": said, "finish_reason": reason}]}


def both(one, other):
    return {**one, "choices": [*one["choices"], *other["choices"]]}


def calling(*calls, content=None, reason="tool_calls"):
    return chat({"content": content, "tool_calls": list(calls)}, finish_reason=reason)


def call(arguments="{}", name="f", **more):
    return {"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def response(*items, **fields):
    return {
        "object": "response",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": items and [*items],
        **fields,
    }


def claude(*blocks, stop="end_turn"):
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [*blocks], "stop_reason": stop}


def message(said="hello", **fields):
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": said, "annotations": []}], **fields}  # fmt: skip


THOUGHT = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}], "status": None}
FUNCTION = {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": '{"x":1}', "status": "completed"}
CUSTOM = {"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls {"}
REFUSED = [{"type": "refusal", "refusal": "no"}]
TEXT = {"type": "text", "text": "hello"}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "x"}
TOOL_USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
USAGE = {"prompt_tokens": 1, "completion_tokens": 1}


@pytest.mark.parametrize(
    "answer",
    [
        chat({"content": "x"}),
        {**chat({"content": "x"}), "usage": USAGE},
        {**chat({"content": "x"}), "usage": None, "error": None},
        chat({"content": "x", "tool_calls": [], "function_call": None}),
        chat({"content": [{"type": "text", "text": "x"}]}),
        chat({"content": "", "refusal": "no"}),
        chat({"audio": {"id": "a"}}),
        calling(call()),
        calling(call('{"city": "Paris"}'), call(' {"a": [1, 2.5, null]} '), content=""),
        calling(call(reason="x"), reason="stop"),
        calling({"id": "a", "function": {"name": "f", "arguments": "{}"}}),
        calling(call({"x": 1})),
        calling({"id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls {"}}),
        chat({"function_call": {"name": "f", "arguments": "{}"}}, finish_reason="function_call"),
        both(chat({"content": "x"}), chat({"content": "y"})),
        text("x"),
        {"object": "list", "data": [{"index": 0, "embedding": [0.1]}]},
        {"object": "list", "data": [{"index": 0, "embedding": "AACAPw=="}]},
        response(message()),
        response(THOUGHT, message(), FUNCTION, usage={"input_tokens": 1}),
        response(FUNCTION),
        response(CUSTOM),
        response(message(content=REFUSED)),
        response(message(""), message()),
        claude(TEXT),
        claude(THINKING, TEXT, TOOL_USE, stop="tool_use"),
        claude(TOOL_USE, stop="tool_use"),
        claude(TEXT, stop="stop_sequence"),
    ],
)
def test_worth_keeping(answer):
    """A finished answer that says something, calls that can be run, and an embedding in either encoding are kept."""
    assert worth_keeping(answer)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"error": {"message": "slow down"}},
        {**chat({"content": "x"}), "error": {"message": "half way"}},
        {"object": "error", "message": "no", "code": 429},
        {"choices": []},
        {"choices": None},
        {"choices": "x"},
        {"choices": [None]},
        {"object": "list", "data": []},
        {"data": [{"embedding": []}]},
        {"data": [{"embedding": [0.1]}, {"index": 1}]},
        {"data": [7]},
    ],
)
def test_what_is_no_answer_is_not_kept(answer):
    """Errors, and bodies that hold no answer at all."""
    assert not worth_keeping(answer)


@pytest.mark.parametrize("reason", ["length", "content_filter", "error", "abort", "repetition", None, "new", ["stop"], {}, True])
@pytest.mark.parametrize("make", [lambda reason: chat({"content": "x"}, finish_reason=reason), lambda reason: text("x", reason)])
def test_what_was_cut_is_not_kept(make, reason):
    """Only an answer that came to its own end is, and one of two choices that did not spoils both."""
    assert not worth_keeping(make(reason))
    assert not worth_keeping(both(make("stop"), make(reason)))


@pytest.mark.parametrize(
    "answer",
    [
        chat({"content": ""}),
        chat({"content": None}),
        chat({"content": " \n\t\u3000"}),
        chat({"content": "", "refusal": " "}),
        chat({"reasoning": "thought, and said nothing", "reasoning_content": "x"}),
        chat({"tool_calls": []}),
        text(""),
        text("  \n"),
        response(),
        response(THOUGHT),
        response(message("")),
        response(message(" \n")),
        response(message(content=[])),
    ],
)
def test_what_says_nothing_is_not_kept(answer):
    """Nothing, white space, or thoughts that led to nothing: asked again, the model may do better."""
    assert not worth_keeping(answer)
    if "choices" in answer:
        assert not worth_keeping(both(text("x"), answer))


@pytest.mark.parametrize(
    "arguments", ["", " ", "{", '{"x": 1', "{'x': 1}", "x", "[1]", "null", "7", "\ud800", "[" * 9999, None, 7, [1]]
)
def test_calls_with_broken_arguments_are_not_kept(arguments):
    """A client that cannot read the arguments asks again, and would get the same from the cache for ever."""
    broken = call(arguments)
    assert not worth_keeping(calling(broken))
    assert not worth_keeping(calling(call(), broken, content="Let me look."))
    assert not worth_keeping(chat({"function_call": broken["function"], "content": "x"}, finish_reason="function_call"))
    assert not worth_keeping(response(message(), {**FUNCTION, "arguments": arguments}))


@pytest.mark.parametrize(
    "broken",
    [
        {"id": "a"},
        {"id": "a", "type": "function"},
        {"id": "a", "type": "function", "function": None},
        {"id": "a", "type": "function", "function": {"arguments": "{}"}},
        call(name=""),
        call(name=None),
        call(name=["f"]),
        call(type="next_year"),
        call(type=["function"]),
        {"id": "a", "type": "custom", "custom": {"input": "ls"}},
        {"id": "a", "type": "custom", "custom": {"name": "sh", "input": {}}},
        "f",
        None,
    ],
)
def test_calls_of_nothing_are_not_kept(broken):
    """A call without a name, or of a kind that nobody knows, can be run by no client."""
    assert not worth_keeping(calling(broken))
    assert not worth_keeping(calling(call(), broken))
    assert not worth_keeping(chat({"content": "x", "tool_calls": broken or "x"}))


@pytest.mark.parametrize(
    "answer",
    [
        *(response(message(), status=how) for how in ("incomplete", "failed", "in_progress", "queued", "cancelled", None, [])),
        response(message(), incomplete_details={"reason": "max_output_tokens"}),
        response(message(), error={"code": "server_error"}),
        response(message(status="incomplete")),
        response(message(), message(status="in_progress")),
        response(message(), {**THOUGHT, "status": "incomplete"}),
        response(message(content=None)),
        response(message(content=["x"])),
        response({**FUNCTION, "name": ""}),
        response({**CUSTOM, "input": None}),
        *(response(message(), {"type": kind, "id": "t", "status": "completed"}) for kind in (
            "web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "mcp_approval_request", "computer_call",
            "image_generation_call", "next_year", None, ["message"])),
        response(message(), None),
        response(message(), output={"0": message()}),
    ],
)  # fmt: skip
def test_responses_that_are_not_whole_are_not_kept(answer):
    """Cut, failed, still going on, in any of its items; or made by tools that the server ran."""
    assert not worth_keeping(answer)


@pytest.mark.parametrize(
    "answer",
    [
        *(claude(TEXT, stop=stop) for stop in ("max_tokens", "refusal", "pause_turn", "next_year", None, ["end_turn"])),
        claude(),
        claude(THINKING),
        claude({"type": "text", "text": " "}),
        claude(TEXT, {"type": "server_tool_use", "name": "web_search", "input": {}}),
        claude(TEXT, {**TOOL_USE, "name": ""}),
        claude(TEXT, {**TOOL_USE, "input": "{"}),
        claude(TEXT, None),
        {**claude(), "content": "hello"},
        {"type": "error", "error": {"type": "overloaded_error", "message": "x"}},
    ],
)
def test_messages_that_are_not_whole_are_not_kept(answer):
    """Of /v1/messages: cut, refused, paused, empty, or made by tools that the server ran."""
    assert not worth_keeping(answer)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
words = st.sampled_from([
    "choices", "message", "content", "tool_calls", "function", "arguments", "text", "object", "data", "embedding", "output",
    "finish_reason", "error", "function_call", "type", "name", "input", "custom", "status", "refusal", "incomplete_details",
])  # fmt: skip
values = st.sampled_from(["response", "completed", "stop", "function", "message", "reasoning", "custom_tool_call", "{}", "{"])
junk = st.recursive(
    scalars | values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=5), max_leaves=25
)


@given(st.dictionaries(words, junk, max_size=6))
def test_hostile_answers_never_raise(answer):
    """Whatever JSON object a backend gave, it is judged."""
    assert worth_keeping(answer) in (True, False)
    assert worth_keeping({"object": "response", "status": "completed", **answer}) in (True, False)
