"""What the process is doing right now: read when asked, counted nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from caches.semantic.types import OwnedSemantic
from caches.types import AWAY, DECLINES, ExactStore
from gateway.between.figures import register_share
from gateway.between.share import Share
from gateway.dispatch.types import Lane
from gateway.families import Labels
from gateway.metrics import Metrics
from gateway.shares import Shares
from limits.types import AWAY as LIMITS_AWAY
from limits.types import LastingLimiter
from limits.view import classes
from limits.waiting import Priority

_CLASSES = [(priority, priority.name.lower()) for priority in Priority]


class Status:
    """Looks at the lanes for `/ready`, `/admin/status` and the gauges of `/metrics`."""

    def __init__(
        self, lanes: Mapping[str, Lane], exact: ExactStore, semantic: OwnedSemantic, limiter: LastingLimiter, share: Share
    ) -> None:
        self._lanes = lanes
        self._shares = Shares(lanes)
        self._exact = exact
        self._semantic = semantic
        self._limiter = limiter
        self._share = share

    def register(self, metrics: Metrics) -> None:
        """Add the gauges."""
        self._shares.register(metrics)
        register_share(metrics, self._share)
        metrics.gauge("queue_depth", "Requests waiting for a slot.", ("model", "class"), self._depths)
        metrics.gauge(
            "expected_wait_seconds",
            "Until all that waits in a class now has a slot, by how fast it is served; no sample while that is not known.",
            ("model", "class"),
            self._waits,
        )
        metrics.gauge("inflight_requests", "Requests that a replica is working on.", ("model", "replica"), self._inflight)
        metrics.gauge("replica_slots", "Requests that a replica may have at once, as of now.", ("model", "replica"), self._slots)
        metrics.gauge(
            "replica_tokens", "Tokens of the requests that a replica works on, prompts and predicted answers.",
            ("model", "replica"), self._tokens,
        )  # fmt: skip
        metrics.gauge("replica_up", "1 when the replica may get requests.", ("model", "replica"), self._up)
        metrics.total(
            "replica_refusals",
            "Answers for which a replica was left alone a moment: 429, 503 with `retry-after`, 400 where another one served.",
            ("model", "replica"),
            self._refusals,
        )
        metrics.total(
            "prewarm_tokens",
            "Tokens of prompts that replicas read ahead: `computed`, `cached`, and, as estimated, `skipped` and `failed`.",
            ("model", "result"),
            self._prewarmed,
        )
        metrics.total(
            "prefix_expected_tokens",
            "Prompt tokens that a replica was thought to have cached, of answers whose backend tells what it had.",
            ("model",),
            lambda: [((name,), float(lane.placing.told.expected)) for name, lane in self._lanes.items()],
        )
        metrics.gauge(
            "prefix_index_blocks",
            "Blocks of prompts that replicas are thought to have cached, and answers of theirs.",
            ("model",),
            lambda: [((name,), float(lane.placing.entries)) for name, lane in self._lanes.items()],
        )
        metrics.gauge(
            "exact_store_state",
            "1 for how the store of exact answers stands: `ok`, why it is away, or why it keeps nothing new.",
            ("state",),
            self._exact_state,
        )
        metrics.gauge(
            "limits_store_state",
            "1 for how the store of limits stands: `ok`, or why it is away.",
            ("state",),
            self._limits_state,
        )
        metrics.total(
            "limits_decided_alone",
            "Decisions that were made without the store of limits, while it was away.",
            (),
            lambda: [((), float(self._limiter.decided_alone))],
        )
        metrics.gauge("semantic_entries", "Answers that the semantic cache keeps.", (), self._entries)
        metrics.gauge(
            "semantic_error_ratio",
            "Share of the semantic cache's answers that are wrong, as verification has shown: Wilson's 95 % interval.",
            ("bound",),
            self._errors,
        )
        metrics.gauge("semantic_scopes_off", "Scopes that are served nothing: too many answers were wrong.", (), self._off)

    def ready(self) -> dict[str, object]:
        """`ready` is true when some pool has a ready replica."""
        models = {name: len(lane.pool.ready()) for name, lane in self._lanes.items()}
        told: dict[str, object] = {
            "ready": any(models.values()),
            "ready_replicas": models,
            "exact_cache": str(self._exact.state),
            "limits": str(self._limiter.state),
        }
        if self._limiter.kept:
            told["budgets"] = "ok" if self._limiter.kept == "ok" else f"in memory only: {self._limiter.kept}"
        if self._share.standing is not None:
            told["share"] = self._share.standing
        semantic = self._semantic.standing()
        if semantic is not None:
            told["semantic_cache"] = semantic.store
        return told

    def report(self) -> dict[str, object]:
        """Pools, replicas and queues."""
        return {"models": [self._lane(lane) for lane in self._lanes.values()]}

    def queues(self) -> dict[str, object]:
        """Who waits in front of each pool, and how long."""
        return {"models": [_queue(lane) for lane in self._lanes.values()]}

    def _exact_state(self) -> Iterator[tuple[Labels, float]]:
        state = self._exact.state
        now = state.away or state.declines or "ok"
        for word in ("ok", *AWAY, *DECLINES):
            yield (word,), float(word == now)

    def _limits_state(self) -> Iterator[tuple[Labels, float]]:
        now = self._limiter.state.away or "ok"
        for word in ("ok", *LIMITS_AWAY):
            yield (word,), float(word == now)

    def _entries(self) -> Iterator[tuple[Labels, float]]:
        semantic = self._semantic.standing()
        yield (), 0.0 if semantic is None else semantic.entries

    def _errors(self) -> Iterator[tuple[Labels, float]]:
        semantic = self._semantic.standing()
        if semantic is not None:
            yield ("low",), semantic.error_low
            yield ("high",), semantic.error_high

    def _off(self) -> Iterator[tuple[Labels, float]]:
        semantic = self._semantic.standing()
        yield (), 0.0 if semantic is None else len(semantic.off)

    def _lane(self, lane: Lane) -> dict[str, object]:
        scheduler = lane.scheduler
        return {
            "name": lane.name,
            "slots": {"capacity": scheduler.capacity, "inflight": scheduler.inflight},
            "queue": {
                "depth": {name: scheduler.depth(priority) for priority, name in _CLASSES},
                "bytes": scheduler.queued_bytes,
                "tokens": scheduler.queued_tokens,
            },
            "reserved": self._shares.of(lane),
            "prewarm": lane.pool.prewarm.warmth(),
            "replicas": lane.pool.stats(),
        }

    def _depths(self) -> Iterator[tuple[Labels, float]]:
        for name, lane in self._lanes.items():
            for priority, label in _CLASSES:
                yield (name, label), lane.scheduler.depth(priority)

    def _waits(self) -> Iterator[tuple[Labels, float]]:
        for name, lane in self._lanes.items():
            for priority, label in _CLASSES:
                wait = lane.scheduler.line_wait(priority)
                if wait is not None:
                    yield (name, label), wait

    def _inflight(self) -> Iterator[tuple[Labels, float]]:
        for name, lane in self._lanes.items():
            for replica in lane.pool.stats():
                yield (name, replica.name), replica.inflight

    def _refusals(self) -> Iterator[tuple[Labels, float]]:
        for name, lane in self._lanes.items():
            for replica in lane.pool.stats():
                yield (name, replica.name), replica.refusals

    def _prewarmed(self) -> Iterator[tuple[Labels, float]]:
        for name, lane in self._lanes.items():
            for result, tokens in lane.pool.prewarm.totals.items():
                yield (name, result), tokens

    def _slots(self) -> Iterator[tuple[Labels, float]]:
        for name, lane in self._lanes.items():
            for replica in lane.pool.stats():
                yield (name, replica.name), replica.slots

    def _tokens(self) -> Iterator[tuple[Labels, float]]:
        for name, lane in self._lanes.items():
            for replica in lane.pool.stats():
                yield (name, replica.name), replica.tokens

    def _up(self) -> Iterator[tuple[Labels, float]]:
        for name, lane in self._lanes.items():
            for replica in lane.pool.stats():
                yield (name, replica.name), float(replica.ready)


def _queue(lane: Lane) -> dict[str, object]:
    scheduler = lane.scheduler
    slots = {"capacity": scheduler.capacity, "inflight": scheduler.inflight}
    return {"name": lane.name, "slots": slots, "classes": classes(scheduler)}
