"""The parts of docs/benchmarks.md that tell how cost grows: with streams at once, with tenants, with replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.crowd import PACE_MS
from bench.figures import added, ratios, values
from bench.records import DIRECT, Crowd, PeerRecord, Result, Round
from bench.tables import number, spread, table

Peers = Mapping[str, PeerRecord]


def sections(result: Result) -> list[str]:
    parts = [_crowds(result)] if result.crowds else []
    if result.tenants:
        parts.append(_sized("tenants", _TENANTS, result.tenants))
    if result.replicas:
        parts.append(_sized("replicas", _REPLICAS, result.replicas))
    return parts


_TENANTS = """Each tenant has a key and limits of its own in the configuration, and the requests are spread over all keys. \
Compared are gateways that can know many keys without a database: tiergate's tenants, smg's `--tenant-api-key`, nginx's `map`."""
_REPLICAS = """So many addresses of the same model, all of one small server; tiergate has them in both of its tiers, so twice. \
Gateways ask their replicas how they are: that goes on beneath the requests and is in these figures, and what it takes by itself \
is in the table of the idle. vllm-router asks for the prompt's tokens at every replica before each request."""


def _crowds(result: Result) -> str:
    counts = _counts(result.crowds)
    core = "Each gateway has one core to itself, and the upstream and the clients have the others. " if result.pinned else ""
    tables = [
        ("µs of CPU a token, the share of its request included", lambda crowd: crowd.token_us, 1, False),
        ("The latest token, ms over the direct way", lambda crowd: crowd.late_worst, 1, True),
        ("The 99th percentile of the tokens, ms over the direct way", lambda crowd: crowd.late_p99, 1, True),
        ("MiB of RSS while all streams run", lambda crowd: crowd.rss_mib, 0, False),
    ]
    told = "\n\n".join(_crowd(result.crowds, counts, *one) for one in tables)
    return f"""## Streams at once

One token each {PACE_MS} ms in each stream. {core}Late is a token by as much as the time since the one before is longer than \
that. A gateway that would need far more than a core for so many streams is not asked to carry them.

{told}

{failures(result.crowds)}"""


def _crowd(peers: Peers, counts: Sequence[str], title: str, get: Callable[[Crowd], float | None], digits: int, over: bool) -> str:
    direct = peers[DIRECT].rounds if DIRECT in peers else []
    rows = []
    if over:
        rows.append(["(direct, absolute)", *(spread(values(direct, _of(count, get)), digits) for count in counts)])
    for name, record in peers.items():
        if name != DIRECT:
            figures = [
                added(record.rounds, direct, _of(count, get)) if over else values(record.rounds, _of(count, get))
                for count in counts
            ]
            rows.append([name, *(spread(one, digits) for one in figures)])
    return f"{title}:\n\n" + table(["gateway", *(f"{int(count):,} streams" for count in counts)], rows)


def _of(count: str, get: Callable[[Crowd], float | None]) -> Callable[[Round], float | None]:
    return lambda one: get(one.crowds[count]) if count in one.crowds else None


def _counts(peers: Peers) -> list[str]:
    return sorted({count for record in peers.values() for one in record.rounds for count in one.crowds}, key=int)


def _sized(what: str, told: str, groups: Mapping[str, Peers]) -> str:
    counts = list(dict.fromkeys(count for sizes in groups.values() for count in sizes))
    title = ["gateway", *(f"{int(count):,} {what}" for count in counts)]
    cost, growth, memory = [], [], []
    for name, sizes in groups.items():
        first = sizes[counts[0]].rounds
        each = [sizes[count] for count in counts]
        cost.append([name, *(spread(values(one.rounds, _request), 0) for one in each)])
        growth.append([name, *(spread(ratios(one.rounds, first, _request), 2) for one in each)])
        memory.append([name, *(_rest(one) for one in each)])
    lost = "\n".join(text for sizes in groups.values() if (text := failures(_named(sizes, groups))))
    return f"""## With {what}

{told}

µs of CPU a request, as above:

{table(title, cost)}

The ratio to the first column, round by round:

{table(title, growth)}

Ready after s, MiB of RSS after all rounds, and ms of CPU a second while nobody asks anything:

{table(title, memory)}

{lost}"""


def _rest(one: PeerRecord) -> str:
    return f"{number(one.ready_s, 1)}, {number(one.rss_after_mib, 0)}, {number(one.idle_ms, 1)}"


def _named(sizes: Peers, groups: Mapping[str, Peers]) -> Peers:
    (name,) = [name for name, found in groups.items() if found is sizes]
    return {f"{name}, {int(count):,}": record for count, record in sizes.items()}


def _request(one: Round) -> float | None:
    return one.request_us


def failures(peers: Peers) -> str:
    """Why there are no figures, or fewer."""
    gateways = [(name, one) for name, one in peers.items() if name != DIRECT]
    told = [f"- **{name}** is absent: {one.failure}" for name, one in gateways if one.absent]
    lost = [(name, one) for name, one in gateways if one.failure and not one.absent]
    told += [f"- **{name}** has no figures: {one.failure}" for name, one in lost if not one.rounds]
    told += [f"- **{name}** was left out from some point on: {one.failure}" for name, one in lost if one.rounds]
    if DIRECT in peers and (failure := peers[DIRECT].failure):
        told.append(f"- **{DIRECT}** was left out from some point on: {failure}")
    told += [f"- {name}, one cell without a figure: {error}" for name, one in peers.items() if not one.failure
             for error in one.errors]  # fmt: skip
    return "\n".join(line.replace("|", "/") for line in told)
