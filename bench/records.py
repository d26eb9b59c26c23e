"""The shape of docs/benchmarks.json: what a run has measured, and on what."""

from __future__ import annotations

from dataclasses import dataclass, field

SIZES = {"1 KB": 1_000, "10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000}
DIRECT = "direct"
OURS = "tiergate"
SMG, LITELLM = "smg", "litellm"  # whom the aims name
STREAMS = (16, 64, 256, 1_024)
TENANTS = (1, 100, 1_000, 10_000)
REPLICAS = (2, 16, 64, 256)


@dataclass(frozen=True, slots=True)
class Tail:
    """Milliseconds."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Many streams at once. Late: by how many milliseconds the time between two tokens was longer than their pace."""

    token_us: float | None
    late_p99: float
    late_worst: float
    rss_mib: float | None  # while they all ran


@dataclass(slots=True, kw_only=True)
class Round:
    """One turn of one gateway; what was not measured is None or not there."""

    request_us: float | None = None
    token_us: float | None = None
    coalesced_us: float | None = None  # a token, of several in one read
    one: Tail | None = None  # latency at one connection
    many: Tail | None = None  # and at 32
    ttft: Tail | None = None
    sizes: dict[str, float] = field(default_factory=dict)  # µs a request
    kinds: dict[str, float] = field(default_factory=dict)  # µs a request, of tiergate alone
    crowds: dict[str, Crowd] = field(default_factory=dict)  # by the number of streams


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
    idle_ms: float | None = None  # CPU a second while nobody asks it anything
    absent: bool = False  # it is not on this machine, and that is no failure
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
    commit: str
    forced: list[str]  # what spoke against a run on this machine at this time
    machine: Machine
    rounds: int
    other_rounds: int  # of the crowds, tenants and replicas
    seconds: float = 0.0
    load: list[float] = field(default_factory=list)  # average before and after
    steal_percent: float = 0.0
    peers: dict[str, PeerRecord] = field(default_factory=dict)
    crowds: dict[str, PeerRecord] = field(default_factory=dict)
    pinned: bool = False  # each gateway had one core for itself while it had its crowds
    tenants: dict[str, dict[str, PeerRecord]] = field(default_factory=dict)  # by gateway and number
    replicas: dict[str, dict[str, PeerRecord]] = field(default_factory=dict)
    image: str | None = None
    scale_image: str | None = None
