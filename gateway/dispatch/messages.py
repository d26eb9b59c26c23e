"""What workers and the dispatcher say to each other: msgpack arrays, told apart by their first element.

Both ends run the same version, so there is none in the messages. A request is known by a number that its worker gave it, scopes
by numbers that their worker introduced them with. Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import math

import msgspec

from backends.types import Outcome
from limits.types import BURST
from limits.waiting import Priority

SpentValues = tuple[int, int, bool, int | None]
"""`limits.waiting.Spent`."""


class ScopeTerms(msgspec.Struct, array_like=True, gc=False):
    number: int
    id: str
    kind: str
    rpm: int | None
    tpm: int | None
    max_parallel: int | None
    name: str
    burst: float = BURST
    day: int | None = None
    month: int | None = None


class Work(msgspec.Struct, array_like=True, gc=False):
    """`gateway.dispatch.types.WorkAsk`."""

    model: str
    tokens: int
    clamp: bool
    model_scope: int | None
    priority: Priority
    tenant: str
    weight: int
    size: int
    deadline: float
    session: str | None
    prompt_tokens: int
    form: str = ""
    most: int | None = None
    due: float = math.inf
    stream: bool = False
    since: float | None = None
    leaves: float = math.inf
    prefix: bytes = b""
    shared: bool = False
    ids: bytes = b""
    spare: bool = False


class Wait(msgspec.Struct, array_like=True, gc=False):
    """When to come back whose work waits for a slot. `share`: another worker's, of which it is not known whether it waits."""

    work: Work
    share: bytes | None


class Look(msgspec.Struct, array_like=True, gc=False):
    """What is to be found out at once. `have`: the generation of the answer that the worker keeps under this key; 0: none."""

    lookup: bytes | None
    have: int
    share: bytes | None
    stream: bool
    work: Work | None


class Report(msgspec.Struct, array_like=True, gc=False):
    """What an attempt at a replica showed; no outcome when it said nothing. `after`: seconds, of a refusal."""

    first_at: float | None = None
    outcome: Outcome | None = None
    after: float = 0.0
    suspect: bool = False


class Kept(msgspec.Struct, array_like=True, gc=False):
    """A cached answer."""

    id: str
    key: bytes
    tenant: str
    model: str
    tier: str
    endpoint: str
    body: bytes
    stored_at: float
    expires_at: float
    completion_tokens: int
    prompt_tokens: int
    generation: int
    tags: tuple[str, ...]
    began_at: float
    alias: str


class Known(msgspec.Struct, array_like=True, gc=False):
    """A replica. `serial` tells it from others that had its name. Without a `url` it is a provider: each worker has its own."""

    serial: int
    model: str
    name: str
    url: str
    api_key: str
    tls: tuple[str, str, str, bool, str, str] | None
    source: str
    held: bool  # the operator drained it
    up: bool
    heard: bool = False  # its engine says what it has cached


class HeldWork(msgspec.Struct, array_like=True, gc=False):
    """Work that a worker was granted: its tokens as reserved, the replica if one is asked just now, when that began.

    `day`: see `limits.types.Reservation`.
    """

    w: int
    model: str
    tokens: int
    model_scope: int | None
    serial: int | None
    replica: str
    began: float
    tenant: str
    day: int = 0


class Held(msgspec.Struct, array_like=True, gc=False):
    """What a worker held before it said the End number `ended`, which may not have been heard; 0: what it holds now."""

    n: int
    scopes: tuple[int, ...]
    left: bool
    refunded: bool
    share: bytes | None
    stream: bool
    work: HeldWork | None
    ended: int


# -- a worker says


class Hello(msgspec.Struct, array_like=True, tag=0):
    """The first message of a connection. `epoch` names the dispatcher that it knew before, if any."""

    worker: str  # names this process for as long as it lives
    number: int
    pid: int
    epoch: str
    config: str  # names the config of the dispatcher that told it of the roster
    roster: list[Known]
    scopes: list[ScopeTerms]
    held: list[Held]


class Scopes(msgspec.Struct, array_like=True, tag=1, gc=False):
    added: list[ScopeTerms]


class Ask(msgspec.Struct, array_like=True, tag=2, gc=False):
    """A request is to be admitted. Answered by Answer."""

    n: int
    scopes: tuple[int, ...]
    look: Look | None


