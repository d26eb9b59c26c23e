"""From a chosen model to its bytes: a replica, an attempt, another one where that is safe, and the settlement's facts.

Rules of this file
1. Another replica is tried only while the client has been sent nothing.
2. 408, 429, 500 and above, successes without an answer and broken connections move on; three attempts in all, two once a body
   was sent and its connection broke, and never past the pool's retry budget. 400, 413 and 422 are about the request and pass
   on; every other refusal (a redirect, 401, 403, 404 …) says that the operator's configuration is wrong.
3. All failed: the last 429 is kept, else 504 for a timeout, 503 when no replica was ready, 501 when what is asked for is nothing
   that these backends do, else 502.
4. Whatever was answered badly, its replica is told: it was fast, and would draw all requests. What no request can cause counts
   for its breaker; a refusal holds it off a moment; of one that finds fault with many requests in a row another is asked for
   its opinion, and if that has none that serves, the first one stands.
5. Every attempt holds its replica's lease by scope and tells it what it learned about the replica, not about the request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import msgspec

from backends.client import Deadlines
from backends.errors import ConnectFailed, UpstreamError, UpstreamTimeout
from backends.replica import Replica
from backends.sse import Tally
from backends.types import Outcome
from backends.upstream import UpstreamAnswer
from gateway.config import Timeouts
from gateway.dispatch.types import Attempt, Grant
from gateway.endpoints import Endpoint
from gateway.errors import ApiError, BackendAnswer
from gateway.exchange import Work
from gateway.metrics import Metrics
from gateway.refusals import waiting
from gateway.relay import NoAnswer, Sink, Start, Tee, begin, begins_well, count, holds_event, is_json, json_object, read_usage
from gateway.reply import Head
from gateway.settle import Ending
from limits.density import Density

MAX_ATTEMPTS = 3
MAX_ANSWER = 64 * 1024 * 1024
_MAX_ERROR = 1024 * 1024
_MAX_FIRST = 16 * 1024
_LATEST = 31 * 86_400.0  # seconds that a backend may ask to be left alone
_LACKING = "501"
_COMPLETE, _LEFT = Ending.COMPLETE, Ending.LEFT  # an enum member costs a look-up in its class each time
_SERVERS = 500  # statuses from here on are the replica's fault, whatever their meaning
_MOVE_ON = frozenset({408, 429})
_PASSED_ON = frozenset({400, 413, 422})
_PLAIN = frozenset({"chat", "completions"})  # what every backend has: a 404 there is of a wrong path
_MISCONFIGURED = frozenset({*range(300, 400), 401, 402, 403, 404, 405, 407, 410})  # by nothing that a client can send
_OVERFLOW = (b"maximum context length", b"context_length_exceeded", b"exceed_context_size", b"context size", b"max_model_len")


Preempt = Literal["never", "requeue", "refuse"]
"""What becomes of a batch request whose slot a realtime one gets."""


@dataclass(frozen=True, slots=True)
class Station:
    """A model as every process that serves it knows it. Its replicas and its queue are the dispatcher's.

    Each process learns its `density` for itself.
    """

    name: str
    timeouts: Timeouts
    engine_priority: bool = False  # the engine schedules by `priority`
    preempt: Preempt = "never"
    default_max_tokens: int = 1024
    prefixed: bool = False  # its balance wants to know what a prompt begins with
    token_timeout: float | None = None  # seconds for token ids of a prompt; None: nobody wants them
    density: Density = field(default_factory=Density)


@dataclass(slots=True)
class Call:
    """What is sent for one request to one model, and what is known of how it went."""

    request_id: str
    endpoint: Endpoint
    headers: bytes  # header lines that pass on from the client
    body: bytes
    model: str  # as the backend calls it
    stream: bool
    deadline: float  # absolute, the loop's clock
    work: Work
    impatient: bool = False  # the deadline is the client's own wish
    ending: Ending = Ending.NOT_SENT
    usage: int | None = None
    deltas: int = 0


class Failures(msgspec.Struct):
    """What the attempts of one request failed with, over all pools that were tried. Most requests have none."""

    limited: BackendAnswer | None = None
    timed_out: bool = False
    attempts: int = 0
    last: str = ""
    failed: tuple[str, str] | None = None  # the last attempt's model, and the reason
    retry_after: str | None = None
    lacking: bool = False  # the last attempt's backend does not do such a thing, and says so

    def error(self) -> ApiError:
        """Rule 3."""
        if self.limited is not None:  # a copy: what is raised refers to its frames, and these to us
            kept = BackendAnswer(self.limited.status, self.limited.content_type, self.limited.answer, self.limited.headers)
            kept.outcome = self.limited.outcome
            return kept
        if self.timed_out:
            message = "The model did not answer in time. Long answers are best streamed."
            return ApiError(504, "upstream_timeout", message, outcome="timeout")
        if not self.attempts:
            message = "No replica of this model is ready. Please try again shortly."
            return ApiError(503, "no_replica_ready", message, kind="overloaded_error", headers=waiting(1.0), outcome="rejected")
        if self.lacking:
            message = f"The backends of this model do not do this: {self.last}. It is forwarded as it is, not translated."
            return ApiError(501, "not_implemented", message, headers={"x-should-retry": "false"})
        message = f"Every attempt to reach this model failed; the last one: {self.last}."
        return ApiError(502, "upstream_error", message, headers=_when(self.retry_after) if self.retry_after else None)


class AttemptFailed(Exception):  # noqa: N818 - it is an outcome, told to the loop of this file only
    """One replica could not serve; nothing was sent to the client."""

    def __init__(self, reason: str, message: str, *, broke_after_send: bool = False, stands: ApiError | None = None) -> None:
        """`stands`: the answer, unless another replica serves."""
        super().__init__(message)
        self.reason = reason
        self.broke_after_send = broke_after_send
        self.stands = stands


class Unserved(Exception):  # noqa: N818 - as above
    """No replica of the pool could serve; nothing was sent to the client."""


class ContextOverflow(BackendAnswer):
    """The backend's 400 for a prompt that is longer than its context: a model with more room may still answer."""


