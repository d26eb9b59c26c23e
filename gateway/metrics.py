"""The numbers behind `/metrics`: counted on the request path, written out by prometheus_client when scraped.

Label values are bounded: tenants by number, models and replicas by the config, everything else by closed sets. Of several
workers each counts for itself, and hands over what it has (`gateway.tally` has the other side).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.families import Counter, Gauge, Histogram, Labels, Total
from gateway.processes import NodeProcesses
from routing.types import Decision

OTHER = "other"
_MAX_TENANTS = 200
_MAX_UNTOLD = 10_000  # tenants that a worker names before it is told which ones the node shows
_PART = 1000  # rows in one part of a report: some 50 KB
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
_FINE = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_TOKEN = (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0)
_TENTHS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999)

_encode = msgspec.msgpack.Encoder().encode


class Metrics(Collector):
    """Every family of the product; all are there from the first scrape.

    `worker`: this process is one of several and only counts; another one answers scrapes. `pids`: this one answers for all
    the node's processes, which are these.
    """

    def __init__(self, *, worker: bool = False, pids: Callable[[], Iterable[int]] | None = None) -> None:
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
        self.prompt_evidence = Counter(
            p + "prompt_evidence",
            "Bytes of prompts, and the tokens that backends counted in them, as far as they are believed: from these a "
            "model's bytes per token are learned.",
            ("model", "unit"),
        )
        self.cache_lookups = Counter(p + "cache_lookups", "Cache lookups by cache and result.", ("cache", "result"))
        self.tokens_saved = Counter(p + "cache_tokens_saved", "Completion tokens that a cache served.")
        self.verified = Counter(
            p + "semantic_verified", "Answers of the semantic cache that were compared with a model's, by what that showed.",
            ("result",),
        )  # fmt: skip
        self.route_shadows = Counter(
            p + "route_shadows",
            "Requests of `auto` that the other tier was asked as well, by whether the small tier's answer is good enough.",
            ("result",),
        )
        self.limited = Counter(p + "rate_limited", "Refusals by the limit that refused.", ("tenant", "limit"))
        self.queue_wait = Histogram(p + "queue_wait_seconds", "Time queued for a slot.", _SECONDS, ("model", "class"))
        self.queue_refusals = Counter(
            p + "queue_refusals", "Requests that got no slot, by the code of the refusal.", ("model", "class", "reason")
        )
        self.queue_ended = Counter(
            p + "queue_ended",
            "Requests for which no slot was free, by how their wait ended: `dispatched`, `expired`, `refused` (no room, or no "
            "longer), `left`.",
            ("model", "class", "end"),
        )
        self.decisions = Counter(p + "route_decisions", "Which tier was chosen, and why.", ("tier", "reason"))
        self.load_moves = Counter(
            p + "load_moves", "Requests under `auto` that the load of the pools moved: `spilled` down a tier, `borrowed` up one.",
            ("tier", "move"),
        )  # fmt: skip
        self.conversation_turns = Counter(
            p + "conversation_turns",
            "Turns of conversations that held a tier: `looped` (a tool loop went on with its model), `kept` up, moved `up` or "
            "`down`, or `same`: its own words wanted that tier.",
            ("result",),
        )
        self.route_choices = Counter(
            p + "route_choices",
            "Requests of `auto` and other routes that might have gone to more than one tier, by where they went: `cheapest`, or "
            "`dearer` than that. `tenant`: one that has a target of its own. What share was aimed at is `tiergate_route_target`.",
            ("tenant", "route", "to"),
        )
        self.route_cut = Histogram(
            p + "route_cut",
            "The score from which a request went up a tier, of each whose tier was open and has a target; 1: nobody did.",
            _TENTHS,
            ("route",),
        )
        self.route_one_sided = Counter(
            p + "route_one_sided", "Times that 500 requests in a row whose tier was open all went to one model.", ("route",)
        )
        self.classified = Counter(
            p + "route_classified",
            "Requests that a classifier of kind remote or embedding was asked about: `answered`, `unknown`, or why not.",
            ("result",),
        )
        self.cascades = Counter(
            p + "cascades",
            "Requests that the small tier was asked first, by what became of it: `answered`, or why the dear tier was asked.",
            ("route", "result"),
        )
        self.cascade_tokens = Counter(
            p + "cascade_tokens", "Tokens of such requests, by the tier that they were used in.", ("route", "tier")
        )
        self.cascade_switches = Counter(
            p + "cascade_switches", "Times that a cascade was switched off, since it did not pay, or on again.", ("route", "to")
        )
        self.prefix_tokens = Counter(
            p + "prefix_tokens", "Prompt tokens by whether the replica had them cached.", ("model", "result")
        )
        self.tokenized = Counter(
            p + "prompt_tokenizations", "Prompts of pools that place precisely, by what came of asking for token ids.",
            ("model", "result"),
        )  # fmt: skip
        self.retries = Counter(p + "upstream_retries", "Attempts beyond a request's first, by what failed.", ("model", "reason"))
        self.preemptions = Counter(
            p + "preemptions", "Batch requests whose slot a realtime one got, by what became of them.", ("model", "result")
        )
        for direction in ("prompt", "completion"):
            self.tokens.add((direction,), 0)
        for result in ("hit", "miss", "shared", "bypass"):
            self.cache_lookups.add(("exact", result), 0)
        for result in ("hit", "miss", "bypass", "away"):
            self.cache_lookups.add(("semantic", result), 0)
        for result in ("right", "wrong", "unknown"):
            self.verified.add((result,), 0)
        for result in ("good", "bad", "unknown", "unanswered", "unjudged"):
            self.route_shadows.add((result,), 0)
        self._gauges: list[Gauge] = []
        self.gauge(
            "bytes_per_token", "Bytes of a prompt for each token, as learned since the start.", ("model",), self._bytes_per_token
        )
        self._evidence: dict[str, tuple[list[float], list[float]]] = {}  # each model's rows of `prompt_evidence`
        self._tenants: dict[str, None] = {}
        self._worker = worker
        self._max_tenants = _MAX_UNTOLD if worker else _MAX_TENANTS
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        if pids is None:
            ProcessCollector(registry=self._registry)
        else:
            self._registry.register(NodeProcesses(pids))
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def gauge(self, name: str, text: str, labels: Labels, read: Callable[[], Iterable[tuple[Labels, float]]]) -> None:
        """Add a family that is read when scraped."""
        self._gauges.append(Gauge("tiergate_" + name, text, labels, read))

    def total(self, name: str, text: str, labels: Labels, read: Callable[[], Iterable[tuple[Labels, float]]]) -> None:
        """The same for what only rises."""
        self._gauges.append(Total("tiergate_" + name, text, labels, read))

    def _bytes_per_token(self) -> Iterator[tuple[Labels, float]]:
        evidence = self.prompt_evidence.values
        for (model, unit), tokens in evidence.items():
            if unit == "tokens" and tokens:
                yield (model,), evidence[model, "bytes"] / tokens

    def tenant(self, name: str) -> str:
        """The label value of a tenant: its name for the first 200 seen, `other` for the rest.

        A worker names all of them, since the first 200 of each need not be those of the node, until `only` tells it which
        ones the node shows.
        """
        if name in self._tenants:
            return name
        if len(self._tenants) >= self._max_tenants:
            return OTHER
        self._tenants[name] = None
        return name

    @property
    def tenants(self) -> tuple[str, ...]:
        """Those that have a label value of their own, in the order in which they were seen."""
        return tuple(self._tenants)

    @property
    def settled(self) -> bool:
        """No other tenant will get one."""
        return len(self._tenants) >= self._max_tenants

    def only(self, names: Iterable[str]) -> None:
        """To a worker: the node shows these tenants, and will never show others."""
        self._tenants, self._max_tenants = dict.fromkeys(names), 0

    def decided(self, decision: Decision) -> None:
        """Of each piece of work once."""
        tier = decision.target.model.tier
        self.decisions.add((tier, decision.reason))
        if decision.move is not None:
            self.load_moves.add((tier, decision.move))
        if decision.turned is not None:
            self.conversation_turns.add((decision.turned,))

    def believed(self, model: str, size: float, tokens: float) -> None:
        """So many bytes of a prompt, and the tokens in them."""
        rows = self._evidence.get(model)
        if rows is None:
            rows = self.prompt_evidence.row((model, "bytes")), self.prompt_evidence.row((model, "tokens"))
            self._evidence[model] = rows
        rows[0][0] += size
        rows[1][0] += tokens

    def take(self) -> list[bytes]:
        """To a worker: its report, in parts to be sent in this order; nothing when nothing has changed."""
        rows = [(name, labels, row) for name, family in self.counted().items() for labels, row in family.changes()]
        return [_encode(rows[start : start + _PART]) for start in range(0, len(rows), _PART)]

    def again(self) -> None:
        """To a worker that has a new connection: the next report has everything."""
        for family in self.counted().values():
            family.sent.clear()
        if self._worker:
            self._max_tenants = _MAX_UNTOLD  # the one at the other end may be new, and show other tenants

    def counted(self) -> dict[str, Counter | Histogram]:
        """The families that are counted here, by the short names that reports use."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Counter | Histogram)}

    def families(self) -> list[Counter | Histogram | Gauge]:
        """All of them, in no promised order."""
        return [*self.counted().values(), *self._gauges]

    def collect(self) -> Iterator[Metric]:
        """prometheus_client's side."""
        for family in self.families():
            yield family.family()

    def exposition(self) -> bytes:
        """The text format, version 0.0.4."""
        return generate_latest(self._registry)
