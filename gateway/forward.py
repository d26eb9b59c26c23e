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

from backends.client import Deadlines
from backends.errors import ConnectFailed, UpstreamError, UpstreamTimeout
from backends.replica import Replica
from backends.types import Outcome
from backends.upstream import UpstreamAnswer
from gateway.call import AttemptFailed, Call, Failures, Station, Unserved
from gateway.dispatch.types import Attempt, Grant
from gateway.errors import ApiError, BackendAnswer
from gateway.faults import LACKING, refuse, status_of
from gateway.metrics import Metrics
from gateway.relay import NoAnswer, Sink, read_usage
from gateway.reply import Head
from gateway.retry_after import when
from gateway.settle import Ending
from gateway.streaming import Streams, broken

MAX_ATTEMPTS = 3
MAX_ANSWER = 64 * 1024 * 1024
_MAX_ERROR = 1024 * 1024
_COMPLETE, _LEFT = Ending.COMPLETE, Ending.LEFT  # an enum member costs a look-up in its class each time


class Forwarder:
    """Sends calls to pools."""

    def __init__(self, clock: Callable[[], float], metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._streams = Streams(clock, self._deliver_whole)

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
                await self._attempt(call, station, attempt, sink, failures, new=allowed < MAX_ATTEMPTS)
            except AttemptFailed as failed:
                call.ending = Ending.FAILED
                failures.last = str(failed)
                failures.lacking = failed.reason == LACKING
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

    async def _attempt(self, call: Call, station: Station, lease: Attempt, sink: Sink, failures: Failures, *, new: bool) -> None:
        """`new`: its body was sent before and may have been read, so it goes out once, on a fresh connection."""
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
                async with replica.client.request(_head(call, replica), call.body, deadlines, new=new) as answer:
                    if 200 <= answer.status < 300:
                        await self._deliver(call, answer, lease, sink)
                    else:
                        await self._judge(call, answer, lease, failures)
            except UpstreamError as error:
                if call.ending is Ending.COMPLETE:  # [DONE] was passed on: how the connection ends says nothing more
                    return
                lease.settle(_outcome(call, error))
                if isinstance(error, ConnectFailed) and not error.ours:
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
            await self._streams.deliver(call, answer, lease, sink, content_type)
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
                refuse(call, lease, status_of(none.error), body, content_type)
            lease.settle(Outcome.FAILED)
            raise AttemptFailed("malformed", f"it answered {answer.status} without an answer", broke_after_send=True) from None
        call.ending = _COMPLETE
        lease.complete()
        sink.begin(Head(answer.status, content_type, False))
        sink.write(body)

    async def _judge(self, call: Call, answer: UpstreamAnswer, lease: Attempt, failures: Failures) -> None:
        """An error answer: does it say something about the request, about the replica, or about the operator?"""
        body = await answer.read(_MAX_ERROR)
        headers = dict(answer.headers)
        content_type = headers.get(b"content-type", b"application/json")
        after = headers.get(b"retry-after", b"").decode("latin-1") or None
        if answer.status == 429:
            call.ending = Ending.FAILED
            failures.limited = BackendAnswer(429, content_type, body, when(after))
            failures.limited.outcome = "limited"
        failures.retry_after = after
        refuse(call, lease, answer.status, body, content_type, after)

    def _failed(self, call: Call, error: UpstreamError, failures: Failures) -> None:
        """A connection failed. After the first byte of a stream that is the end; before it, another replica may serve."""
        timeout = isinstance(error, UpstreamTimeout)
        # A timer may ring a moment early: then it is over, though by the clock it is not.
        over = isinstance(error, UpstreamTimeout) and (error.phase == "total" or self._clock() >= call.deadline)
        if call.ending is Ending.CUT:
            raise broken(f"The model's stream broke off: {error}.", timeout=timeout) from error
        # A client whose own deadline ends the work has left it; a fleet that is too slow has failed.
        left = over and error.sent and call.impatient
        call.ending = Ending.LEFT if left else Ending.FAILED
        failures.timed_out = failures.timed_out or timeout
        if over:
            raise failures.error() from error
        reason = "timeout" if timeout else "connect" if isinstance(error, ConnectFailed) else "broken"
        raise AttemptFailed(reason, str(error), broke_after_send=error.sent) from error


def _outcome(call: Call, error: UpstreamError) -> Outcome:
    """What a failed attempt says of its replica: nothing where we lacked what it takes, or where its client's own time was up."""
    ours = isinstance(error, ConnectFailed) and error.ours
    hasty = isinstance(error, UpstreamTimeout) and error.phase == "total" and call.impatient
    return Outcome.NEUTRAL if ours or hasty else Outcome.FAILED


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
