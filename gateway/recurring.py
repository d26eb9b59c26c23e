"""Which beginnings requests share: counted where the bodies are, told to the owner, which keeps the hottest.

Rules of this file
1. One request in twenty milliseconds is looked at, at most. So it costs a busy process half a per cent, and the share of a
   front in what was seen is its share in what was sent.
2. What is counted here are digests. A front itself is told when the owner asks for it, the next time it comes by, and not kept.
3. Whoever owns the heat may be away or new: what it was not told is lost, and what it lacks it asks for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from caches.fronts import front_of
from gateway.errors import ApiError
from gateway.job import Job
from gateway.warming import Report, Seen, Told

_LOOK = 0.02  # seconds between two looks
_TELL = 1.0  # seconds between two reports
_MOST = 512  # fronts that are counted between two reports
_MOST_TOLD = 4  # fronts in one report: a MiB

Tell = Callable[[Report], Awaitable[list[bytes]]]


class NothingRecurs:
    """Nobody wants to know."""

    def note(self, job: Job, model: str, served: str, /) -> None:
        """A request that was answered, with the names of its model here and there."""


class Recurring(NothingRecurs):
    """`models` learn; `spawn` runs what is to be done behind the requests. `salted`: tenants share nothing."""

    def __init__(
        self,
        models: Collection[str],
        tell: Tell,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        clock: Callable[[], float],
        *,
        salted: bool,
    ) -> None:
        self._models = models
        self._tell = tell
        self._spawn = spawn
        self._clock = clock
        self._salted = salted
        self._look_at = self._tell_at = float("-inf")
        self._seen: dict[bytes, Seen] = {}
        self._told: dict[bytes, Told] = {}
        self._wanted: set[bytes] = set()

    def note(self, job: Job, model: str, served: str, /) -> None:
        if model not in self._models or job.endpoint.name != "chat":
            return
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK
        front = front_of(job.ask.fields)
        if front is None:
            return
        tenant = job.principal.tenant if self._salted else ""
        names = repr((model, served, tenant)).encode("utf-8", "surrogatepass")
        mark = blake2b(front, digest_size=16, key=blake2b(names, digest_size=32).digest()).digest()
        seen = self._seen.get(mark)
        if seen is not None:
            seen.times += 1
        elif len(self._seen) < _MOST:
            self._seen[mark] = Seen(model, mark, 1)
        if mark in self._wanted and len(self._told) < _MOST_TOLD:
            self._wanted.discard(mark)
            self._told[mark] = Told(model, mark, served, tenant, front)
            self._tell_at = min(self._tell_at, now + _LOOK * _MOST_TOLD)  # with others that are wanted
        if now >= self._tell_at:
            self._tell_at = now + _TELL
            self._spawn(self._say())

    async def _say(self) -> None:
        report = Report(list(self._seen.values()), list(self._told.values()))
        self._seen, self._told = {}, {}
        with suppress(ApiError):  # the owner is away
            self._wanted = set(await self._tell(report))
