"""Answers whose usage counts more than one call."""

from __future__ import annotations

import msgspec

from caches.types import Flow
from gateway.relay import Sink
from gateway.reply import Head

Raw = msgspec.Raw
members_of = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.encode


class Totalled:
    """Passes an answer on with the tokens of earlier calls in its usage."""

    def __init__(self, sink: Sink, used: tuple[int, int]) -> None:
        self._sink = sink
        self._used = used

    @property
    def flow(self) -> Flow | None:
        return self._sink.flow

    @flow.setter
    def flow(self, flow: Flow | None) -> None:
        self._sink.flow = flow

    def begin(self, head: Head) -> None:
        self._sink.begin(head)

    def write(self, data: bytes, usage_only: bool = False) -> None:
        self._sink.write(with_usage(data, self._used), usage_only)

    def last(self) -> None:
        self._sink.last()


def with_usage(body: bytes, more: tuple[int, int]) -> bytes:
    """An answer whose usage has so many more tokens of prompt and of completion; as it is where it tells none."""
    if not any(more):
        return body
    try:
        members = members_of(body)
        usage = msgspec.json.decode(members["usage"])
        prompt, completion = usage_of(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, LookupError):
        return body
    if not isinstance(usage, dict) or not prompt + completion:
        return body
    prompt, completion = prompt + more[0], completion + more[1]
    usage |= {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return _encode({**members, "usage": Raw(_encode(usage))})


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


_answer = msgspec.json.Decoder(_Answer).decode


def usage_of(body: bytes) -> tuple[int, int]:
    try:
        usage = _answer(body).usage
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return 0, 0
    return (0, 0) if usage is None else (max(0, usage.prompt_tokens), max(0, usage.completion_tokens or 0))
