"""An explanation: what would become of a request, as values that go as JSON over any wire."""

from __future__ import annotations

import msgspec

from backends.stats import ReplicaStats
from gateway.budgets import Budget
from limits.view import PlaceView


class Refusal(msgspec.Struct, frozen=True):
    """The error that the client would get. `now`: as things stand just now, with what a running gateway knows; else always.

    `wait`: the seconds after which it would be told to come back; None: not at all.
    """

    status: int
    code: str
    message: str
    now: bool = False
    wait: float | None = None


class Candidate(msgspec.Struct, frozen=True):
    """A model that was looked at. `out`: why it cannot be the one; empty where it can."""

    model: str
    tier: str
    context: int | None
    out: str


class Term(msgspec.Struct, frozen=True):
    """A feature that spoke, and what it added to the score's sum; `weight` where the feature has a fixed one."""

    feature: str
    added: float
    weight: float | None


class RouteTarget(msgspec.Struct, frozen=True):
    """What is aimed at between tiers, `tenant`: for that one alone, and how it stands in the process that tells.

    `share`: of the last `seen` requests, those that were to leave the cheapest tier, whatever the load made of that; `overall`:
    of all `sent` since the gateway's counters began, those that did, by whichever of its processes. `kept`: of the dearest tier's
    quality, as expected.
    `cut`: the score from which requests go up now, and the part `at_the_cut` of those that have it; `nobody`: none does.
    """

    route: str
    tenant: str
    kind: str
    value: float
    cut: float
    nobody: bool
    at_the_cut: float
    share: float | None
    kept: float | None
    seen: int
    overall: float | None
    sent: int


class SessionView(msgspec.Struct, frozen=True):
    """What a conversation held before this turn, and what that makes of it: `turned` is same, kept, up, down or looped.

    `wanted`: the tier for this turn alone. `easy` turns in a row so far, of the `easy_turns` that stay up; going down would cost
    `cost` tokens, and may cost `move_tokens`. `leans`: the turn goes on with what was said before. `kept`: it was remembered,
    else made out from the body. `model`: the one that a tool loop goes on with; it has had `loops` turns of `loop_turns`.
    """

    tier: str
    wanted: str
    turned: str
    easy: int
    easy_turns: int
    cost: int
    move_tokens: int
    leans: bool
    kept: bool
    model: str = ""
    loops: int = 0
    loop_turns: int = 0


class LoadView(msgspec.Struct, frozen=True):
    """A pool now: `wait` seconds until a newcomer of this class has a slot, None: not known; `meant`: the wait from which on its
    tier is overloaded. `known` is False where nothing runs that could know it.
    """

    model: str
    tier: str
    meant: float
    known: bool = False
    ready: bool = False
    free: int = 0
    slots: int = 0
    wait: float | None = None


class Route(msgspec.Struct, frozen=True):
    """Which model, and why. `threshold`: the score from which this very request goes up a tier, at most 1. `classifier`: which
    one judged it, if any did; `classifier_failed`: why that is not the one of the config; `policy`: the version of what it has
    learned. `small`, `large`: how likely the cheapest and the dearest tier are good enough, of a classifier that tells; it tells
    even where it knows too little of the text to score it. `first`: the model that a cascade asks before it.
    """

    model: str
    tier: str
    reason: str
    score: float | None
    threshold: float
    terms: tuple[Term, ...]
    candidates: tuple[Candidate, ...]
    session: SessionView | None = None  # None: the conversation begins, or it was not asked for
    move: str = ""  # what the load made of it: spilled, borrowed
    band: float = 0.0  # the share of what lately went up that is near the cut
    loads: tuple[LoadView, ...] = ()
    target: RouteTarget | None = None
    classifier: str = ""
    classifier_failed: str = ""
    policy: str = ""
    small: float | None = None
    large: float | None = None
    first: str = ""


class ScopeView(msgspec.Struct, frozen=True):
    """Within which answers are shared: a tenant, or tenants that name one scope."""

    name: str
    shared: bool


class Held(msgspec.Struct, frozen=True):
    """`state`: none, fresh, stale (to be served once more while it is renewed), or away. `age` in seconds; `reason`: why what is
    there is not served, or why the store cannot be asked.
    """

    state: str
    age: int | None
    reason: str


class ExactView(msgspec.Struct, frozen=True):
    """The exact cache. `keep` is the tenant's policy; `reason`: what is missing of looking up, storing and sharing, and why.

    Seconds: an answer is fresh for `ttl`, and may be served for `stale` more; none older than `max_age` is wanted. `held` is None
    where nothing runs that could know it, or where it is not looked up.
    """

    keep: str
    reason: str
    ttl: float
    stale: float
    max_age: float | None
    tags: tuple[str, ...]
    scope: ScopeView
    held: Held | None


