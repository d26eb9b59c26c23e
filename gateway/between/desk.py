"""One gateway among others: what it has to tell, and what becomes of what it hears. No I/O, no clock of its own.

    news()      every `TICK` seconds: a message, where something changed or `HEARTBEAT` has passed
    heard()     whatever comes; its own messages come back, and tell how old its knowledge is at most: they come in order, so all
                that others had said before one was sent has been heard when it is back
    expire()    every `TICK` seconds, heard or not

What others have in flight stands on the replicas, where balances add it to their own; what they placed goes into the index.
Where its own messages do not come back it hears nobody: that is `alone`, and the placings know. What an engine tells of itself
then stands for what others have there: late, and without the lengths of prompts, but more than nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final, Protocol

from backends.pool import Pool
from backends.replica import Replica
from caches.chain import Chain
from caches.crowd import NoCrowd
from caches.prefix import PrefixIndex
from gateway.between.heat import Heat, NoHeat
from gateway.between.peers import SILENCE, Peers
from gateway.between.words import ANSWERED, MOST_EVENTS, MOST_REPLICAS, PLACED, VERSION, Event, Load, News, Seal

TICK: Final = 0.025  # seconds; with the way there and back well below 50 ms
HEARTBEAT: Final = 0.25
_PIECE: Final = 64 * 1024  # bytes of events in one message
_BACKLOG: Final = 2 * 1024 * 1024  # of those that wait to be told
_MEMORY: Final = 50  # prompts
_GLIMPSE: Final = 10.0  # seconds for which an engine's own numbers are good
_EVENT: Final = 32  # bytes of an event beside what it tells


class Advised(Protocol):
    """A pool's placing: who wants to know what is cached where."""

    index: PrefixIndex
    crowd: NoCrowd
    heat: NoHeat
    alone: bool

    def missed(self, name: str) -> None: ...


@dataclass(slots=True, eq=False)
class Known:
    """One model's replicas, as they were last looked at."""

    pool: Pool
    placing: Advised | None
    seen: Sequence[Replica] = ()
    engines: dict[str, int] = field(default_factory=dict)  # by name
    prompt: float = 0.0  # tokens of one, on average


@dataclass(slots=True)
class Counts:
    sent: int = 0
    sent_bytes: int = 0
    heard: int = 0
    heard_bytes: int = 0
    refused: int = 0