class LookUp(msgspec.Struct, array_like=True, tag=3, gc=False):
    """An admitted request asks what it did not ask at once. Answered by Answer."""

    n: int
    look: Look


class Begin(msgspec.Struct, array_like=True, tag=4, gc=False):
    """More work for an admitted request. Answered by Granted or Blocked.

    `held`: of one whose client has left, and which others want answered. It ended with that for the dispatcher, so it has a new
    number here, and nothing is held of it.
    """

    n: int
    w: int  # numbers the request's works; that which was asked for at once is 0
    work: Work
    share: bytes | None
    held: Held | None = None


class Next(msgspec.Struct, array_like=True, tag=5, gc=False):
    """The attempt failed: another replica. Answered by Another."""

    n: int
    w: int
    report: Report


class Raise(msgspec.Struct, array_like=True, tag=6, gc=False):
    n: int
    priority: Priority


class First(msgspec.Struct, array_like=True, tag=7, gc=False):
    """The first byte came: told at once only where a choice of replica depends on it."""

    n: int
    at: float


class End(msgspec.Struct, array_like=True, tag=8, gc=False):
    """The work is over (`over`), or the client is (`left`), or both. Numbered, so that each is heard once.

    `settled`: tokens to charge; None charges none, and gives the model's request back. `spent`: `limits.waiting.Spent`. `extra`:
    tokens to charge that were not reserved.
    """

    seq: int
    n: int
    over: bool
    left: bool
    refund: bool
    settled: int | None
    report: Report | None
    spent: SpentValues | None = None
    extra: int = 0


class Again(msgspec.Struct, array_like=True, tag=15, gc=False):
    """It gives its slot up, and waits for another one as `w`. Answered by Granted or Blocked."""

    n: int
    w: int
    work: Work
    share: bytes | None


class Keep(msgspec.Struct, array_like=True, tag=16, gc=False):
    """It was told to give way, and does not."""

    n: int
    w: int


class Store(msgspec.Struct, array_like=True, tag=9, gc=False):
    entry: Kept


class Call(msgspec.Struct, array_like=True, tag=11, gc=False):
    """Anything that is no request of a model. Answered by Reply."""

    id: int
    verb: str
    payload: bytes


class Return(msgspec.Struct, array_like=True, tag=12, gc=False):
    """A Poll was obeyed. `told`: what came of it, of one that asks."""

    id: int
    told: bool = False


class Counts(msgspec.Struct, array_like=True, tag=13, gc=False):
    """What a worker has counted."""

    payload: bytes


# -- the dispatcher says


class Welcome(msgspec.Struct, array_like=True, tag=32, gc=False):
    """The answer to Hello. `heard`: the last End of this worker that was heard."""

    epoch: str
    heard: int
    config: str
    roster: list[Known]


class Roster(msgspec.Struct, array_like=True, tag=33, gc=False):
    changed: list[Known]
    gone: list[int]


class Refusal(msgspec.Struct, array_like=True, gc=False):
    """An exception of the leaves. `kind` names it; the rest is what it was made with.

    `seconds`: that it waited or would wait; `most`: that it may.
    """

    kind: str
    scope: int = 0
    resource: str = ""
    limit: int = 0
    used: int = 0
    requested: int = 0
    wait: float = 0.0
    flag: bool = False
    until: int = 0
    seconds: float = 0.0
    most: float = 0.0


class Grant(msgspec.Struct, array_like=True, gc=False):
    """A slot and a replica. No serial: none may be asked. `tell_first`: a choice depends on hearing of the first byte at once.

    `doubted`: if the replica finds fault with the request, another one is to be asked.
    """

    tokens: int
    queued: float
    serial: int | None
    tell_first: bool
    day: int = 0  # of whose budgets the tokens were taken; see `limits.types.Reservation`
    doubted: bool = False


StandingValues = tuple[int | None, int | None, float | None, int | None, int | None, float | None, int | None, int | None]


