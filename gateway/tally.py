"""The node's side of the workers' reports: what every worker has counted, summed into the node's Metrics.

A worker sends the rows that have changed since its last report, and sends them as totals since its own start, not as
differences. The node keeps the last row it had of each worker and adds what a new one has more. So

- a report that comes twice, late or out of order adds nothing twice: of two rows the greater is the newer one;
- nothing is acknowledged, and a worker that is in doubt about what has arrived just sends everything again;
- what a dead worker had reported stays in the sums, and its rows are forgotten;
- a scrape finds the sums ready.

Differences that are zeroed when taken would need numbers and acknowledgements for the same. Everything each time would cost
12 ms of CPU a report with 200 tenants (3,200 rows, 190 KB), where what 100 requests a second change costs 0.5 ms, 500 cost
1.4 and 2,000 cost 4.1; most of it here, in the one process that all workers wait for. (`python -m bench.tally`)

A dispatcher that dies takes its sums along. If the next one began with the workers' rows alone, what dead workers had counted
would be missing, and the counters would fall, though not to nothing: Prometheus takes any fall for a new start from zero and
would add all that is left once more to every `rate()` over it. So the sums outlive the dispatcher: `page` stores them (in
`gateway.tallyfile`) before each answer to a scrape, `restore` takes them up, and nothing that was ever shown is above them.
A tenant that the next one shows and the last one did not may have some of its counts under `other`. Lost is only what nobody
has seen: of the workers that died and of the dispatcher itself, since the last scrape.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated

import msgspec

from gateway.families import Counter, Histogram, Labels, Row
from gateway.metrics import OTHER, Metrics

_log = logging.getLogger("tiergate")
_MAX_PART = 8 * 1024 * 1024
_MAX_ROWS = 200_000  # of one worker
_MAX_WORKERS = 1024
_MOST = 1e18  # of one row; more is no count
_MAX_LEFT = 64  # workers whose connection ended and who may come back with another

_Label = Annotated[str, msgspec.Meta(max_length=512)]
_Reported = tuple[str, tuple[_Label, ...], tuple[float, ...]]
_Known = dict[str, dict[Labels, Row]]


class _State(msgspec.Struct, array_like=True):
    tenants: list[str]
    sums: list[_Reported]
    workers: dict[str, list[_Reported]]


_rows_of = msgspec.msgpack.Decoder(list[_Reported]).decode
_state_of = msgspec.msgpack.Decoder(_State).decode
_encode = msgspec.msgpack.Encoder().encode


class Tally:
    """Adds reports to `metrics`. A worker is named by a text that no other process has ever had, not even its replacement."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._families = metrics.counted()
        self._known: dict[str, _Known] = {}
        self._left: dict[str, None] = {}
        self._told: set[str] = set()
        self._blamed: set[str] = set()

    def absorb(self, worker: str, part: bytes) -> tuple[str, ...]:
        """One part of a report. What comes back, if anything, is for this worker's `Metrics.only`."""
        try:
            rows = _rows_of(part) if len(part) <= _MAX_PART else None
        except (msgspec.DecodeError, RecursionError):
            rows = None
        self._left.pop(worker, None)
        if rows is None or (worker not in self._known and len(self._known) >= _MAX_WORKERS):
            self._blame(worker, "a whole report")
            return ()
        known = self._known.setdefault(worker, {name: {} for name in self._families})
        for name, labels, row in self._fitting(worker, rows):
            self._add(self._families[name], known[name], labels, row)
        names = self._metrics.tenants if self._metrics.settled and worker not in self._told else ()
        if names:
            self._told.add(worker)
        return names

    def gone(self, worker: str) -> None:
        """Its connection has ended. Its counts stay; its rows do for a while, since it may come back and send them again."""
        self._told.discard(worker)
        self._blamed.discard(worker)
        if worker in self._known:
            self._left[worker] = None
        while len(self._left) > _MAX_LEFT:
            self._forget(next(iter(self._left)))

    def page(self, store: Callable[[bytes], None]) -> bytes:
        """The answer to a scrape, stored before anybody sees it."""
        try:
            store(self.keep())
        except OSError as error:  # a scrape that fails would hide more than counters that fall some day
            _log.warning("the node's counts could not be stored: %s", error)
        return self._metrics.exposition()

    def keep(self) -> bytes:
        """All that the next dispatcher must know, for `restore`."""
        sums = [(name, labels, row) for name, family in self._families.items() for labels, row in family.rows()]
        workers = {
            worker: [(name, labels, row) for name, rows in known.items() for labels, row in rows.items()]
            for worker, known in self._known.items()
        }
        return _encode(_State(list(self._metrics.tenants), sums, workers))

    def restore(self, kept: bytes) -> bool:
        """Take up where another left off, before anything is counted. False when that cannot be read: begin at nothing."""
        try:
            state = _state_of(kept)
        except (msgspec.DecodeError, RecursionError):
            return False
        for tenant in state.tenants:
            self._metrics.tenant(tenant)
        for name, labels, row in self._fitting("", state.sums):
            self._families[name].merge(labels, row)
        for worker, rows in state.workers.items():
            known = self._known[worker] = {name: {} for name in self._families}
            for name, labels, row in self._fitting("", rows):
                known[name][labels] = row
            self._left[worker] = None
        return True

    def _fitting(self, worker: str, rows: Iterable[_Reported]) -> Iterator[_Reported]:
        """Those that this process counts too, in this form."""
        known = self._known.get(worker)
        for name, labels, row in rows:
            family = self._families.get(name)
            if family is None or not _fits(family, labels, row):
                self._blame(worker, f"rows of {name[:64]!r}")
            elif known is not None and len(known[name]) >= _MAX_ROWS and labels not in known[name]:
                self._blame(worker, f"more than {_MAX_ROWS} rows of {name!r}")
            else:
                yield name, labels, row

    def _add(self, family: Counter | Histogram, known: dict[Labels, Row], labels: Labels, row: Row) -> None:
        """What `row` has more than the last one of this worker, to the node's row."""
        before = known.get(labels)
        if before is not None:
            newest = tuple(map(max, row, before))
            gain = tuple(new - old for new, old in zip(newest, before, strict=True))
        else:
            newest = gain = row
        known[labels] = newest
        family.merge(self._shown(family, labels), gain)

    def _shown(self, family: Counter | Histogram, labels: Labels) -> Labels:
        """With the tenant's label value as the node has it."""
        if family.labels[:1] != ("tenant",) or labels[0] in ("", OTHER):
            return labels
        return (self._metrics.tenant(labels[0]), *labels[1:])

    def _forget(self, worker: str) -> None:
        del self._left[worker]
        self._known.pop(worker, None)

    def _blame(self, worker: str, what: str) -> None:
        """Once for each worker: it is another release of this program, or not this program at all."""
        if worker not in self._blamed and len(self._blamed) < _MAX_WORKERS:
            self._blamed.add(worker)
            _log.warning("ignored %s from worker %s: not what this process counts", what, worker)


def _fits(family: Counter | Histogram, labels: Labels, row: Row) -> bool:
    return (
        len(labels) == len(family.labels) and len(row) == family.width and min(row) >= 0.0 and sum(row) < _MOST  # which no NaN is
    )


def register(metrics: Metrics, workers: Callable[[], int], restarts: Callable[[], Mapping[str, int]]) -> None:
    """Add the families that only a node of several processes has. `restarts`: of `dispatcher` and of `worker`, both."""
    metrics.gauge("workers", "Workers that are connected, of several.", (), lambda: [((), workers())])
    metrics.total(
        "restarts",
        "Processes that died and were started anew, where there are several workers.",
        ("process",),
        lambda: [((process,), count) for process, count in restarts().items()],
    )
