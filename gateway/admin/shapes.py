"""The bodies of the admin calls, bounded and described for the OpenAPI page."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from limits.types import BURST, LONGEST_BURST, SHORTEST_BURST

_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@+\-]{0,199}$")]
_Model = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:@+/\-*?\[\]!]{1,200}$")]
_Limit = Annotated[int, Field(ge=1, le=10**15)]
_LONGEST_OVERLAP = 36_500 * 86_400.0


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Told(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class ErrorBody(_Told):
    """What went wrong; `code` is for programs."""

    message: str
    type: str
    param: str | None
    code: str


class Error(_Told):
    """Every error of every call."""

    error: ErrorBody


class ReplicaStatus(_Told):
    """One server of a pool. Times in seconds; null where nothing is known yet.

    `slots` of at most `max_inflight` it may have now, and `max_tokens`; `slots_reason` is why the last of these changed:
    `fixed`, `start`, `room`, `waiting`, `memory`, `late`, `recovered`.
    """

    name: str
    ready: bool
    up: bool
    draining: bool
    inflight: int
    max_inflight: int
    slots: int
    slots_reason: str
    tokens: int
    max_tokens: int | None
    breaker: str
    latency: float | None
    waiting: float | None


class Slots(_Told):
    capacity: int
    inflight: int


class Depth(_Told):
    """Requests that wait, by class."""

    realtime: int
    standard: int
    batch: int


class QueueStatus(_Told):
    depth: Depth
    bytes: int
    tokens: int


class ShareRequests(_Told):
    """Slots that were given: of the share, and beyond it."""

    reserved: int
    borrowed: int


class Share(_Told):
    """What a tenant has of a pool for itself. `slots` and `tokens_left` are as of now; null: the share names no tokens."""

    tenant: str
    slots: int
    used: int
    tokens_left: int | None
    requests: ShareRequests


class Warmth(_Told):
    """What a replica read ahead the last time: `due` and `reading` come before that, `warm` is all of it, else `partly` or
    `failed`. Tokens, of those `skipped` and `failed` as estimated; `read` of so many `prompts`. `why`: the first of them that
    failed, by its place in the config, and how; empty: none did.
    """

    state: str
    prompts: int
    read: int
    computed: int
    cached: int
    skipped: int
    failed: int
    seconds: float
    why: str


class ModelStatus(_Told):
    """One pool with its queue."""

    name: str
    slots: Slots
    queue: QueueStatus
    reserved: list[Share]
    prewarm: dict[str, Warmth]
    replicas: list[ReplicaStatus]


class Status(_Told):
    models: list[ModelStatus]


class WaitingTenant(_Told):
    """A tenant in one class. `served`: tokens by weight beyond those of who is next, so the least is served first."""

    tenant: str
    waiting: int
    running: int
    served: float


class WaitingClass(_Told):
    """Seconds until all that waits now has a slot, null while that is not known, and the tenants that have most waiting."""

    waiting: int
    expected_wait: float | None
    tenants: list[WaitingTenant]


class ModelQueue(_Told):
    name: str
    slots: Slots
    classes: dict[str, WaitingClass]


class Queues(_Told):
    models: list[ModelQueue]


class Member(_Told):
    """A replica and where it came from: `config`, `admin`, or what discovered it."""

    name: str
    url: str
    source: str
    state: str
    ready: bool
    inflight: int
    slots: int
    slots_reason: str


class Members(_Told):
    replicas: list[Member]


class NewReplica(_Asked):
    """A server to take into a pool. It serves once it is healthy and has answered a warm-up request."""

    name: Annotated[str, Field(max_length=200)]
    url: Annotated[str, Field(max_length=2000)]
    api_key: Annotated[str, Field(max_length=1000)] = ""


class Question(_Asked):
    """A request to explain: as which tenant, for which endpoint, with which body and headers."""

    tenant: Annotated[str, Field(max_length=200)]
    endpoint: Annotated[str, Field(max_length=50)] = "chat"
    body: dict[str, Any]
    headers: Annotated[dict[str, str], Field(max_length=50)] = {}


class Limit(_Told):
    """One limit of a tenant, and what is left of it now. null: unlimited. `burst`: seconds of it that may be spent at once."""

    kind: str
    name: str
    rpm: int | None
    tpm: int | None
    max_parallel: int | None
    burst: float
    requests_remaining: int | None
    tokens_remaining: int | None


class Budget(_Told):
    """Tokens of a calendar day or month in UTC: of the tenant, or of its plan."""

    kind: str
    name: str
    period: str
    limit: int
    used: int
    remaining: int
    ends_at: datetime


class TenantBudgets(_Told):
    name: str
    budgets: list[Budget]


class Tenant(TenantBudgets):
    plan: str | None
    limits: list[Limit]


class Tenants(_Told):
    tenants: list[Tenant]


class CacheStatus(_Told):
    """Of the exact cache."""

    store: str
    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int
    evictions: int


class SemanticStatus(_Told):
    """Of the semantic cache. The error is the share of its answers that verification has shown wrong: Wilson's interval."""

    entries: int
    partitions: int
    labels: int
    wrong: int
    error_low: float
    error_high: float
    off: list[str]
    store: str
    embedder: str


class Caches(_Told):
    exact: CacheStatus
    semantic: SemanticStatus | None


class Flush(_Asked):
    """Which entries go: all conditions given must hold. `older_than` is an age in seconds."""

    tenant: Annotated[str, Field(max_length=200)] | None = None
    model: Annotated[str, Field(max_length=200)] | None = None
    tag: Annotated[str, Field(max_length=64)] | None = None
    older_than: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    all: bool = False
    dry_run: bool = False


class Flushed(_Told):
    flushed: int


class Deleted(_Told):
    deleted: bool


class Key(_Told):
    """A made key. What is stored of its secret is a hash, which is not shown."""

    id: str
    tenant: str
    name: str
    prefix: str
    status: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    rpm: int | None
    tpm: int | None
    max_parallel: int | None
    burst: float
    models: list[str] | None


class Keys(_Told):
    keys: list[Key]


class NewKey(Key):
    """`secret` is shown here, once, and stored nowhere."""

    secret: str


class RotatedKey(NewKey):
    """`replaces` works until its `expires_at`."""

    replaces: Key


class KeyTerms(_Asked):
    """Whose key, for what and how long; null is no limit of its own. `burst`: seconds of it that may be spent at once."""

    tenant: _Word
    name: Annotated[str, Field(max_length=200)] = ""
    expires_at: AwareDatetime | None = None
    rpm: _Limit | None = None
    tpm: _Limit | None = None
    max_parallel: _Limit | None = None
    burst: Annotated[float, Field(ge=SHORTEST_BURST, le=LONGEST_BURST, allow_inf_nan=False)] = BURST
    models: Annotated[list[_Model], Field(min_length=1, max_length=100)] | None = None


class Rotation(_Asked):
    """`overlap`: seconds that the old key goes on working."""

    overlap: Annotated[float, Field(ge=0, le=_LONGEST_OVERLAP, allow_inf_nan=False)] = 0.0
    expires_at: AwareDatetime | None = None
