"""docs/benchmarks.md, made of a result alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from bench import aims, growth
from bench.cells import AUTO, COALESCED, HIT, KINDS, NAMED
from bench.figures import Spread, added, ratios, values
from bench.growth import failures
from bench.load import CONNECTIONS
from bench.records import DIRECT, OURS, SIZES, PeerRecord, Result, Round, Tail
from bench.tables import NONE, number, spread, table
from bench.upstream import PACE, TOKENS

_IMAGES = ("CPU of each gateway", "CPU and lateness by streams, CPU by tenants and by replicas")
Peers = Mapping[str, PeerRecord]
_DOES = {
    "auth": "key checked", "limits": "tenant limits", "cache": "exact cache", "queue": "priority queue",
    "classes": "tier chosen", "log": "log line", "metrics": "metrics",
}  # fmt: skip


def brief(peers: Peers) -> str:
    """The same for a terminal: what it cost and how long it took."""
    return "\n\n".join([_cost(peers), _latency(peers), _memory(peers)])


def report(result: Result) -> str:
    peers, parts = result.peers, [_head(result), aims.section(result)]
    if peers:
        parts += [_cost(peers), _kinds(peers), _latency(peers), _sizes(peers), _memory(peers)]
    parts += growth.sections(result)
    parts += [_does(peers), _reading(result)] if peers else []
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _head(result: Result) -> str:
    forced = f" **FORCED on a busy machine ({'; '.join(result.forced)}): do not quote.**" if result.forced else ""
    machine = result.machine
    packages = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    images = [f"![{what}]({image})" for what, image in zip(_IMAGES, (result.image, result.scale_image), strict=True) if image]
    return f"""Made by `make bench`, which overwrites all of it.{forced}

# tiergate and its peers

{result.date}, commit {result.commit}, `{result.command}`: {_rounds_told(result)}. {machine.cpu}, {machine.cores} \
cores, {machine.memory_gib} GiB, {machine.kernel}; {machine.python}, {machine.build}; {packages}. Load average \
{result.load[0]:.1f} before, {result.load[1]:.1f} after; other virtual machines took {result.steal_percent:.1f} % of the CPU.

All stand before the same two replicas (one small server) and have the same clients. In each round all take turns, and another \
one begins. A figure is the median of the rounds with their range in parentheses; a ratio is taken within each round, since the \
machine's mood is the same for both there: above 1, the peer needs more than tiergate. What each does for a request is in \
the last table: **all of them do less than tiergate.**

{chr(10).join(images)}"""


def _rounds_told(result: Result) -> str:
    minutes = max(1, round(result.seconds / 60))
    told = f"{result.rounds} round{'s' * (result.rounds > 1)}"
    if result.other_rounds != result.rounds:
        told += f", {result.other_rounds} of what grows,"
    return f"{told} in {minutes} minute{'s' * (minutes > 1)}"


def _cost(peers: Peers) -> str:
    ours = _rounds(peers, OURS)
    rows = []
    for name, record in _gateways(peers):
        cells = []
        for get, digits in ((_request, 0), (_token, 1), (_coalesced, 1)):
            cells += [spread(values(record.rounds, get), digits), spread(ratios(record.rounds, ours, get), 2)]
        rows.append([name, *cells])
    title = ["gateway", "µs a request", "ratio", "µs a streamed token", "ratio", "µs a coalesced token", "ratio"]
    return f"""## CPU

Of the process tree, user and system. Requests: 0.5 KB bodies, 0.6 KB answers, {CONNECTIONS} connections. Tokens: {CONNECTIONS} \
streams of {TOKENS} events, one each {PACE * 1e3:.0f} ms; coalesced: {COALESCED.events} in each write, {COALESCED.tokens} in all.

{table(title, rows)}

{failures(peers)}"""


def _kinds(peers: Peers) -> str:
    rounds = _rounds(peers, OURS)
    rows = [["half `auto`, half named (as above)", spread(values(rounds, _request), 0)]]
    rows += [[_KIND.get(kind.name, kind.name), spread(values(rounds, _kind(kind.name)), 0)] for kind in KINDS]
    return f"""## What a request of tiergate costs, by its kind

Each kind has a cell of its own, in which nothing else is asked; half and half is compared, and may be dearer than their mean.

{table(["kind", "µs a request"], rows)}"""


_KIND = {AUTO: "`auto`: the learned classifier judges it", NAMED: "names its model", HIT: "answered from the exact cache"}


def _kind(name: str) -> Callable[[Round], float | None]:
    return lambda one: one.kinds.get(name)


def _latency(peers: Peers) -> str:
    """Tails, as what a gateway adds to the direct way of the same round."""
    direct = _rounds(peers, DIRECT)
    columns: list[tuple[str, Callable[[Round], Tail | None]]] = [
        ("1 connection", lambda one: one.one),
        (f"{CONNECTIONS} connections", lambda one: one.many),
        ("TTFT", lambda one: one.ttft),
    ]
    rows = [["(direct, absolute)", *(spread(values(direct, pick), 2) for _, get in columns for pick in _both(get))]]
    for name, record in _gateways(peers):
        rows.append([name, *(spread(added(record.rounds, direct, pick), 2) for _, get in columns for pick in _both(get))])
    title = ["gateway", *(f"{label} {share}" for label, _ in columns for share in ("p50", "p99"))]
    return f"""## Added latency, ms

