"""What is measured of each gateway: the cells that all have, and those that tiergate alone has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bench.figures import tail
from bench.load import CONNECTIONS, Bodies, Load, Same, Taken, Target, drive
from bench.records import Round
from bench.rounds import Cell, Cells, Entrant, Plan, fitted, took
from bench.upstream import USUAL, Paced

COALESCED = replace(USUAL, events=8)
_SIZE_CONNECTIONS = 8
_TURNS = 3  # of the streams' connections in one cell, at most


async def weighed(entrant: Entrant, bodies: Bodies, load: Load) -> tuple[float | None, Taken]:
    """CPU seconds of the gateway while it carries the load (the direct way has none), and how long the answers took."""
    before = entrant.running.cpu() if entrant.running else 0.0
    taken = await drive(entrant.target, bodies, load)
    return (entrant.running.cpu() - before if entrant.running else None), taken


async def _each(entrant: Entrant, bodies: Bodies, load: Load) -> tuple[float | None, Taken]:
    """The same, in microseconds a request."""
    spent, taken = await weighed(entrant, bodies, load)
    return (None if spent is None else spent / load.requests * 1e6), taken


class Requests:
    """0.5 KB unstreamed, over the usual number of connections."""

    async def fit(self, entrant: Entrant, bodies: Bodies, plan: Plan) -> Load | None:
        rate = 4 * CONNECTIONS / await took(entrant.target, bodies, Load(4 * CONNECTIONS))
        return Load(fitted(rate, plan.seconds, CONNECTIONS, plan.most))

    async def run(self, entrant: Entrant, bodies: Bodies, load: Load, into: Round) -> None:
        into.request_us, taken = await _each(entrant, bodies, load)
        into.many = tail(taken.whole)


class Single:
    """The same over one connection: the latency at leisure."""

    async def fit(self, entrant: Entrant, bodies: Bodies, plan: Plan) -> Load | None:
        rate = 16 / await took(entrant.target, bodies, Load(16, 1))
        return Load(fitted(rate, plan.seconds / 2, 16, plan.most), 1)

    async def run(self, entrant: Entrant, bodies: Bodies, load: Load, into: Round) -> None:
        into.one = tail((await drive(entrant.target, bodies, load)).whole)


@dataclass(frozen=True, slots=True)
class Streams:
    paced: Paced = USUAL

    async def fit(self, entrant: Entrant, bodies: Bodies, plan: Plan) -> Load | None:
        load = Load(CONNECTIONS, stream=self.paced, spread=self.paced.seconds)
        turns = max(1, min(_TURNS, round(2 * plan.seconds / await took(entrant.target, bodies, load))))
        return replace(load, requests=CONNECTIONS * turns)

    async def run(self, entrant: Entrant, bodies: Bodies, load: Load, into: Round) -> None:
        spent, taken = await weighed(entrant, bodies, load)
        each = None if spent is None else spent / (load.requests * self.paced.tokens) * 1e6
        if self.paced == USUAL:
            into.token_us, into.ttft = each, tail(taken.first)
        else:
            into.coalesced_us = each


@dataclass(frozen=True, slots=True)
class Size:
    """Unstreamed, with a body of so many bytes."""

    name: str
    bytes: int

    async def fit(self, entrant: Entrant, bodies: Bodies, plan: Plan) -> Load | None:
        load = Load(_SIZE_CONNECTIONS, _SIZE_CONNECTIONS, size=self.bytes)
        rate = _SIZE_CONNECTIONS / await took(entrant.target, bodies, load)
        return replace(load, requests=fitted(rate, plan.seconds / 2, _SIZE_CONNECTIONS, plan.most))

    async def run(self, entrant: Entrant, bodies: Bodies, load: Load, into: Round) -> None:
        spent, _ = await _each(entrant, bodies, load)
        if spent is not None:
            into.sizes[self.name] = spent


@dataclass(frozen=True, slots=True)
class Kind:
    """As `Requests`, with one kind of request alone, where a gateway has several models and the first is its own choice."""

    name: str
    narrowed: Callable[[Target], Target] = lambda target: target
    bodies: Callable[[], Bodies] = Bodies

    async def fit(self, entrant: Entrant, bodies: Bodies, plan: Plan) -> Load | None:
        return await Requests().fit(self._narrow(entrant), bodies, plan) if entrant.target.also else None

    async def run(self, entrant: Entrant, bodies: Bodies, load: Load, into: Round) -> None:  # noqa: ARG002 - the protocol's
        mine, sent = self._narrow(entrant), self.bodies()
        await drive(mine.target, sent, Load(CONNECTIONS, 1))  # of a request that is always the same, each model's is kept now
        spent, _ = await _each(mine, sent, load)
        if spent is not None:
            into.kinds[self.name] = spent

    def _narrow(self, entrant: Entrant) -> Entrant:
        return replace(entrant, target=self.narrowed(entrant.target))


AUTO, NAMED, HIT = "auto", "named", "exact hit"
KINDS = (
    Kind(AUTO, lambda target: replace(target, also=())),
    Kind(NAMED, lambda target: replace(target, model=target.also[0], also=target.also[1:])),
    Kind(HIT, bodies=Same),
)


def base(sizes: Mapping[str, int]) -> Cells:
    """What all gateways have, before the usual two replicas."""
    cells: dict[str, Cell] = {"requests": Requests(), "single": Single(), "streams": Streams(), "coalesced": Streams(COALESCED)}
    cells |= {kind.name: kind for kind in KINDS}
    return cells | {name: Size(name, size) for name, size in sizes.items()}
