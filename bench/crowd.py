"""Many streams at once, one token each 50 ms: what a token costs, how late the latest is, and the memory meanwhile.

The direct way has the same streams: what is late there is late by the machine, the upstream or the clients.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.cells import weighed
from bench.figures import percentile
from bench.load import Bodies, Caller, Load, drive
from bench.records import Crowd, Round
from bench.rounds import Cells, Entrant, Plan
from bench.upstream import Paced

PACE_MS = 50
_SPREAD = 0.5  # seconds over which the streams begin
_MOMENT = 0.7  # of the streams' length: all of them run then, and their buffers are what they are
_CORES = 3.0  # beyond which a gateway is not asked to carry so many streams: few streams cost more a token than many do
_PROBED, _PROBED_WRITES = 64, 20  # streams, and tokens of each


class Listener(Caller):
    """Notes the time between one piece of a stream and the next."""

    gaps: list[float]

    def __init__(self, gaps: list[float]) -> None:
        self.gaps = gaps
        self.heard = 0.0

    async def call(self, head: bytes, body: bytes, *, stream: Paced | None) -> tuple[float, float]:
        self.heard = 0.0
        return await super().call(head, body, stream=stream)

    def on_body(self, piece: bytes) -> None:
        super().on_body(piece)
        now = time.perf_counter()
        if self.heard:
            self.gaps.append(now - self.heard)
        self.heard = now


@dataclass(frozen=True, slots=True)
class Streams:
    count: int
    writes: int

    @property
    def _load(self) -> Load:
        return Load(self.count, self.count, stream=Paced(PACE_MS, 1, self.writes), spread=_SPREAD)

    async def fit(self, entrant: Entrant, bodies: Bodies, plan: Plan) -> Load | None:  # noqa: ARG002 - the protocol's
        """One that would need far more than a core for it is spared, as its users would be."""
        probed = min(_PROBED, self.count)
        few = Load(probed, probed, stream=Paced(PACE_MS, 1, _PROBED_WRITES), spread=_SPREAD)
        spent, _ = await weighed(entrant, bodies, few)
        each = (spent or 0.0) / (probed * _PROBED_WRITES)
        if each * self.count * 1e3 / PACE_MS > _CORES:
            raise RuntimeError(f"not asked for {self.count} streams: {probed} of them take {each * 1e6:.0f} µs a token")
        return self._load

    async def run(self, entrant: Entrant, bodies: Bodies, load: Load, into: Round) -> None:
        gaps: list[float] = []
        memory = asyncio.create_task(_memory(entrant, load))
        with collector_off():
            before = entrant.running.cpu() if entrant.running else 0.0
            await drive(entrant.target, bodies, load, lambda: Listener(gaps))
            spent = entrant.running.cpu() - before if entrant.running else None
        late = [gap * 1e3 - PACE_MS for gap in gaps]
        into.crowds[str(self.count)] = Crowd(
            token_us=None if spent is None else spent / (self.count * self.writes) * 1e6,
            late_p99=percentile(late, 0.99),
            late_worst=max(late),
            rss_mib=await memory,
        )


async def _memory(entrant: Entrant, load: Load) -> float | None:
    """MiB. Its processes are looked for beforehand, since that takes longer than a stream may wait."""
    if entrant.running is None or load.stream is None:
        return None
    tree = entrant.running.tree()
    await asyncio.sleep(_SPREAD + (load.stream.seconds - _SPREAD) * _MOMENT)
    held: int = sum(process.memory_info().rss for process in tree)
    return held / 2**20


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """So that it is not our own garbage that makes a token late."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def cells(counts: Sequence[int], writes: int) -> Cells:
    return {f"{count} streams": Streams(count, writes) for count in counts}
