"""Jobs drawn from ServeGen's models of the clients of a production service (alibaba/ServeGen), as its archives hold them.

`chunk-N-trace.csv` is one client: rows of window start in seconds, requests a second, coefficient of variation of the gaps,
family (Gamma or Weibull) and its shape and scale. `chunk-N-dataset.json` are that client's lengths: window start ->
{"input_tokens", "output_tokens": "{length: probability}"}. A client without lengths has those of another one; where no archive
has any, lengths are lognormal (medians of 1,000 and 200 tokens). Prompts have nothing in common: the models do not tell.
"""

from __future__ import annotations

import bisect
import csv
import heapq
import io
import itertools
import json
import math
import random
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gateway.lab.fleet.job import Job
from gateway.lab.load.traces import MAX_TOKENS, TraceError

_NAME = re.compile(r"chunk-(\d+)-(trace\.csv|dataset\.json)$")
_LENGTH = re.compile(r"(\d+)\s*:")  # of a dict as Python writes it
_MOST_BYTES = 64 << 20  # of one member
_MOST_CLIENTS = 10_000
_LEAST_WEIBULL = 0.02  # below it the scale is no number any more
Draw = Callable[[random.Random], int]


class Window(NamedTuple):
    begin: float
    rate: float
    family: str
    shape: float


class Lengths:
    """A distribution of lengths."""

    def __init__(self, table: Mapping[int, float]) -> None:
        self._values = sorted(table)
        self._sums = list(itertools.accumulate(table[value] for value in self._values))

    def __call__(self, rng: random.Random) -> int:
        at = bisect.bisect_right(self._sums, rng.random() * self._sums[-1])
        return max(1, self._values[min(at, len(self._values) - 1)])


class Client(NamedTuple):
    windows: list[Window]
    lengths: list[tuple[float, Draw, Draw]]  # from when on, of prompts, of answers

    def drawn(self, at: float) -> tuple[Draw, Draw]:
        place = bisect.bisect_right(self.lengths, at, key=lambda row: row[0]) - 1
        _, prompt, output = self.lengths[max(0, place)]
        return prompt, output


def is_servegen(path: Path) -> bool:
    return path.name.endswith((".tar.gz", ".tgz", ".tar"))


class ServeGen:
    """Raises TraceError, OSError."""

    def __init__(self, paths: Sequence[Path]) -> None:
        windows: dict[int, list[Window]] = {}
        lengths: dict[int, list[tuple[float, Draw, Draw]]] = {}
        for path in paths:
            for number, kind, data in _members(path):
                try:
                    if kind == "trace.csv":
                        windows[number] = _windows(data)
                    else:
                        lengths[number] = _lengths(data)
                except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                    raise TraceError(f"{path.name}: chunk-{number}-{kind} is not of ServeGen's form: {str(error)[:80]}") from None
        if not any(window.rate for rows in windows.values() for window in rows):
            raise TraceError(f"{paths[0].name} has no rates of clients (chunk-N-trace.csv)")
        others = [rows for _, rows in sorted(lengths.items()) if rows] or [[(0.0, _lognormal(1000), _lognormal(200))]]
        self.clients = [
            Client(rows, lengths.get(number) or others[number % len(others)]) for number, rows in sorted(windows.items())
        ]

    def busiest(self) -> float:
        """The start of the window in which most requests come."""
        rates: dict[float, float] = {}
        for client in self.clients:
            for window in client.windows:
                rates[window.begin] = rates.get(window.begin, 0.0) + window.rate
        return min(rates, key=lambda begin: (-rates[begin], begin))

    def jobs(self, seed: int, count: int, begin: float | None = None) -> list[Job]:
        """The first `count` from there on; by default from the busiest window, around and around."""
        begin = self.busiest() if begin is None else begin
        rng = random.Random(seed)
        streams = (self._stream(client, begin, random.Random(rng.random()), order) for order, client in enumerate(self.clients))
        jobs = []
        for number, (at, _, prompt, output) in enumerate(itertools.islice(heapq.merge(*streams), count)):
            jobs.append(Job(number, at - begin, prompt, output))
        return jobs

    def _stream(self, client: Client, begin: float, rng: random.Random, order: int) -> Iterator[tuple[float, int, int, int]]:
        """(time, client, prompt, answer), until the client's windows end for good."""
        windows = client.windows
        for place, window in enumerate(windows):
            end = windows[place + 1].begin if place + 1 < len(windows) else window.begin + _width(windows)
            if end <= begin or not window.rate:
                continue
            at, gap = max(begin, window.begin), _gaps(window)
            prompt, output = client.drawn(window.begin)
            at += gap(rng) * rng.random()
            while at < end:
                yield at, order, prompt(rng), output(rng)
                at += gap(rng)


def _width(windows: Sequence[Window]) -> float:
    return windows[-1].begin - windows[-2].begin if len(windows) > 1 else 600.0


def _gaps(window: Window) -> Callable[[random.Random], float]:
    """Gaps of the window's family and shape, whose mean is what its rate says."""
    mean, shape = 1 / window.rate, window.shape
    if window.family == "Weibull":
        shape = max(shape, _LEAST_WEIBULL)
        scale = mean / math.gamma(1 + 1 / shape)
        return lambda rng: rng.weibullvariate(scale, shape)
    return lambda rng: rng.gammavariate(shape, mean / shape)


def _lognormal(median: float) -> Draw:
    return lambda rng: max(1, min(MAX_TOKENS, round(median * rng.lognormvariate(0.0, 1.0))))


def _members(path: Path) -> Iterator[tuple[int, str, bytes]]:
    try:
        with tarfile.open(path) as archive:
            for member in itertools.islice(archive, 2 * _MOST_CLIENTS):
                name = _NAME.search(member.name)
                file = archive.extractfile(member) if name and member.isfile() and member.size <= _MOST_BYTES else None
                if name and file:
                    yield int(name[1]), name[2], file.read(_MOST_BYTES)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise TraceError(f"{path.name} is no archive of ServeGen's: {str(error).partition(chr(10))[0]}") from None


def _windows(data: bytes) -> list[Window]:
    rows = []
    for row in csv.reader(io.StringIO(data.decode())):
        if not row:
            continue
        begin, rate, cv = (float(cell or 0) for cell in row[:3])
        shape = float(row[4] or 0) or (1 / cv**2 if cv else 1.0)
        if not (0 <= rate < 1e6 and 0 <= begin < 1e12 and 1e-3 <= shape <= 1e4):
            raise ValueError(f"a row of {str(row)[:40]}")
        rows.append(Window(begin, rate, row[3], shape))
    return sorted(rows)


def _lengths(data: bytes) -> list[tuple[float, Draw, Draw]]:
    rows: list[tuple[float, Draw, Draw]] = []
    for begin, it in json.loads(data).items():
        prompt, output = (_table(it[name]) for name in ("input_tokens", "output_tokens"))
        if prompt and output:
            rows.append((float(begin), Lengths(prompt), Lengths(output)))
    return sorted(rows, key=lambda row: row[0])


def _table(text: Any) -> dict[int, float]:
    value = json.loads(_LENGTH.sub(r'"\1":', text)) if isinstance(text, str) else text
    table = {int(length): float(share) for length, share in value.items()}
    if not all(0 <= length <= MAX_TOKENS and 0 <= share <= 1e12 for length, share in table.items()):
        raise ValueError("lengths out of bounds")
    return table if sum(table.values()) > 0 else {}
