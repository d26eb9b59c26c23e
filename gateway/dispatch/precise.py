"""Placing by what engines say that they have cached, where they do, and by what was sent there where they do not.

Rules of this file
1. Of a replica whose events are followed from its first one on, or from where its cache was empty, they are the whole truth.
   Where some were missed they tell of a part, and what was sent there may tell of more. Where none come, only that counts.
2. A request whose token ids are not known in time is placed by what was sent where. Nothing waits here.
3. An engine that was started anew is heard from its beginning. One that says it has what it then computes is not believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from operator import itemgetter

from backends.balance import Balance
from backends.replica import Replica
from backends.types import Ask
from caches.chain import Chain
from caches.crowd import Crowd
from caches.precise import PreciseIndex
from caches.prefix import PrefixIndex
from caches.sequence import Heard, Sequence
from gateway.dispatch.placing import Placed, Placing
from gateway.dispatch.types import WorkAsk
from gateway.dispatch.unplaced import UNPLACED, Unplaced
from gateway.families import Labels
from gateway.metrics import Metrics


@dataclass(slots=True)
class Choices:
    """Requests by how their replica was chosen."""

    precise: int = 0
    approximate: int = 0


class PreciselyPlaced(Placed):
    """A request whose token ids are known."""

    __slots__ = ("_ids", "_precise")

    def __init__(self, packed: bytes, tokens: int, placing: PrecisePlacing, ids: Chain) -> None:
        """Raises ValueError."""
        super().__init__(packed, tokens, placing)
        self._precise = placing
        self._ids = ids

    def ask(self, ask: Ask) -> Ask:
        super().ask(ask)
        ask.cached = self._expected = self._precise.known(self._ids, self.tokens, dict(self._expected))
        ask.holders = ()
        return ask

    def sent(self, replica: Replica) -> None:
        super().sent(replica)
        if replica.name in self._precise.followed:
            self._precise.precise.sent(replica.name, self._ids)


class PrecisePlacing(Placing):
    """One pool. `followed`: its replicas whose engines are listened to; see `gateway.dispatch.listening`."""

    __slots__ = ("choices", "followed", "heard", "precise")

    def __init__(self, model: str, index: PrefixIndex, precise: PreciseIndex) -> None:
        super().__init__(model, index)
        self.precise = precise
        self.followed: dict[str, Sequence] = {}
        self.heard = Heard()
        self.choices = Choices()

    @property
    def hearing(self) -> bool:
        return any(sequence.live for sequence in self.followed.values())

    def hears(self, name: str) -> bool:
        sequence = self.followed.get(name)
        return sequence is not None and sequence.live

    def place(self, work: WorkAsk) -> Unplaced:
        if work.ids and self.hearing:
            try:
                ids = Chain.unpack(work.ids)
                placed = PreciselyPlaced(work.prefix, work.prompt_tokens, self, ids)
            except ValueError:  # a worker's fault is no reason to refuse
                return UNPLACED
            self.choices.precise += 1
            return placed
        self.choices.approximate += 1
        return super().place(work)

    def known(self, ids: Chain, tokens: int, cached: dict[str, int]) -> dict[str, int]:
        """`cached`, what replicas may hold going by what was sent there, put right by what their engines say."""
        told = self.precise.match(ids, tokens)
        for name, sequence in self.followed.items():
            if not sequence.live:
                continue
            if self.precise.whole(name):
                cached[name] = told.get(name, 0)
            else:
                cached[name] = max(told.get(name, 0), cached.get(name, 0))
        return dict(sorted([entry for entry in cached.items() if entry[1]], key=itemgetter(1), reverse=True))

    def drop(self, name: str) -> None:
        super().drop(name)
        sequence = self.followed.get(name)
        if sequence is not None:
            sequence.forget()

    def missed(self, name: str) -> None:
        super().drop(name)
        sequence = self.followed.get(name)
        if sequence is not None:
            sequence.doubt()

    def listen(self, name: str, sequence: Sequence) -> None:
        """From now on its engine is heard."""
        self.followed[name] = sequence

    def deafen(self, name: str) -> None:
        """Not any more."""
        self.followed.pop(name, None)
        self.precise.drop(name)


def precise_placing(
    model: str, balance: Balance, tokens: int | None, precise: PreciseIndex, clock: Callable[[], float] = time.monotonic
) -> PrecisePlacing:
    """`tokens`: the room of a replica that does not tell its own."""
    assert balance.wants_prefix, "the config has been checked"
    placing = PrecisePlacing(model, PrefixIndex() if tokens is None else PrefixIndex(tokens=tokens), precise)
    if balance.wants_crowd:
        placing.crowd = Crowd(clock)
    return placing


def register(metrics: Metrics, placings: Mapping[str, PrecisePlacing]) -> None:
    """Add what can be counted of these; where there are none, empty families."""

    def choices() -> Iterator[tuple[Labels, float]]:
        for model, placing in placings.items():
            yield (model, "precise"), placing.choices.precise
            yield (model, "approximate"), placing.choices.approximate

    def heard() -> Iterator[tuple[Labels, float]]:
        for model, placing in placings.items():
            for what, count in asdict(placing.heard).items():
                yield (model, what), count

    metrics.total("prefix_choices", "Requests by what their replica was chosen by.", ("model", "by"), choices)
    metrics.total("kv_events", "Batches of KV cache events, and what went wrong with them.", ("model", "what"), heard)
    metrics.gauge(
        "kv_events_live",
        "1 when all that the engine said of its cache is known.",
        ("model", "replica"),
        lambda: [
            ((model, name), float(sequence.live)) for model, one in placings.items() for name, sequence in one.followed.items()
        ],
    )
