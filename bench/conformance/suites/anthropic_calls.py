"""Anthropic's SDK over `/v1/messages`, which vLLM serves."""

from __future__ import annotations

import asyncio
import time
import uuid

import anthropic
from record import KEY, MODEL, NARROW_KEY, URL, Skip, fault, log, run

ROOT = URL.removesuffix("/v1")
SDK = anthropic.Anthropic(base_url=ROOT, auth_token=KEY, max_retries=0, timeout=20)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"name": name, "description": name, "input_schema": SCHEMA} for name in ("weather", "clock")]
BUSY = {"status": 429, "headers": {"retry-after-ms": "1"}, "body": {"error": {"message": "busy", "code": 429}}}


def asked(text, **fields):
    """A prompt that nobody sent before."""
    messages = [{"role": "user", "content": text}]
    return {"model": MODEL, "max_tokens": 64, "system": uuid.uuid4().hex, "messages": messages} | fields


def ask(text, sdk=SDK, **fields):
    return sdk.messages.create(**asked(text, **fields))


def refused(kind, call):
    found = None
    try:
        call()
    except anthropic.APIError as error:
        found = error
    assert type(found) is kind, f"{type(found).__name__}: {found}"
    return found


def message():
    answer = ask("[[say: hello]]")
    assert (answer.type, answer.role, answer.content[0].text) == ("message", "assistant", "hello")
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0


def api_key_header():
    """How Anthropic's own server takes a key; vLLM reads the other header only."""
    assert ask("x", extra_headers={"X-Api-Key": KEY, "Authorization": anthropic.Omit()}).content


def max_tokens():
    answer = ask("[[tokens: 50]]", max_tokens=5)
    assert (answer.stop_reason, answer.usage.output_tokens) == ("max_tokens", 5)


def stop_sequences():
    answer = ask("[[say: one two three]]", stop_sequences=["two"])
    assert answer.content[0].text == "one "


def conversation():
    messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": [{"type": "text", "text": "two"}]},
                {"role": "user", "content": [{"type": "text", "text": "[[say: three]]"}]}]  # fmt: skip
    assert SDK.messages.create(model=MODEL, max_tokens=64, messages=messages).content[0].text == "three"


def stream():
    events = list(ask("[[say: hello there]]", stream=True))
    assert (events[0].type, events[-1].type) == ("message_start", "message_stop")
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    assert "".join(delta.text for delta in deltas) == "hello there"


def stream_helper():
    with SDK.messages.stream(**asked("[[say: hello there]]")) as events:
        assert "".join(events.text_stream) == "hello there"
        final = events.get_final_message()
    assert (final.content[0].text, final.stop_reason) == ("hello there", "end_turn")
    assert final.usage.output_tokens > 0


def tools():
    answer = ask('[[tool: weather {"city": "Paris"}]] [[tool: clock {"city": "Rome"}]]', tools=TOOLS)
    calls = [block for block in answer.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == [("weather", {"city": "Paris"}), ("clock", {"city": "Rome"})]
    assert answer.stop_reason == "tool_use"


def tools_streamed():
    text = '[[tool: weather {"city": "Paris"}]] [[tool: clock {"city": "Rome"}]]'
    with SDK.messages.stream(**asked(text, tools=TOOLS)) as events:
        final = events.get_final_message()
    assert [block.input for block in final.content if block.type == "tool_use"] == [{"city": "Paris"}, {"city": "Rome"}]


def tool_choice():
    answer = ask("x", tools=TOOLS, tool_choice={"type": "tool", "name": "clock"})
    assert [block.name for block in answer.content if block.type == "tool_use"] == ["clock"]


def tool_result():
    first = ask('[[tool: weather {"city": "Paris"}]]', tools=TOOLS)
    call = next(block for block in first.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    messages = [{"role": "user", "content": "weather?"}, {"role": "assistant", "content": first.content},
                {"role": "user", "content": [result]}]  # fmt: skip
    assert SDK.messages.create(model=MODEL, max_tokens=64, messages=messages, tools=TOOLS).content[0].type == "text"


def count_tokens():
    fields = {name: value for name, value in asked("some words").items() if name != "max_tokens"}
    assert SDK.messages.count_tokens(**fields).input_tokens > 0


def error_400():
    assert "temperature" in str(refused(anthropic.BadRequestError, lambda: ask("x", extra_body={"temperature": 7})))


def error_401():
    wrong = SDK.with_options(auth_token="sk-wrong")
    refused(anthropic.AuthenticationError, lambda: ask("x", wrong))


def error_403():
    if not NARROW_KEY:
        raise Skip("no keys with fewer rights are set up for this target")
    narrow = SDK.with_options(auth_token=NARROW_KEY)
    refused(anthropic.PermissionDeniedError, lambda: ask("x", narrow, model="conform-large"))


def error_404():
    error = refused(anthropic.NotFoundError, lambda: ask("x", model="no-such-model"))
    assert error.body["error"]["message"]


def error_429():
    fault(**BUSY)
    refused(anthropic.RateLimitError, lambda: ask("x"))


def retry():
    fault(**BUSY, times=1)
    assert ask("[[say: at last]]", SDK.with_options(max_retries=2)).content[0].text == "at last"


def timeout():
    fault(hang_before_headers=3.0)
    refused(anthropic.APITimeoutError, lambda: ask("x", SDK.with_options(timeout=0.5)))


def stream_broken():
    fault(cut_after_tokens=3)
    try:
        found = list(ask("[[tokens: 30]]", stream=True))
    except Exception:  # noqa: BLE001 - the SDK's, or its HTTP library's
        return
    raise AssertionError(f"{len(found)} events and no error")


def stream_closed_early():
    """The engine is told: what nobody reads is not made."""
    mark = uuid.uuid4().hex
    fault(slow=0.05)
    events = ask(f"[[tokens: 400]] {mark}", stream=True, max_tokens=400)
    assert [next(iter(events)) for _ in range(5)]
    events.close()
    give_up = time.monotonic() + 8
    while not [entry for entry in log() if mark in entry["raw"] and entry["aborted"]]:
        assert time.monotonic() < give_up, "the engine went on"
        time.sleep(0.1)


async def many_at_once():
    async with anthropic.AsyncAnthropic(base_url=ROOT, auth_token=KEY, max_retries=0) as sdk:
        answers = await asyncio.gather(*(sdk.messages.create(**asked(f"[[say: {at}]]")) for at in range(32)))
    assert [answer.content[0].text for answer in answers] == [str(at) for at in range(32)]


CASES = [
    message, api_key_header, max_tokens, stop_sequences, conversation, stream, stream_helper, tools, tools_streamed,
    tool_choice, tool_result, count_tokens, error_400, error_401, error_403, error_404, error_429, retry, timeout,
    stream_broken, stream_closed_early, many_at_once,
]  # fmt: skip

if __name__ == "__main__":
    run(CASES)
