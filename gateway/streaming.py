"""A replica's stream on its way to who asked for it: how it begins, how it goes on, and what is known once it is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from backends.sse import Tally
from backends.types import Outcome
from backends.upstream import UpstreamAnswer
from gateway.call import AttemptFailed, Call
from gateway.dispatch.types import Attempt
from gateway.errors import ApiError
from gateway.faults import outcome_of, refuse, status_of
from gateway.lane import Texts
from gateway.relay import Sink, Start, Tee, begin, begins_well, count, holds_event, is_json
from gateway.reply import Head
from gateway.settle import Ending

_MAX_FIRST = 16 * 1024

Whole = Callable[[Call, UpstreamAnswer, Attempt, Sink, bytes, bytes], Awaitable[None]]
"""What delivers an answer in one piece."""


class Streams:
    """All of one process."""

    def __init__(self, clock: Callable[[], float], whole: Whole) -> None:
        self._clock = clock
        self._whole = whole
        self._texts = Texts()

    async def deliver(self, call: Call, answer: UpstreamAnswer, lease: Attempt, sink: Sink, content_type: bytes) -> None:
        """Pass a stream on. Raises AttemptFailed and ApiError, the latter also for one that had begun and broke off."""
        call.work.streams = True
        tee = Tee(sink, call.work, self._texts)
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
                    await self._whole(call, answer, lease, sink, b"application/json", piece)
                    return
                self._look(call, lease, piece)
                begins(piece)
                await answer.relay(tee.take, lane)
            tee.finish()
            if tee.unfinished:
                raise broken("The model's stream ended before its answer did.")
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
            refuse(call, lease, status_of(start), msgspec.json.encode({"error": start}))
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


def _shown(tally: Tally) -> Outcome:
    """What a stream that came to its end says of its replica."""
    if tally.error is not None:
        return outcome_of(status_of(tally.error))
    return Outcome.OK if tally.told else Outcome.FAILED


def broken(message: str, *, timeout: bool = False) -> ApiError:
    """What ends a stream that had begun."""
    code = "stream_timeout" if timeout else "stream_broken"
    return ApiError(504 if timeout else 502, code, message, outcome="broken_stream")
