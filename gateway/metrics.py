"""The numbers behind `/metrics`: cheap to count on the request path, spelled out by prometheus_client when scraped.

A counter here is a dict entry (0.15 µs to raise; a prometheus_client child takes 0.8 with its lock), which is also what
a worker can hand to another process. Label values are bounded: tenants by number, models and replicas by the config,
everything else by closed sets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

OUTCOMES = ("ok", "client_error", "limited", "rejected", "timeout", "upstream_error", "broken_stream", "client_gone")
_MAX_TENANTS = 200
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
_FINE = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_TOKEN = (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0)

Labels = tuple[str, ...]


class Counter:
    """A monotone sum per label set."""

    __slots__ = ("help", "labels", "name", "values")

    def __init__(self, name: str, text: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, text, labels
        self.values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        values = self.values
        values[labels] = values.get(labels, 0.0) + amount

    def family(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in self.values.items():
            family.add_metric(labels, value)
        return family


class Histogram:
    """Counts per bucket and a sum, per label set. Bounds are upper ones, inclusive, in seconds."""

    __slots__ = ("bounds", "help", "labels", "name", "values")

    def __init__(self, name: str, text: str, bounds: tuple[float, ...], labels: Labels = ()) -> None:
        self.name, self.help, self.labels, self.bounds = name, text, labels, bounds
        self.values: dict[Labels, list[float]] = {} if labels else {(): self._fresh()}

    def observe(self, labels: Labels, value: float) -> None:
        row = self.values.get(labels)
        if row is None:
            row = self.values[labels] = self._fresh()
        row[bisect_left(self.bounds, value)] += 1
        row[-1] += value

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
        return [0.0] * (len(self.bounds) + 2)  # a bucket beyond the last bound, and the sum


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


class Metrics(Collector):
    """Every family of the product; all are there from the first scrape."""

    def __init__(self) -> None:
        p = "tiergate_"
        self.requests = Counter(p + "requests", "Requests by how they ended.", ("tenant", "model", "tier", "outcome"))
        self.duration = Histogram(
            p + "request_duration_seconds", "From the request's head to the end of its answer.", _SECONDS, ("model", "tier")
        )
        self.overhead = Histogram(
            p + "overhead_seconds",
            "Time inside the gateway alone: no backend, no queue, no waiting for the client's body.",
            _FINE,
        )
        self.ttft = Histogram(
            p + "time_to_first_token_seconds", "From the request to the first byte of a stream.", _SECONDS, ("model", "tier")
        )
        self.tpot = Histogram(
            p + "time_per_output_token_seconds", "Mean time between the tokens of one stream.", _TOKEN, ("model", "tier")
        )
        self.tokens = Counter(p + "tokens", "Tokens as the backends counted them.", ("direction",))
        self.cache_lookups = Counter(p + "cache_lookups", "Cache lookups by cache and result.", ("cache", "result"))
        self.tokens_saved = Counter(p + "cache_tokens_saved", "Completion tokens that a cache served.")
        self.limited = Counter(p + "rate_limited", "Refusals by the limit that refused.", ("tenant", "limit"))
        self.queue_wait = Histogram(p + "queue_wait_seconds", "Time queued for a slot.", _SECONDS, ("model", "class"))
        self.decisions = Counter(p + "route_decisions", "Which tier was chosen, and why.", ("tier", "reason"))
        self.prefix_tokens = Counter(
            p + "prefix_tokens", "Prompt tokens by whether the replica had them cached.", ("model", "result")
        )
        self.retries = Counter(p + "upstream_retries", "Attempts beyond a request's first, by what failed.", ("model", "reason"))
        for direction in ("prompt", "completion"):
            self.tokens.add((direction,), 0)
        for result in ("hit", "miss", "shared", "bypass"):
            self.cache_lookups.add(("exact", result), 0)
        self._gauges: list[Gauge] = []
        self._tenants: set[str] = set()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def gauge(self, name: str, text: str, labels: Labels, read: Callable[[], Iterable[tuple[Labels, float]]]) -> None:
        """Add a family that is read when scraped."""
        self._gauges.append(Gauge("tiergate_" + name, text, labels, read))

    def tenant(self, name: str) -> str:
        """The label value of a tenant: its name for the first 200 seen, `other` for the rest."""
        if name in self._tenants:
            return name
        if len(self._tenants) >= _MAX_TENANTS:
            return "other"
        self._tenants.add(name)
        return name

    def families(self) -> list[Counter | Histogram | Gauge]:
        """All of them, in no promised order."""
        return [*(value for value in vars(self).values() if isinstance(value, Counter | Histogram)), *self._gauges]

    def collect(self) -> Iterator[Metric]:
        """prometheus_client's side."""
        for family in self.families():
            yield family.family()

    def exposition(self) -> bytes:
        """The text format, version 0.0.4."""
        return generate_latest(self._registry)
