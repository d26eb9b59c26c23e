"""What is aimed at, and whether a run has reached it: the first table of docs/benchmarks.md, made of the figures alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.cells import HIT
from bench.figures import Spread, added, ratios
from bench.records import DIRECT, LITELLM, OURS, SMG, Crowd, PeerRecord, Result, Round
from bench.tables import spread, table

_MOST = 1_024  # streams
_FLAT = 1.10
Get = Callable[[Round], float | None]


@dataclass(frozen=True, slots=True)
class Aim:
    """`figures` are those of the rounds, of which none may be above `bound`."""

    what: str
    bound: float
    figures: Sequence[float]
    unit: str = "×"
    digits: int = 2

    def reached(self) -> str:
        """In all rounds, in the median of them, or not."""
        found = Spread.of(self.figures)
        if found is None:
            return "not measured"
        if found.median > self.bound:
            return "**no**"
        return "yes" if found.high <= self.bound else "in the median"


def section(result: Result) -> str:
    rows = [
        [aim.what, f"{aim.bound:,.{aim.digits}f} {aim.unit}", spread(aim.figures, aim.digits), aim.reached()]
        for aim in aims(result)
    ]
    return f"""## What is aimed at

For tiergate with everything on. Made of the figures below; "in the median" is reached there, and not in each round. What is \
far from its aim is looked into in [performance.md](performance.md).

{table(["", "at most", "measured", "reached"], rows)}"""


def aims(result: Result) -> list[Aim]:
    return [*_cost(result.peers), *_delay(result.peers), *_crowd(result), *_flat(result)]


def _cost(peers: Mapping[str, PeerRecord]) -> Iterator[Aim]:
    ours, smg, litellm = (_rounds(peers, name) for name in (OURS, SMG, LITELLM))
    yield Aim("CPU of a request, to smg's", 0.8, ratios(ours, smg, _request))
    yield Aim("CPU of a request, to LiteLLM's", 0.01, ratios(ours, litellm, _request), digits=3)
    yield Aim("CPU of a streamed token, one each 10 ms, to smg's", 1.0, ratios(ours, smg, lambda one: one.token_us))
    yield Aim("CPU of a streamed token, eight in a read, to smg's", 0.5, ratios(ours, smg, lambda one: one.coalesced_us))
    hits = [
        one.kinds[HIT] / other.request_us
        for one, other in zip(ours, smg, strict=False)
        if HIT in one.kinds and other.request_us is not None
    ]
    yield Aim("CPU of an answer from the exact cache, to a request through smg", 0.4, hits)


def _delay(peers: Mapping[str, PeerRecord]) -> Iterator[Aim]:
    ours, smg, direct = (_rounds(peers, name) for name in (OURS, SMG, DIRECT))
    yield Aim("Added at one connection, p50", 0.3, added(ours, direct, _one), "ms")
    yield Aim("Added at one connection, p99", 1.0, added(ours, direct, lambda one: one.one.p99 if one.one else None), "ms")
    yield Aim("Added at one connection, p50, over what smg adds", 0.1, added(ours, smg, _one), "ms")
    yield Aim(
        "Added time to the first token, p50", 1.0, added(ours, direct, lambda one: one.ttft.p50 if one.ttft else None), "ms"
    )


def _crowd(result: Result) -> Iterator[Aim]:
    ours, direct = _rounds(result.crowds, OURS), _rounds(result.crowds, DIRECT)
    core = "on one core" if result.pinned else "not held to one core"
    late = added(ours, direct, _of_crowd(lambda crowd: crowd.late_worst))
    yield Aim(f"The latest token of {_MOST:,} streams, one each 50 ms, {core}, over the direct way", 50.0, late, "ms", 1)
    found = [figure for one in ours if (figure := _of_crowd(lambda crowd: crowd.rss_mib)(one)) is not None]
    yield Aim(f"RSS with {_MOST:,} streams", 150.0, found, "MiB", 0)


def _of_crowd(get: Callable[[Crowd], float | None]) -> Get:
    return lambda one: get(crowd) if (crowd := one.crowds.get(str(_MOST))) else None


def _flat(result: Result) -> Iterator[Aim]:
    for what, groups in (("tenants", result.tenants), ("replicas", result.replicas)):
        sizes = groups.get(OURS, {})
        span = (
            f"from {int(next(iter(sizes))):,} to {int(list(sizes)[-1]):,} {what}" if sizes else f"whatever the number of {what}"
        )
        worst = max(_growths(sizes), key=_median, default=[])
        yield Aim(f"CPU of a request, {span}, the dearest to the first", _FLAT, worst)


def _growths(sizes: Mapping[str, PeerRecord]) -> list[list[float]]:
    """Of each number beyond the first, the ratio to it, round by round."""
    first, others = next(iter(sizes.values()), None), list(sizes.values())[1:]
    return [ratios(other.rounds, first.rounds, _request) for other in others] if first else []


def _median(figures: Sequence[float]) -> float:
    found = Spread.of(figures)
    return found.median if found else 0.0


def _rounds(peers: Mapping[str, PeerRecord], name: str) -> list[Round]:
    return peers[name].rounds if name in peers else []


def _request(one: Round) -> float | None:
    return one.request_us


def _one(one: Round) -> float | None:
    return one.one.p50 if one.one else None