class Forwarder:
    """Sends calls to pools."""

    def __init__(self, clock: Callable[[], float], metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics

    async def forward(self, call: Call, station: Station, grant: Grant, sink: Sink, failures: Failures) -> None:
        """Write the answer of one of the model's replicas to the sink. Raises Unserved, or ApiError for an answer."""
        tries, allowed = 0, MAX_ATTEMPTS
        stands: ApiError | None = None
        while tries < allowed:
            attempt = await grant.attempt()
            if attempt is None:
                break
            tries += 1
            if failures.failed is not None:
                self._metrics.retries.add(failures.failed)
            call.work.attempts += 1
            failures.attempts += 1
            try:
                await self._attempt(call, station, attempt, sink, failures)
            except AttemptFailed as failed:
                call.ending = Ending.FAILED
                failures.last = str(failed)
                failures.lacking = failed.reason == _LACKING
                failures.failed = station.name, failed.reason
                stands = failed.stands or stands
                if failed.broke_after_send:
                    allowed = MAX_ATTEMPTS - 1
            else:
                return
        if stands is not None:
            call.ending = Ending.REFUSED if isinstance(stands, BackendAnswer) else Ending.FAILED
            try:
                raise stands
            finally:
                stands = None  # it refers to this frame
        raise Unserved

    async def _attempt(self, call: Call, station: Station, lease: Attempt, sink: Sink, failures: Failures) -> None:
        work = call.work
        work.attempt_at = started = self._clock()
        times = station.timeouts
        deadlines = (
            Deadlines(times.connect, times.first_token, times.between_tokens, call.deadline)
            if call.stream
            else Deadlines(times.connect, None, None, call.deadline)
        )
        replica = lease.replica
        async with lease:
            work.replica = replica.name
            call.ending = _LEFT
            try:
                async with replica.client.request(_head(call, replica), call.body, deadlines) as answer:
                    if 200 <= answer.status < 300:
                        await self._deliver(call, answer, lease, sink)
                    else:
                        await self._judge(call, answer, lease, failures)
            except UpstreamError as error:
                if call.ending is Ending.COMPLETE:  # [DONE] was passed on: how the connection ends says nothing more
                    return
                ours = isinstance(error, ConnectFailed) and error.ours
                lease.settle(Outcome.NEUTRAL if ours else Outcome.FAILED)
                if isinstance(error, ConnectFailed) and not ours:
                    lease.suspect()
                self._failed(call, error, failures)
            finally:
                work.upstream += self._clock() - started
                work.attempt_at = 0.0

    async def _deliver(self, call: Call, answer: UpstreamAnswer, lease: Attempt, sink: Sink) -> None:
        """A good answer: from its first byte on there is no way back."""
        content_type = b"application/json"
        for name, value in answer.headers:
            if name == b"content-type":
                content_type = value
                break
        if call.stream and content_type[:17].lower() == b"text/event-stream":
            await self._deliver_stream(call, answer, lease, sink, content_type)
            return
        await self._deliver_whole(call, answer, lease, sink, content_type)

    async def _deliver_whole(
        self, call: Call, answer: UpstreamAnswer, lease: Attempt, sink: Sink, content_type: bytes, begun: bytes = b""
    ) -> None:
        """An answer in one piece. `begun`: what came of it already."""
        body = begun + await answer.read(MAX_ANSWER)
        call.work.last_byte_at = self._clock()
        if not begun:
            call.work.first_byte_at = call.work.last_byte_at
        try:
            if b"json" in content_type or content_type.startswith(b"text/"):  # else: embeddings as bytes, audio
                call.usage = read_usage(body, call.work, call.endpoint.dialect)
        except NoAnswer as none:
            if none.error is not None:
                self._refuse(call, lease, _status_of(none.error), body, content_type)
            lease.settle(Outcome.FAILED)
            raise AttemptFailed("malformed", f"it answered {answer.status} without an answer", broke_after_send=True) from None
        call.ending = _COMPLETE
        lease.complete()
        sink.begin(Head(answer.status, content_type, False))
        sink.write(body)

    async def _deliver_stream(self, call: Call, answer: UpstreamAnswer, lease: Attempt, sink: Sink, content_type: bytes) -> None:
        call.work.streams = True
        tee = Tee(sink, call.work)
        lane = None if tee.lane is None else tee.lane.take
        begun = False

        def begins(piece: bytes) -> None:
            nonlocal begun
            begun = True
            call.ending = Ending.CUT
            sink.flow = answer
            sink.begin(Head(answer.status, content_type, stream=True))
            tee.take(piece)

        def opens(piece: bytes) -> bool:
            """Nearly every stream: its first bytes go on in the read that they came with."""
            if not begins_well(piece):
                return False
            call.work.first_byte_at = self._clock()
            lease.first_byte()
            begins(piece)
            return True

        try:
            if not await answer.relay_if(opens, tee.take, lane):
                piece = await self._first(call, answer)
                if is_json(piece):
                    await self._deliver_whole(call, answer, lease, sink, b"application/json", piece)
                    return
                self._look(call, lease, piece)
                begins(piece)
                await answer.relay(tee.take, lane)
            tee.finish()
            if tee.unfinished:
                raise _broken("The model's stream ended before its answer did.")
            call.ending = Ending.COMPLETE
        finally:
            if begun:
                sink.flow = None
                self._streamed(call, lease, tee)

    async def _first(self, call: Call, answer: UpstreamAnswer) -> bytes:
        """What a stream begins with: a whole event, unless it is too long for one."""
        piece = await answer.first()
        call.work.first_byte_at = self._clock()
        while piece and not holds_event(piece) and len(piece) < _MAX_FIRST and not answer.complete:
            piece += await answer.first()
        return piece

    def _look(self, call: Call, lease: Attempt, piece: bytes) -> None:
        """Raises AttemptFailed or ApiError for a stream that begins with its end, or with an error."""
        start = begin(piece)
        if start is Start.NOTHING:
            lease.settle(Outcome.FAILED)
            raise AttemptFailed("empty", "it answered with an empty stream", broke_after_send=True)
        if isinstance(start, dict):
            self._refuse(call, lease, _status_of(start), msgspec.json.encode({"error": start}))
        if start is Start.GOOD:
            lease.first_byte()

    def _streamed(self, call: Call, lease: Attempt, tee: Tee) -> None:
        """A stream that had begun is over."""
        call.work.last_byte_at = self._clock()
        tally = tee.tally
        if tally.done:
            call.ending = Ending.COMPLETE
        if call.ending is Ending.COMPLETE:
            lease.settle(_shown(tally))
        else:
            tee.cut_short()
        call.deltas, call.work.broken = tally.deltas, tally.error is not None
        if tally.prompt_tokens or (tally.prompt_tokens is not None and tally.completion_tokens):
            completion = tally.completion_tokens or 0
            if not completion or call.ending is not Ending.COMPLETE:  # what was told early, as of /v1/messages, is no count
                completion = max(completion, tally.deltas)
            call.usage = count(call.work, tally.prompt_tokens, completion, tally.cached_tokens)

    async def _judge(self, call: Call, answer: UpstreamAnswer, lease: Attempt, failures: Failures) -> None:
        """An error answer: does it say something about the request, about the replica, or about the operator?"""
        body = await answer.read(_MAX_ERROR)
        headers = dict(answer.headers)
        content_type = headers.get(b"content-type", b"application/json")
        after = headers.get(b"retry-after", b"").decode("latin-1") or None
        if answer.status == 429:
            call.ending = Ending.FAILED
            failures.limited = BackendAnswer(429, content_type, body, _when(after))
            failures.limited.outcome = "limited"
        failures.retry_after = after
        self._refuse(call, lease, answer.status, body, content_type, after)

    def _refuse(
        self,
        call: Call,
        lease: Attempt,
        status: int,
        body: bytes,
        content_type: bytes = b"application/json",
        after: str | None = None,
    ) -> None:
        call.ending = Ending.FAILED
        said = status
        if status in (404, 405) and call.endpoint.name not in _PLAIN and _is_no_route(status, body):
            status = 501
        outcome = _outcome_of(status, named_a_time=after is not None)
        lease.settle(outcome, _seconds(after) if outcome is Outcome.REFUSED and after is not None else 0.0)
        if status in _MOVE_ON or status >= _SERVERS:
            raise AttemptFailed(str(status), f"it answered {said}{_said(body, lease.replica)}")
        if lease.doubted and outcome is Outcome.FAULTED:
            raise AttemptFailed(str(status), f"it answered {status}", stands=_fault(status, body, content_type))
        if status in _PASSED_ON:
            call.ending = Ending.REFUSED
        raise _fault(status, body, content_type)  # kept in no name: it refers to this frame

    def _failed(self, call: Call, error: UpstreamError, failures: Failures) -> None:
        """A connection failed. After the first byte of a stream that is the end; before it, another replica may serve."""
        timeout = isinstance(error, UpstreamTimeout)
        if call.ending is Ending.CUT:
            raise _broken(f"The model's stream broke off: {error}.", timeout=timeout) from error
        # A client whose own deadline ends the work has left it; a fleet that is too slow has failed.
        left = timeout and error.sent and call.impatient and self._clock() >= call.deadline
        call.ending = Ending.LEFT if left else Ending.FAILED
        failures.timed_out = failures.timed_out or timeout
        if timeout and self._clock() >= call.deadline:
            raise failures.error() from error
        reason = "timeout" if timeout else "connect" if isinstance(error, ConnectFailed) else "broken"
        raise AttemptFailed(reason, str(error), broke_after_send=error.sent) from error


def _head(call: Call, replica: Replica) -> bytes:
    """The request's head. The client's own credentials are never part of it."""
    endpoint = call.endpoint
    return b"POST %b%b%b%bx-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (
        (replica.root if endpoint.at_root else replica.path).encode(),
        endpoint.path,
        replica.head_lines,
        call.headers,
        call.request_id.encode(),
        len(call.body),
    )


