"""What would make the figures of a run wrong, in a sentence each."""

from __future__ import annotations

from gateway.lab.load.measures import Measures
from gateway.lab.load.sample import Outcome

SMALL = 0.05  # of what is measured: below that an error of ours is nothing to speak of
LEAST_LAG = 0.002  # seconds; timers of event loops are good to a millisecond
BUSY = 0.9  # of a core


def doubts(measures: Measures, cpu_share: float) -> list[str]:
    found = []
    if measures.dropped:
        share = measures.dropped / max(1, measures.arrivals)
        found.append(
            f"{measures.dropped:,} arrivals ({share:.1%}) were DROPPED here, unsent, at --max-inflight: the server was spared "
            "that load. Raise --max-inflight or lower the rate; they count against the goodput"
        )
    if unfinished := measures.outcomes[Outcome.UNFINISHED]:
        found.append(f"{unfinished:,} requests had not ended when the run was ended: the slowest ones are missing")
    found += _own_slowness(measures)
    if cpu_share > BUSY:
        found.append(f"this program took {cpu_share:.0%} of a core: it may be what was measured; use several on several cores")
    return found


def _own_slowness(measures: Measures) -> list[str]:
    lag, stall = measures.histograms["lag"], measures.histograms["stall"]
    latency = _typical(measures, "ttft", "e2e")
    pace = _typical(measures, "itl", "ttft", "e2e")
    found = []
    if lag.count and latency is not None and lag.at(99) > max(LEAST_LAG, SMALL * latency):
        found.append(
            f"requests were sent late here: p99 {lag.at(99) * 1e3:.1f} ms, beside a median latency of {latency * 1e3:.1f} ms. "
            "The lag is part of every latency shown (they count from the intended time)"
        )
    if stall.count and pace is not None and stall.at(99) > max(LEAST_LAG, SMALL * pace):
        found.append(
            f"this program's event loop stood still: p99 {stall.at(99) * 1e3:.1f} ms, beside a median of {pace * 1e3:.1f} ms "
            "that it measured. Tails of that size may be its own"
        )
    return found


def _typical(measures: Measures, *names: str) -> float | None:
    """The median of the first that was measured, in seconds."""
    return next((measures.histograms[name].at(50) for name in names if measures.histograms[name].count), None)