class Answer(msgspec.Struct, array_like=True, tag=34, gc=False):
    """To Ask and LookUp.

    `place`: 0 the request makes its answer itself, 1 this worker makes it already, 2 another one does, as a `stream` or not.
    `pending`: it waits for a slot, and Granted or Blocked follows.
    `soon`: others may wait for what the request holds, so its End is to come at once.
    """

    n: int
    refusal: Refusal | None = None
    standing: StandingValues | None = None
    entry: Kept | None = None
    same: bool = False  # the worker's own copy is still good
    place: int = 0
    stream: bool = False
    grant: Grant | None = None
    blocked: Refusal | None = None
    pending: bool = False
    soon: bool = False
    away: str = ""  # why the exact cache could not be asked


class Granted(msgspec.Struct, array_like=True, tag=35, gc=False):
    n: int
    w: int
    grant: Grant
    standing: StandingValues | None


class Blocked(msgspec.Struct, array_like=True, tag=36, gc=False):
    n: int
    w: int
    refusal: Refusal
    standing: StandingValues | None


class Another(msgspec.Struct, array_like=True, tag=37, gc=False):
    n: int
    w: int
    serial: int | None
    tell_first: bool
    doubted: bool = False


class Yield(msgspec.Struct, array_like=True, tag=41, gc=False):
    """Somebody more urgent wants its slot. Answered by Again, by End or by Keep."""

    n: int
    w: int


class Ack(msgspec.Struct, array_like=True, tag=38, gc=False):
    """Every End up to this one was heard, and will not be forgotten."""

    seq: int


class Reply(msgspec.Struct, array_like=True, tag=39, gc=False):
    """`fault`: what to tell the client, as JSON; empty when all is well."""

    id: int
    payload: bytes
    fault: bytes


class Poll(msgspec.Struct, array_like=True, tag=40, gc=False):
    """Something that a worker is to do. Answered by Return."""

    id: int
    verb: str
    payload: bytes


# -- an answer on its way to the clients of other workers; who says what is told in `gateway.dispatch.feeds`


class Subscribe(msgspec.Struct, array_like=True, tag=64, gc=False):
    """To the worker that makes an answer: somebody else wants it too. Said again for a more urgent class."""

    feed: int
    share: bytes
    n: int  # the request whose work it is, as the dispatcher knows it
    stream: bool  # how the answer is made
    priority: int
    had: int | None = None  # of a feed that a dispatcher's end interrupted: how many FeedHeads and Pieces have come


class Piece(msgspec.Struct, array_like=True, tag=65, gc=False):
    """`more`: the rest of it is still to come. `last`: the stream has said that it is complete."""

    feed: int
    data: bytes
    usage_only: bool
    more: bool
    last: bool


class FeedHead(msgspec.Struct, array_like=True, tag=66, gc=False):
    """The head of an answer, and what is known of the work so far (`gateway.dispatch.facts`)."""

    feed: int
    status: int
    content_type: bytes
    stream: bool
    work: bytes


class FeedEnd(msgspec.Struct, array_like=True, tag=67, gc=False):
    """The answer is over. `fault`: why it is not whole, `gateway.dispatch.fault` or one of the words of `feeds`; or empty."""

    feed: int
    work: bytes
    fault: bytes


class Credit(msgspec.Struct, array_like=True, tag=68, gc=False):
    """Bytes that a subscriber has taken since its last word."""

    feed: int
    taken: int


class Unsubscribe(msgspec.Struct, array_like=True, tag=69, gc=False):
    """Nobody wants it any more. To its maker also: the end was passed on."""

    feed: int


class Offer(msgspec.Struct, array_like=True, tag=70, gc=False):
    """By the maker, of a feed that a dispatcher's end interrupted: the rest of it is here."""

    feed: int


FeedMessage = Subscribe | Piece | FeedHead | FeedEnd | Credit | Unsubscribe | Offer
FromWorker = (
    Hello | Scopes | Ask | LookUp | Begin | Next | Again | Keep | Raise | First | End | Store | Call | Return | Counts
    | Subscribe | Piece | FeedHead | FeedEnd | Credit | Unsubscribe | Offer
)  # fmt: skip
FromDispatcher = (
    Welcome | Roster | Answer | Granted | Blocked | Another | Yield | Ack | Reply | Poll
    | Subscribe | Piece | FeedHead | FeedEnd | Credit | Unsubscribe
)  # fmt: skip

encode = msgspec.msgpack.Encoder().encode
from_worker = msgspec.msgpack.Decoder(FromWorker).decode
from_dispatcher = msgspec.msgpack.Decoder(FromDispatcher).decode