class Desk:
    def __init__(self, seal: Seal, node: bytes, models: Iterable[tuple[Pool, Advised | None]]) -> None:
        """`node`: 8 bytes that no other gateway has."""
        self.counts = Counts()
        self.peers = Peers()
        self.alone = True
        self._seal = seal
        self._node = node
        self._models = [Known(pool, placing) for pool, placing in models]
        self._where: dict[int, tuple[Known, str]] = {}
        self._engines: dict[Replica, int] = {}
        self._number = 0
        self._said: list[Load] = []
        self._sent = -inf
        self._events: deque[Event] = deque()
        self._waiting = 0  # bytes
        self._under_way: deque[tuple[int, float]] = deque(maxlen=1024)
        self._fresh = -inf
        self._glimpsed: dict[Replica, float] = {}
        for known in self._models:
            if known.placing is not None:
                known.placing.heat = Heat(known.engines, partial(self._note, known))
                known.placing.alone = True
        self._look()

    def age(self, now: float) -> float:
        """Seconds: whatever others had said so long ago has been heard."""
        return now - self._fresh

    # -- what it tells

    def news(self, now: float, *, whole: bool = True) -> bytes | None:
        """`whole`: what was placed is told now, and not kept for when more listen."""
        self._look()
        loads, events = self._loads(), self._piece() if whole else []
        if loads == self._said and not events and now - self._sent < HEARTBEAT:
            return None
        self._said, self._sent = loads, now
        return self._message(loads, events, now)

    def farewell(self, now: float) -> bytes:
        """It has nothing in flight any more."""
        return self._message([], [], now)

    def _message(self, loads: list[Load], events: list[Event], now: float) -> bytes:
        self._number += 1
        message = self._seal.close(News(VERSION, self._node, self._number, loads, events))
        self._under_way.append((self._number, now))
        self.counts.sent += 1
        self.counts.sent_bytes += len(message)
        return message

    def _loads(self) -> list[Load]:
        found: dict[int, Load] = {}
        for known in self._models:
            for replica in known.seen:
                if replica.inflight:
                    engine = known.engines[replica.name]
                    _, pending, inflight = found.get(engine, (engine, 0, 0))
                    found[engine] = engine, pending + replica.pending, inflight + replica.inflight
        return list(found.values())[:MOST_REPLICAS]

    def _note(self, known: Known, event: Event) -> None:
        if event.kind == PLACED:
            known.prompt += (event.tokens - known.prompt) / _MEMORY
        self._events.append(event)
        self._waiting += len(event.what) + _EVENT
        while self._waiting > _BACKLOG:  # nobody takes them: what is newest is worth most
            self._waiting -= len(self._events.popleft().what) + _EVENT

    def _piece(self) -> list[Event]:
        events: list[Event] = []
        size, waiting = 0, self._events
        while waiting and size < _PIECE and len(events) < MOST_EVENTS:
            event = waiting.popleft()
            size += len(event.what) + _EVENT
            events.append(event)
        self._waiting -= size
        return events

    # -- what it hears

    def heard(self, message: bytes, now: float) -> None:
        news = self._seal.open(message)
        if news is None:
            self.counts.refused += 1
        elif news.node == self._node:
            self._returned(news.number)
            self.expire(now)
        elif (changed := self.peers.hear(news, now)) is not None:
            self.counts.heard += 1
            self.counts.heard_bytes += len(message)
            self._advise(changed)
            for event in news.events:
                self._obey(event)

    def expire(self, now: float) -> None:
        self._advise(self.peers.expire(now))
        alone = self.age(now) > SILENCE
        if alone != self.alone:
            self.alone = alone
            for known in self._models:
                if known.placing is not None:
                    known.placing.alone = alone
        if self._glimpsed:
            for replica in [replica for replica, seen in self._glimpsed.items() if not alone or now - seen > _GLIMPSE]:
                del self._glimpsed[replica]
                self._advise_of(replica)

    def glimpse(self, replica: Replica, running: float, waiting: float, now: float) -> None:
        """What an engine says of itself: so many requests, whoever sent them."""
        known, _ = self._where.get(self._engines.get(replica, 0), (None, ""))
        if self.alone and known is not None:
            others = max(0, int(running + waiting) - replica.inflight)
            replica.others_inflight, replica.others_pending = others, int(min(waiting, others) * known.prompt)
            if replica.order is not None:
                replica.order.moved(replica)
            self._glimpsed[replica] = now

    def _returned(self, number: int) -> None:
        while self._under_way and self._under_way[0][0] <= number:
            self._fresh = self._under_way.popleft()[1]

    def _advise(self, changed: set[int]) -> None:
        if changed:
            for replica, engine in self._engines.items():
                if engine in changed:
                    self._advise_of(replica)

    def _advise_of(self, replica: Replica) -> None:
        replica.others_pending, replica.others_inflight = self.peers.totals.get(self._engines.get(replica, 0), (0, 0))
        if replica.order is not None:
            replica.order.moved(replica)

    def _obey(self, event: Event) -> None:
        where = self._where.get(event.engine)
        if where is None or (placing := where[0].placing) is None:
            return
        name = where[1]
        try:
            if event.kind == PLACED:
                prompt = Chain.unpack(event.what)
                placing.index.add(name, prompt, event.tokens)
                placing.crowd.came(prompt)
            elif event.kind == ANSWERED:
                placing.index.answered(name, Chain((), 0, end=int.from_bytes(event.what[:8])), event.tokens)
            else:
                placing.missed(name)
        except ValueError:
            self.counts.refused += 1

    def _look(self) -> None:
        """Which replicas there are. `Pool.replicas` is replaced, never edited."""
        for known in self._models:
            if known.seen is not known.pool.replicas:
                self._meet(known)

    def _meet(self, known: Known) -> None:
        for replica in known.seen:
            self._engines.pop(replica, None)
            self._glimpsed.pop(replica, None)
        known.seen = known.pool.replicas
        for engine, (other, _) in list(self._where.items()):
            if other is known:
                del self._where[engine]
        known.engines.clear()
        for replica in known.seen:
            engine = known.engines[replica.name] = self._engines[replica] = self._seal.engine(
                known.pool.name, address_of(replica)
            )
            self._where[engine] = known, replica.name
            self._advise_of(replica)


def address_of(replica: Replica) -> str:
    """Where its engine is; what has no address of its own has a name."""
    origin = replica.client.origin
    return replica.name if origin is None else f"{origin.scheme}://{replica.authority.decode()}{replica.path}"
