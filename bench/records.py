"""The shape of docs/benchmarks.json: what a run has measured, and on what."""

from __future__ import annotations

from dataclasses import dataclass, field

SIZES = {"1 KB": 1_000, "10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000}
DIRECT = "direct"
OURS = "tiergate"


@dataclass(frozen=True, slots=True)
class Tail:
    """Milliseconds."""

    p50: float
    p99: float


@dataclass(slots=True, kw_only=True)
class Round:
    """One turn of one gateway; what was not measured is None or not there."""

    request_us: float | None = None
    token_us: float | None = None
    one: Tail | None = None  # latency at one connection
    many: Tail | None = None  # and at 32
    ttft: Tail | None = None
    sizes: dict[str, float] = field(default_factory=dict)  # µs a request


@dataclass(frozen=True, slots=True, kw_only=True)
class Does:
    """What a gateway does with a request in the setup that is measured."""

    auth: bool = False
    limits: bool = False
    cache: bool = False
    queue: bool = False
    classes: bool = False
    log: bool = False
    metrics: bool = False
    balance: str = "-"


@dataclass(slots=True, kw_only=True)
class PeerRecord:
    version: str
    does: Does
    note: str = ""
    ready_s: float | None = None
    rss_ready_mib: float | None = None
    rss_after_mib: float | None = None
    failure: str | None = None  # why there are no figures, or none after some round
    errors: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)  # requests of each cell
    rounds: list[Round] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    build: str
    packages: dict[str, str]


@dataclass(slots=True, kw_only=True)
class Result:
    date: str
    command: str
    forced: list[str]  # what spoke against a run on this machine at this time
    machine: Machine
    rounds: int
    seconds: float
    load: list[float]  # average before and after
    steal_percent: float
    peers: dict[str, PeerRecord]
    image: str | None = None
