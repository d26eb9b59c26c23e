"""From a checked request to its answer: a place in the engine, then tokens at its pace, whole or as a stream.

The head of a stream goes out before the request has a place, as vLLM's does: a queued stream is a 200 that says nothing.
Faults that concern tokens are applied here. A departed client cancels the coroutine; the lease gives everything back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.lab.fake.engine import Engine, Job, Lease
from gateway.lab.fake.errors import VLLMError
from gateway.lab.fake.exchange import Exchange, hang
from gateway.lab.fake.faults import Fault
from gateway.lab.fake.reply import Reply
from gateway.lab.fake.style import Ask

DONE = b"data: [DONE]\n\n"
_MALFORMED = b'data: {"id":"broken","choices":[{"index":0,"delta":{"con\n\n'
_NO_FAULT = Fault()


class Format(Protocol):
    """`named`: the stream is of named events, and an event of that kind ends it."""

    ask: Ask
    named: bool

    def opening(self, index: int) -> bytes: ...
    def events(self, reply: Reply, index: int) -> list[bytes]: ...
    def aborted(self, index: int) -> bytes: ...
    def usage_event(self, total: int, cached: int, reasoning: int) -> bytes: ...
    def ended(self) -> bytes: ...
    def failed(self, error: VLLMError) -> bytes: ...
    def whole(self, replies: Sequence[Reply], total: int, cached: int) -> dict[str, Any]: ...


class ChunkEnds:
    """How a stream of OpenAI's chunks ends."""

    named = False

    def ended(self) -> bytes:
        return DONE

    def failed(self, error: VLLMError) -> bytes:
        return error.event()


def job(ask: Ask, body: dict[str, Any], replies: Sequence[Reply], x: Exchange, adapter: str | None) -> Job:
    """The header `X-Vllm-Priority` wins over the body's `priority`, as in vLLM."""
    longest = max(reply.tokens for reply in replies)
    slow = x.fault.slow if x.fault is not None else 0.0
    priority = body.get("priority") or 0
    header = x.header(b"x-vllm-priority")
    if header is not None and header.lstrip(b"-").isdigit():
        priority = int(header)
    return Job(ask.prompt, longest, len(replies), priority, (body.get("cache_salt"), adapter), slow)


async def answer(x: Exchange, engine: Engine, form: Format, replies: Sequence[Reply], work: Job) -> None:
    lease = engine.lease(work)
    x.entry.request_id = form.ask.id
    x.entry.prompt_tokens = form.ask.prompt_tokens
    lease.written = "".join(replies[0].content).encode("utf-8", "replace")
    if form.ask.stream:
        await x.open_stream()
        await _stream(x, lease, form, replies)
    else:
        await _whole(x, lease, form, replies)


async def _whole(x: Exchange, lease: Lease, form: Format, replies: Sequence[Reply]) -> None:
    fault = x.fault or _NO_FAULT
    total = sum(reply.tokens for reply in replies)
    async with lease:
        x.entry.cached_tokens = lease.cached_tokens
        await hang(fault.hang_before_first_token)
        try:
            await lease.whole(lease.job.reply, total)
        finally:
            x.entry.tokens = lease.made
        x.first_token()
        lease.finish = "error" if fault.error_in_stream else replies[0].finish
    if fault.error_in_stream:
        raise _broken(fault)
    value = form.whole(replies, total, lease.cached_tokens)
    if fault.usage_missing:
        value.pop("usage", None)
    await x.json(200, value)


async def _stream(x: Exchange, lease: Lease, form: Format, replies: Sequence[Reply]) -> None:
    fault = x.fault or _NO_FAULT
    async with lease:
        x.entry.cached_tokens = lease.cached_tokens
        await hang(fault.hang_before_first_token)
        queues = [form.events(reply, index) for index, reply in enumerate(replies)]
        if x.fault is None and not lease.paced and not lease.engine.paused:
            await _at_once(x, lease, form, queues)
        else:
            broken = await _paced(x, lease, form, queues)
            if broken:
                lease.finish = "error"
                return
        lease.finish = "abort" if lease.aborted else replies[0].finish
    if form.ask.include_usage and not fault.usage_missing and not fault.usage_on_content_chunk:
        reasoning = sum(len(reply.reasoning) for reply in replies)
        await x.body(form.usage_event(lease.made, lease.cached_tokens, reasoning), more=True)
    if not fault.drop_done:
        await x.body(form.ended(), more=True)
    await hang(fault.hang_at_end)
    await x.body(b"", more=False)


async def _at_once(x: Exchange, lease: Lease, form: Format, queues: Sequence[list[bytes]]) -> None:
    """The quick way: nothing to wait for and nothing to go wrong."""
    lease.prefilled()
    x.first_token()
    entry, write, made = x.entry, x.write, 0
    try:
        for index in range(len(queues)):
            if opening := form.opening(index):
                await write(opening)
        for step in range(lease.job.reply):
            for queue in queues:
                if step < len(queue):
                    made += 1
                    await write(queue[step])
    finally:
        lease.count(made)
        entry.tokens = made


async def _paced(x: Exchange, lease: Lease, form: Format, queues: Sequence[list[bytes]]) -> bool:
    """Token by token; True when an error ended the stream."""
    fault = x.fault or _NO_FAULT
    for step in range(lease.job.reply):
        if step in (fault.cut_after_tokens, fault.error_after()) or lease.aborted:
            break
        await lease.token(step)
        if step == 0:
            x.first_token()
            for index in range(len(queues)):
                if opening := form.opening(index):
                    await x.body(opening, more=True)
        if step == fault.malformed_after():
            await x.body(_MALFORMED, more=True)
        for queue in queues:
            if step < len(queue):
                lease.count(1)
                x.entry.tokens = lease.made
                await x.body(_with_usage(queue[step], form, lease, fault) if step == len(queue) - 1 else queue[step], more=True)
    return await _ended(x, lease, form, queues, fault)


async def _ended(x: Exchange, lease: Lease, form: Format, queues: Sequence[list[bytes]], fault: Fault) -> bool:
    """What stands at the end of the tokens: a cut, an error, an abort of the engine's, or nothing."""
    if fault.cut_after_tokens is not None:
        await x.cut()
    if fault.error_after() is not None:
        await x.body(form.failed(_broken(fault)), more=True)
        if not fault.drop_done and not form.named:
            await x.body(DONE, more=True)
        await x.body(b"", more=False)
        return True
    if lease.aborted and lease.made < sum(map(len, queues)):
        for index in range(len(queues)):
            await x.body(form.aborted(index), more=True)
    return False


def _with_usage(event: bytes, form: Format, lease: Lease, fault: Fault) -> bytes:
    """The last chunk of a choice, with the usage on it when the fault says so."""
    if not fault.usage_on_content_chunk or form.named:
        return event
    usage = form.usage_event(lease.made, lease.cached_tokens, 0)
    counted = usage[usage.index(b',"usage":') : usage.index(b',"system_fingerprint"')]
    at = event.rindex(b"}\n\n")
    return event[:at] + counted + event[at:]


def _broken(fault: Fault) -> VLLMError:
    where = fault.error_in_stream
    told = where.get("error") if isinstance(where, Mapping) else None
    if isinstance(told, dict):
        return VLLMError(int(told.get("code", 500)), str(told.get("type")), str(told.get("message")), told.get("param"))
    return VLLMError(500, "InternalServerError", "Internal server error")
