"""The desk at work: what there is to say is said, what is said is heard, through a channel of the shared server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from backends.engine import read_engine
from backends.replica import Replica
from gateway.between.desk import TICK, Counts, Desk

_GATHERING: Final = 3.0  # seconds; longer than the longest pause before somebody connects again


class Share(Protocol):
    """How this gateway goes together with others."""

    @property
    def standing(self) -> str | None:
        """For `/ready`; None: there are no others."""
        ...

    @property
    def counts(self) -> Counts: ...

    @property
    def peers(self) -> int:
        """Other gateways that are heard."""
        ...

    @property
    def lost(self) -> int:
        """Their messages that never came."""
        ...

    @property
    def age(self) -> float | None:
        """Seconds since which something may not have been heard; None where nobody is listened to."""
        ...

    async def run(self) -> None:
        """For ever."""
        ...


class NoShare:
    """Nobody else is before these replicas, or nobody is to know."""

    standing = None
    peers = 0
    lost = 0
    age = None

    def __init__(self) -> None:
        self.counts = Counts()

    async def run(self) -> None:
        return


class Channel(Protocol):
    """As `caches.redis.bus` has it."""

    away: str
    listeners: int
    connected: int

    @property
    def open(self) -> bool: ...

    async def run(self) -> None: ...

    async def say(self, message: bytes) -> None: ...


class _Company:
    """Whether those who listened before an outage do so again, or have had their time: what is told before, some do not hear."""

    def __init__(self) -> None:
        self._most = 0
        self._times = 0
        self._since = -inf

    def met(self, listeners: int) -> None:
        """So many there must be: they were heard."""
        self._most = max(self._most, listeners)

    def there(self, channel: Channel, now: float) -> bool:
        if channel.connected != self._times:
            self._times, self._since = channel.connected, now
        listeners = channel.listeners
        if listeners < self._most and now - self._since < _GATHERING:
            return False
        self._most = listeners
        return True


class Shared:
    """`channel` is made with what is to hear its messages. `clock` is monotonic."""

    def __init__(self, desk: Desk, channel: Callable[[Callable[[bytes], None]], Channel], clock: Callable[[], float]) -> None:
        self.desk = desk
        self._clock = clock
        self._channel = channel(self._heard)
        self._company = _Company()

    @property
    def standing(self) -> str:
        if self._channel.away or self.desk.alone:
            return f"away: {self._channel.away or 'silence'}"
        return f"ok, {self.peers} others"

    @property
    def counts(self) -> Counts:
        return self.desk.counts

    @property
    def peers(self) -> int:
        return len(self.desk.peers)

    @property
    def lost(self) -> int:
        return self.desk.peers.lost

    @property
    def age(self) -> float:
        return self.desk.age(self._clock())

    def scraped(self, replica: Replica, page: bytes) -> None:
        """What the replica's server tells of itself."""
        view = read_engine(page) if self.desk.alone else None
        if view is not None:
            self.desk.glimpse(replica, view.running, view.waiting, self._clock())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(self._channel.run())
            try:
                await self._speak()
            finally:
                await self._channel.say(self.desk.farewell(self._clock()))
                listening.cancel()

    async def _speak(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            now = self._clock()
            self.desk.expire(now)
            if self._channel.open:
                message = self.desk.news(now, whole=self._company.there(self._channel, now))
                if message is not None:
                    await self._channel.say(message)

    def _heard(self, message: bytes) -> None:
        self.desk.heard(message, self._clock())
        self._company.met(self.peers + 1)