class SemanticView(msgspec.Struct, frozen=True):
    """The semantic cache. `reason`: why the request has no part in it; what follows is then empty as far as it means nothing.

    `partition`: the digest of everything but the question. `embedder`: a fingerprint. `cut`: the score from which answers are
    served; None: none are, or nothing is known. `stage`: what would turn the question away before a vector is made for it
    (`gate`, `script`, `guards`), or why the cache cannot be asked; empty: nothing would; None: nothing runs that could know it.
    """

    eligible: bool
    reason: str
    partition: str = ""
    preset: str = ""
    embedder: str = ""
    cut: float | None = None
    scope: ScopeView | None = None
    ttl: float | None = None
    stage: str | None = None


class CacheView(msgspec.Struct, frozen=True):
    """`verdict` is `x-tiergate-cache` unless the answer is there or under way; `stable`: the id is the same in every process.

    Where a running gateway was looked into and has the answer, it is `exact`.
    """

    verdict: str
    reason: str
    lookup: bool
    store: bool
    share: bool
    id: str
    stable: bool
    exact: ExactView
    semantic: SemanticView


class Balance(msgspec.Struct, frozen=True):
    """What is left of a scope now, and seconds until it is full again; None: no limit. `parallel`: requests that run."""

    requests_remaining: int | None
    requests_reset: float | None
    tokens_remaining: int | None
    tokens_reset: float | None
    parallel: int


class Limit(msgspec.Struct, frozen=True):
    """A scope whose limits hold together with the others'; None: no limit. `burst`: seconds of them that may be spent at once.

    `day` and `month` are budgets in tokens. `balance` is None where nothing runs that could know it.
    """

    scope: str
    name: str
    rpm: int | None
    tpm: int | None
    max_parallel: int | None
    burst: float
    day: int | None
    month: int | None
    balance: Balance | None = None


class Cost(msgspec.Struct, frozen=True):
    """What the request would find at a replica, where the balance asks what is cached.

    `cost` is what `work_cost` makes of it, None with another balance:
    (waiting + (2 + q / 8192) uncached + 105 inflight) / speed, where q is the least that waits at any of them.
    `waiting`: uncached prompt tokens that were sent there and whose first token has not come back. `uncached`: those of this one.
    `home`: of its session, where half of the prompt counts as cached if less is.
    """

    cost: float | None
    waiting: int
    uncached: int
    inflight: int
    speed: float
    home: bool = False


class Replica(msgspec.Struct, frozen=True):
    """`state` and `cost` are None where nothing runs that could know them; `cost` also where the balance asks for no cache."""

    name: str
    state: ReplicaStats | None
    cost: Cost | None = None


class Foretold(msgspec.Struct, frozen=True):
    """Prompt tokens that the model's replicas were thought to have cached, and that were, of all answers that told."""

    expected: int
    delivered: int


class Attempt(msgspec.Struct, frozen=True):
    """One model that would be tried, and when. `never`: why its limits can never let this request through.

    `prompt_tokens` are estimated at `bytes_per_token`, which each process that serves learns for itself: of several workers none
    is asked here. `reserved` is what the limits would set aside; `clamped`: cut down to the smallest burst, for the client named
    no maximum.

    `refused`: what it would be told just now, and by which kind of limit (or `queue`, `replica`).

    `queue`: where it would stand in front of the pool now; None where nothing runs that could know it.
    """

    model: str
    tier: str
    when: str
    served_name: str
    bytes_per_token: float
    prompt_tokens: int
    reserved: int
    clamped: bool
    limits: tuple[Limit, ...]
    never: Refusal | None
    never_scope: str  # the kind of the limit that does
    balance: str
    ordered: bool
    replicas: tuple[Replica, ...]
    queue: PlaceView | None = None
    refused: Refusal | None = None
    refused_by: str = ""
    foretold: Foretold | None = None  # None where nobody counts that


class Upstream(msgspec.Struct, frozen=True):
    """What a replica of the first attempt would get. `body` has its salt masked, and is cut after 64 KiB."""

    path: str
    body: str
    bytes: int
    edited: bool


class Explanation(msgspec.Struct):
    """As far as the request came: what follows a refusal is None."""

    endpoint: str
    tenant: str
    key: str
    plan: str
    requested: str = ""
    stream: bool = False
    priority: str = ""
    weight: int = 1
    capabilities: tuple[str, ...] = ()
    prompt_tokens: int = 0
    max_tokens: int | None = None
    room: int = 0
    stands_for: tuple[str, ...] = ()
    auto: bool = False
    cache: CacheView | None = None
    route: Route | None = None
    attempts: tuple[Attempt, ...] = ()
    upstream: Upstream | None = None
    refusal: Refusal | None = None
    live: bool = False
    budgets: tuple[Budget, ...] = ()  # of the tenant and its plan, used so far; empty where nothing runs
    limits_store: str = ""  # where balances are kept, and whether that answers; empty where nothing runs
    microseconds: dict[str, float] = {}
