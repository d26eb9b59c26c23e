"""Chat and its streams."""

from __future__ import annotations

import time
import uuid

import openai
from openai_shared import CONNECTION_ERRORS, SYNC, TOOLS, ask, said, text_of
from record import MODEL, fault, log


def chat():
    answer = ask("[[say: hello there]]")
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == "hello there"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


def chat_unicode():
    text = 'é ü 漢字 🙂 \u2028 \\ " end'
    assert ask(f"[[say: {text}]]").choices[0].message.content == text
    assert text_of(ask(f"[[say: {text}]]", stream=True)) == text


def chat_with_every_role():
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "developer", "content": "very"},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_time", "arguments": '{"city": "Oslo"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "noon"},
        {"role": "user", "content": "[[say: thanks]]", "name": "me"},
    ]  # fmt: skip
    answer = SYNC.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    assert answer.choices[0].message.content == "thanks"


def chat_with_an_image():
    parts = [{"type": "text", "text": "[[say: a cat]]"},
             {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}}]  # fmt: skip
    answer = SYNC.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}])
    assert answer.choices[0].message.content == "a cat"


def chat_max_tokens():
    for name in ("max_tokens", "max_completion_tokens"):
        answer = ask("[[tokens: 50]]", **{name: 5})
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == 5


def chat_stop():
    answer = ask("[[say: one two three]]", stop=["two"])
    assert answer.choices[0].message.content == "one "
    assert answer.choices[0].finish_reason == "stop"


def chat_several_choices():
    answer = ask("x", n=3, temperature=1)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]


def chat_logprobs():
    answer = ask("[[say: a b c]]", logprobs=True, top_logprobs=2)
    tokens = answer.choices[0].logprobs.content
    assert "".join(token.token for token in tokens).startswith("a b c")
    assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in tokens)


def chat_extra_body():
    answer = ask("x", extra_body={"ignore_eos": True, "top_k": 4}, max_tokens=9)
    assert answer.usage.completion_tokens == 9


def chat_reasoning():
    message = ask("[[reason: let me see]] [[say: yes]]").choices[0].message
    told = message.model_extra
    assert (told.get("reasoning") or told.get("reasoning_content"), message.content) == ("let me see", "yes")


def stream():
    chunks = list(ask("[[say: hello there]]", stream=True))
    assert text_of(chunks) == "hello there"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert len({chunk.id for chunk in chunks}) == 1
    assert not any(chunk.usage for chunk in chunks), "usage was not asked for"


def stream_usage():
    *chunks, last = ask("[[say: hello there]]", stream=True, stream_options={"include_usage": True})
    assert last.choices == []
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens > 0
    assert all(chunk.choices and not chunk.usage for chunk in chunks)


def stream_several_choices():
    texts = {0: "", 1: ""}
    for chunk in ask("[[say: hello]]", n=2, temperature=1, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == {0: "hello", 1: "hello"}


def stream_logprobs():
    chunks = list(ask("[[say: a b c]]", stream=True, logprobs=True, top_logprobs=1))
    tokens = [token for chunk in chunks for choice in chunk.choices if choice.logprobs for token in choice.logprobs.content]
    assert "".join(token.token for token in tokens).startswith("a b c")


def stream_reasoning():
    chunks = list(ask("[[reason: let me see]] [[say: yes]]", stream=True))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    extras = [delta.model_extra or {} for delta in deltas]
    assert "".join(extra.get("reasoning") or extra.get("reasoning_content") or "" for extra in extras) == "let me see"
    assert text_of(chunks) == "yes"


def stream_helper():
    with SYNC.chat.completions.stream(model=MODEL, messages=said("[[say: hello there]]")) as events:
        kinds = {event.type for event in events}
        assert events.get_final_completion().choices[0].message.content == "hello there"
    assert {"chunk", "content.delta", "content.done"} <= kinds


def stream_raw_response():
    with SYNC.chat.completions.with_streaming_response.create(
        model=MODEL, messages=said("[[say: hello]]"), stream=True
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert all(line.startswith("data: ") for line in lines)


def stream_closed_early():
    """The engine is told: what nobody reads is not made."""
    mark = uuid.uuid4().hex
    fault(slow=0.05)
    chunks = ask(f"[[tokens: 400]] {mark}", stream=True, max_tokens=400)
    assert [next(iter(chunks)) for _ in range(3)]
    chunks.close()
    give_up = time.monotonic() + 8
    while not [entry for entry in log() if mark in entry["raw"] and entry["aborted"]]:
        assert time.monotonic() < give_up, "the engine went on"
        time.sleep(0.1)


def stream_broken():
    """A stream that ends in the middle is an error, not a short answer."""
    fault(cut_after_tokens=3)
    chunks = ask("[[tokens: 30]]", stream=True)
    try:
        found = list(chunks)
    except (openai.APIError, *CONNECTION_ERRORS):
        return
    raise AssertionError(f"{len(found)} chunks and no error")


def stream_error_event():
    fault(error_in_stream=3)
    try:
        list(ask("[[tokens: 30]]", stream=True))
    except openai.APIError as error:
        assert "Internal server error" in str(error), error  # noqa: PT017
        return
    raise AssertionError("no error")


CASES = (
    chat,
    chat_unicode,
    chat_with_every_role,
    chat_with_an_image,
    chat_max_tokens,
    chat_stop,
    chat_several_choices,
    chat_logprobs,
    chat_extra_body,
    chat_reasoning,
    stream,
    stream_usage,
    stream_several_choices,
    stream_logprobs,
    stream_reasoning,
    stream_helper,
    stream_raw_response,
    stream_closed_early,
    stream_broken,
    stream_error_event,
)
