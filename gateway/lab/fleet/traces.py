"""Jobs of a public trace: its times and lengths, and what its prompts have in common where it tells."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from gateway.lab.fleet.job import Job
from gateway.lab.load.arrivals import Arrival
from gateway.lab.load.traces import BLOCK, TraceError, read, spread

_COARSE = 2.0  # requests for each time that occurs: from here on a clock is thought to tick


class Trace:
    """Rows that are read once, and drawn from for each seed. Raises TraceError, OSError."""

    def __init__(self, path: Path, tick: float | None = None, limit: int | None = None) -> None:
        """`tick`: seconds over which rows are spread; None finds out."""
        self.rows = read(path, limit=limit)
        untold = sum(row.prompt_tokens is None for row in self.rows)
        if untold:
            raise TraceError(f"{path.name}: {untold} of {len(self.rows)} requests do not tell how long their prompt is")
        self.tick = tick_of(self.rows) if tick is None else tick
        self._keys = keys_of(self.rows)

    @property
    def shares(self) -> bool:
        return any(self._keys)

    def jobs(self, seed: int, block: int = BLOCK) -> list[Job]:
        """At the trace's own pace, from 0 on. Where `block` is not the trace's own, prompts have nothing in common."""
        rng = random.Random(seed)
        rows = [row._replace(blocks=keys) for row, keys in zip(self.rows, self._keys, strict=True)]
        rows = spread(rows, self.tick, rng) if self.tick else rows
        begin = rows[0].at
        return [_job(number, row, row.at - begin, block) for number, row in enumerate(rows)]


def tick_of(rows: Sequence[Arrival]) -> float:
    """What the clock of a trace ticks in, 0 where its times are fine: Mooncake's are three seconds apart, ten requests each."""
    times = sorted(Counter(row.at for row in rows))
    if len(times) < 2 or len(rows) < _COARSE * len(times):
        return 0.0
    return min(after - before for before, after in pairwise(times))


def keys_of(rows: Sequence[Arrival]) -> list[tuple[int, ...]]:
    """For each row keys of its blocks that are equal where all blocks up to there are: whatever the ids in the file stand for."""
    nodes: dict[tuple[int, int], int] = {}
    keys = []
    for row in rows:
        parent, chain = 0, []
        for block in row.blocks:
            parent = nodes.setdefault((parent, block), len(nodes) + 1)
            chain.append(parent)
        keys.append(tuple(chain))
    return keys


def _job(number: int, row: Arrival, at: float, block: int) -> Job:
    prompt = row.prompt_tokens or 1  # 0 in some traces
    return Job(number, at, prompt, row.output_tokens or 1, row.blocks[: prompt // BLOCK] if block == BLOCK else ())
