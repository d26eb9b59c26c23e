"""The kinds of metric families: how each is counted, handed to another process, and spelled out for a scrape.

A row is a list of numbers, changed in place: who counts often keeps it (`row`), and finds no labels again. A counter is raised in
0.1 µs then; a prometheus_client child takes 0.8 with its lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

Labels = tuple[str, ...]
Row = tuple[float, ...]


class Counter:
    """A monotone sum per label set."""

    __slots__ = ("_rows", "help", "labels", "name", "sent")

    def __init__(self, name: str, text: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, text, labels
        self._rows: dict[Labels, list[float]] = {} if labels else {(): [0.0]}
        self.sent: dict[Labels, list[float]] = {}

    @property
    def values(self) -> dict[Labels, float]:
        """The sums, as they are now."""
        return {labels: row[0] for labels, row in self._rows.items()}

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return 1

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        row = self._rows.get(labels) or self.row(labels)
        row[0] += amount

    def row(self, labels: Labels) -> list[float]:
        """Its one number, to be raised in place. It is shown from then on."""
        return self._rows.setdefault(labels, [0.0])

    def merge(self, labels: Labels, gain: Row) -> None:
        """Add what another process has counted."""
        self.add(labels, gain[0])

    def rows(self) -> Iterator[tuple[Labels, Row]]:
        """Everything."""
        return ((labels, tuple(row)) for labels, row in self._rows.items())

    def changes(self) -> Iterator[tuple[Labels, Row]]:
        """The rows that are not as the last call gave them. One comparison in C when none is."""
        if self._rows == self.sent:
            return
        sent = self.sent
        for labels, row in self._rows.items():
            if sent.get(labels) != row:
                sent[labels] = row.copy()
                yield labels, tuple(row)

    def family(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for labels, row in self._rows.items():
            family.add_metric(labels, row[0])
        return family


class Histogram:
    """Counts per bucket and a sum, per label set. Bounds are upper ones, inclusive."""

    __slots__ = ("bounds", "help", "labels", "name", "sent", "values")

    def __init__(self, name: str, text: str, bounds: tuple[float, ...], labels: Labels = ()) -> None:
        self.name, self.help, self.labels, self.bounds = name, text, labels, bounds
        self.values: dict[Labels, list[float]] = {} if labels else {(): self._fresh()}
        self.sent: dict[Labels, list[float]] = {}

    @property
    def width(self) -> int:
        """Numbers in a row: a bucket for each bound, one beyond the last, and the sum."""
        return len(self.bounds) + 2

    def observe(self, labels: Labels, value: float) -> None:
        row = self.values.get(labels) or self.row(labels)
        row[bisect_left(self.bounds, value)] += 1
        row[-1] += value

    def row(self, labels: Labels) -> list[float]:
        """That of these labels, for `note`. It is shown from then on."""
        row = self.values.get(labels)
        if row is None:
            row = self.values[labels] = self._fresh()
        return row

    def note(self, row: list[float], value: float) -> None:
        """As `observe`, in a row of this family."""
        row[bisect_left(self.bounds, value)] += 1
        row[-1] += value

    def merge(self, labels: Labels, gain: Row) -> None:
        """Add what another process has counted."""
        row = self.row(labels)
        row[:] = [mine + more for mine, more in zip(row, gain, strict=True)]

    def rows(self) -> Iterator[tuple[Labels, Row]]:
        """Everything."""
        return ((labels, tuple(row)) for labels, row in self.values.items())

    def changes(self) -> Iterator[tuple[Labels, Row]]:
        """The rows that are not as the last call gave them."""
        for labels, row in self.values.items():
            if self.sent.get(labels) != row:
                self.sent[labels] = row.copy()
                yield labels, tuple(row)

    def family(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.help, labels=self.labels)
        for labels, row in self.values.items():
            total, buckets = 0.0, []
            for bound, count in zip((*map(str, self.bounds), "+Inf"), row[:-1], strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric(labels, buckets, row[-1])
        return family

    def _fresh(self) -> list[float]:
        return [0.0] * self.width


class Gauge:
    """Read when scraped: nothing is counted up and down on the path, so nothing can leak."""

    __slots__ = ("help", "labels", "name", "read")

    def __init__(self, name: str, text: str, labels: Labels, read: Callable[[], Iterable[tuple[Labels, float]]]) -> None:
        self.name, self.help, self.labels, self.read = name, text, labels, read

    def family(self) -> Metric:
        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in self.read():
            family.add_metric(labels, value)
        return family


class Total(Gauge):
    """A monotone sum that somebody else keeps: read when scraped."""

    __slots__ = ()

    def family(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in self.read():
            family.add_metric(labels, value)
        return family
