"""One request: its head, its way, and what it came to.

What a server says of itself (error codes, messages, labels) is cut and made printable, and withheld where it repeats a
secret that it was sent.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from backends.client import Answer, Client, Deadlines, Origin
from backends.errors import BadResponse, ConnectFailed, UpstreamError, UpstreamTimeout
from gateway.lab.load.reading import Gaps, Reading, StreamReading, WholeReading
from gateway.lab.load.sample import Outcome, Sample

LABELS = {b"x-tiergate-" + name.encode(): name for name in ("tier", "model", "route", "cache", "replica")}
CONNECT = 10.0  # seconds
MAX_CODE = 64
MAX_MESSAGE = 300
MIN_SECRET = 8  # characters of a header's value that is worth hiding: a 1 is in every text
_PATHS = {"chat": "/chat/completions", "completions": "/completions"}


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go. `keys` take turns."""

    origin: Origin
    endpoint: str
    keys: Sequence[str] = field(repr=False)
    headers: Sequence[tuple[str, str]] = field(repr=False)
    stream: bool
    timeout: float

    @property
    def path(self) -> str:
        return (self.origin.base_path or "/v1") + _PATHS[self.endpoint]


class Sender:
    def __init__(self, client: Client, target: Target, clock: Callable[[], float]) -> None:
        self._client = client
        self._target = target
        self._clock = clock
        hidden = [value for _, value in target.headers if len(value) >= MIN_SECRET]
        turns = [(_head(target, key), [key, *hidden] if key else hidden) for key in target.keys or ("",)]
        self._turns = itertools.cycle(turns)

    async def send(self, body: bytes, due: float, gaps: Gaps) -> Sample:
        """Send now; the sample once the answer is over, whatever it was. `gaps` are counted as they happen."""
        reading: Reading = StreamReading(self._clock, gaps) if self._target.stream else WholeReading()
        sent = self._clock()
        head, secrets = next(self._turns)
        head += b"content-length: %d\r\n\r\n" % len(body)
        deadlines = Deadlines(CONNECT, None, None, asyncio.get_running_loop().time() + self._target.timeout)
        answer: Answer | None = None
        failure: UpstreamError | None = None
        try:
            async with self._client.request(head, body, deadlines, reading.feed) as answer:
                await answer.relay(reading.feed)
        except UpstreamError as error:
            failure = error
        ended = self._clock()
        reading.end()
        sample = Sample(due, sent, ended, Outcome.OK)
        if answer is not None:
            sample.status = answer.status
            sample.labels = {LABELS[name]: _label(value, secrets) for name, value in answer.headers if name in LABELS}
        sample.first, sample.last, sample.output_tokens = reading.first, reading.last, reading.tokens
        sample.prompt_tokens, sample.cached_tokens = reading.tally.prompt_tokens, reading.tally.cached_tokens
        sample.outcome, sample.code = _judged(sample.status, reading, failure)
        if sample.outcome is not Outcome.OK:
            _explain(sample, reading, failure, secrets)
        return sample


def _judged(status: int, reading: Reading, failure: UpstreamError | None) -> tuple[Outcome, str]:
    match failure:
        case UpstreamTimeout():
            return Outcome.TIMEOUT, f"timeout_{failure.phase}"
        case ConnectFailed():
            return Outcome.CONNECT_FAILED, "out_of_sockets_here" if failure.ours else "connect_failed"
    if status >= 400:
        return Outcome.HTTP_ERROR, f"http_{status}"
    if reading.tally.error is not None:
        return Outcome.STREAM_ERROR, "stream_error"
    if failure is not None and not reading.begun:
        return Outcome.BROKEN, "not_http" if isinstance(failure, BadResponse) else "connection_broken"
    if failure is not None:
        return Outcome.CUT, "connection_broken"
    if reading.whole:
        return Outcome.OK, ""
    return (Outcome.CUT, "no_done") if reading.first is not None else (Outcome.BAD_ANSWER, "bad_answer")


def _explain(sample: Sample, reading: Reading, failure: UpstreamError | None, secrets: Sequence[str]) -> None:
    error = reading.tally.error or _error_of(reading.text)
    code, message = error.get("code") or error.get("type"), error.get("message")
    if sample.outcome in {Outcome.HTTP_ERROR, Outcome.STREAM_ERROR} and isinstance(code, str | int):
        sample.code = _safe(str(code), MAX_CODE, secrets)
    sample.message = str(failure) if failure is not None else _safe(str(message or ""), MAX_MESSAGE, secrets)


def _error_of(text: bytes) -> dict[str, Any]:
    """The error of a JSON answer, in OpenAI's form or in vLLM's older one."""
    try:
        answer = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(answer, dict):
        return {}
    error = answer.get("error", answer)
    return error if isinstance(error, dict) else {"message": error}


def _head(target: Target, key: str) -> bytes:
    fields = {
        "host": target.origin.authority,
        "content-type": "application/json",
        "accept": "text/event-stream" if target.stream else "application/json",
        "user-agent": "tiergate-load",
        **({"authorization": f"Bearer {key}"} if key else {}),
        **{name.lower(): value for name, value in target.headers},
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def _label(value: bytes, secrets: Sequence[str]) -> str:
    return _safe(value.partition(b";")[0].decode("latin-1").strip(), MAX_CODE, secrets)


def _safe(text: str, most: int, secrets: Sequence[str]) -> str:
    if any(secret in text for secret in secrets):
        return "(withheld: it repeats a secret)"
    text = text[:most]
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