def _when(after: str | None) -> dict[str, str]:
    """The backend's own `retry-after`, in both our forms."""
    return waiting(_seconds(after))


def _seconds(after: str | None) -> float:
    """Those of a `retry-after`; a second where it names none that can be read."""
    if after is not None and after.isascii() and after.isdigit():
        return min(float(after), _LATEST)
    try:
        moment = parsedate_to_datetime(after or "")
    except ValueError:
        return 1.0
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return min(max(1.0, (moment - datetime.now(UTC)).total_seconds()), _LATEST)


def _outcome_of(status: int, *, named_a_time: bool = False) -> Outcome:
    """What an error status says of its replica."""
    if status == 429 or (status == 503 and named_a_time):
        return Outcome.REFUSED
    if status == 501:  # "not implemented" is said of requests, and any client can send one
        return Outcome.FAULTED
    if status in _MOVE_ON or status >= _SERVERS or status in _MISCONFIGURED:
        return Outcome.FAILED
    return Outcome.FAULTED


def _shown(tally: Tally) -> Outcome:
    """What a stream that came to its end says of its replica."""
    if tally.error is not None:
        return _outcome_of(_status_of(tally.error))
    return Outcome.OK if tally.told else Outcome.FAILED


def _fault(status: int, body: bytes, content_type: bytes) -> ApiError:
    """What the client is told of an answer that is no failure of its replica's."""
    if status not in _PASSED_ON:
        message = f"A backend refuses the gateway with status {status}: the operator has to check its key, name and path."
        return ApiError(502, "backend_misconfigured", message)
    overflow = status == 400 and any(words in body for words in _OVERFLOW)
    return (ContextOverflow if overflow else BackendAnswer)(status, content_type, body)


def _broken(message: str, *, timeout: bool = False) -> ApiError:
    code = "stream_timeout" if timeout else "stream_broken"
    return ApiError(504 if timeout else 502, code, message, outcome="broken_stream")


def _is_no_route(status: int, body: bytes) -> bool:
    """Whether a backend's 404 or 405 is about its path, and not about the model that was asked for."""
    return status == 405 or b"model" not in body.lower()


def _status_of(error: dict[str, Any]) -> int:
    """The status that an error under a 200 stands for: its own code where that is one, else 500."""
    code = error.get("code")
    if isinstance(code, str) and len(code) == 3 and code.isascii() and code.isdigit():
        code = int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600 else 500


def _said(body: bytes, replica: Replica) -> str:
    """What a backend's error body says, shortened and without the key that it was asked with, for a message of ours."""
    if replica.authorization is not None:
        body = body.replace(replica.authorization.removeprefix(b"Bearer "), b"***")
    payload = json_object(body)
    error = None if payload is None else payload.get("error", payload)
    message = error.get("message", error.get("detail")) if isinstance(error, dict) else error
    return f" ({message[:300]})" if isinstance(message, str) else ""