Over the direct way to the upstream, which has its turn in each round like the others. At {CONNECTIONS} connections each client \
sends its next request at once, so that column tells how soon a gateway is saturated rather than what a request costs at \
leisure: a slow one has them all waiting. TTFT is the first event of the paced streams; one that cannot carry \
{CONNECTIONS / PACE:,.0f} events a second is behind there too.

{table(title, rows)}"""


def _both(get: Callable[[Round], Tail | None]) -> Iterator[Callable[[Round], float | None]]:
    yield lambda one: None if (tail := get(one)) is None else tail.p50
    yield lambda one: None if (tail := get(one)) is None else tail.p99


def _sizes(peers: Peers) -> str:
    rows = []
    for name, record in _gateways(peers):
        cells = [spread(values(record.rounds, _size(size)), 0) for size in SIZES]
        rows.append([name, *cells, _growth(record.rounds)])
    return f"""## CPU by size of the body, µs a request

Unstreamed, 8 connections, prompts that differ from their first words on. The last column is the slope from the smallest to the \
largest.

{table(["gateway", *SIZES, "µs for each KB"], rows)}"""


def _growth(rounds: Sequence[Round]) -> str:
    sizes = list(SIZES.items())
    (small, least), (large, most) = sizes[0], sizes[-1]
    slopes = [
        (one.sizes[large] - one.sizes[small]) / (most - least) * 1e3
        for one in rounds
        if small in one.sizes and large in one.sizes
    ]
    return spread(slopes, 2)


def _memory(peers: Peers) -> str:
    rows = [
        [name, number(one.rss_ready_mib, 0), number(one.rss_after_mib, 0), number(one.ready_s, 1), _sent(one)]
        for name, one in _gateways(peers)
    ]
    return f"""## Memory and start

RSS of the process tree, once ready and after all rounds. Ready is the first chat request that is answered, counted from the \
command. The load was not the same for all: a slow gateway was sent fewer requests, so that each cell takes about as long.

{table(["gateway", "MiB ready", "MiB after", "ready after s", "requests a round"], rows)}"""


def _sent(record: PeerRecord) -> str:
    return f"{sum(record.counts.values()):,}" if record.counts else NONE


def _does(peers: Peers) -> str:
    rows: list[list[str]] = []
    notes: dict[str, list[str]] = {}
    for name, record in _gateways(peers):
        yes = ["yes" if getattr(record.does, key) else "no" for key in _DOES]
        rows.append([name, record.version, *yes, record.does.balance])
        if record.note:
            notes.setdefault(record.note, []).append(name)
    return f"""## What each does for a request in this setup

{table(["gateway", "version", *_DOES.values(), "balances by"], rows)}

{chr(10).join(f"- **{', '.join(names)}**: {note}" for note, names in notes.items())}"""


def _reading(result: Result) -> str:
    ours = _rounds(result.peers, OURS)
    told = [sentence for name, record in _gateways(result.peers) if (sentence := _verdict(name, record, ours))]
    return f"""## What to conclude, and what not

{chr(10).join(told)}

- Ratios carry over to similar machines, absolute figures do not: this is one machine on one day, and upstream, clients and \
gateways share its {result.machine.cores} cores. Added latency above all is partly the wait for a core.
- A gateway that does less should cost less. A "no" in the table is no fault: it is work that somebody else has to do, or nobody.
- The upstream answers at once. Before a real model, whose answers take seconds, all of these costs are small; they decide how \
many cores the gateway needs, not how long users wait.
- The peers run as their documentation starts them, not as an expert of theirs might tune them."""


def _verdict(name: str, record: PeerRecord, ours: Sequence[Round]) -> str:
    if name == OURS:
        return ""
    parts = [
        f"{compared(found)} {what}"
        for get, what in ((_request, "a request"), (_token, "a streamed token"))
        if (found := Spread.of(ratios(record.rounds, ours, get))) is not None
    ]
    return f"- **{name}** {' and '.join(parts)}." if parts else ""


def compared(ratio: Spread) -> str:
    """What the ratios of the rounds allow to say, and no more."""
    span = f"({ratio.low:.2f} to {ratio.high:.2f})"
    if ratio.low > 1:
        return f"takes {ratio.median:.2f} times {span} tiergate's CPU for"
    if ratio.high < 1:
        return f"takes only {ratio.median:.2f} times {span} tiergate's CPU for"
    return f"cannot be told from tiergate {span} by the CPU for"


def _gateways(peers: Peers) -> Iterator[tuple[str, PeerRecord]]:
    return ((name, record) for name, record in peers.items() if name != DIRECT)


def _rounds(peers: Peers, name: str) -> list[Round]:
    record = peers.get(name)
    return record.rounds if record else []


def _request(one: Round) -> float | None:
    return one.request_us


def _token(one: Round) -> float | None:
    return one.token_us


def _coalesced(one: Round) -> float | None:
    return one.coalesced_us


def _size(name: str) -> Callable[[Round], float | None]:
    return lambda one: one.sizes.get(name)
