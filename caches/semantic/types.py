"""What is asked of the semantic cache, and what it says. Plain values: they travel between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from caches.types import Entry
from caches.which import Which


@dataclass(frozen=True, slots=True)
class SemanticPolicy:
    """What holds for a tenant. `ttl` in seconds; `max_error`: the share of served answers that may be wrong, 0-1."""

    preset: str
    max_error: float | None
    ttl: float
    max_temperature: float
    multi_turn: bool
    skip_personal: bool


@dataclass(slots=True)
class Asked:
    """One question. `partition` and `own` are hex digits: see `partition`."""

    partition: str
    own: str  # the tenant's own partition, where `partition` is shared with other tenants; else empty
    text: str = field(repr=False)
    tenant: str
    scope: str  # who learns together: a tenant, or tenants that share
    preset: str
    max_error: float | None
    request_id: str  # as its client knows it
    exact: str = ""  # what the exact cache calls the answer of the very same request
    max_age: float | None = None  # seconds; an older answer is not wanted
    wants_grey: bool = False  # somebody is asked about what is nearly served, or may learn from it


@dataclass(slots=True)
class Grey:
    """The best neighbour that was not served, and that nothing but its distance speaks against."""

    id: str
    score: float
    text: str = field(repr=False)


@dataclass(slots=True)
class Found:
    """The answer to serve, or why there is none.

    `away`: the cache could not be asked (a word for the header). `why`: what speaks against the nearest one, for the operator.
    """

    entry: Entry | None = None
    score: float | None = None
    away: str = ""
    why: str = ""
    grey: Grey | None = None
    kept: str = field(default="", repr=False)  # the question that the answer was made for


@dataclass(slots=True)
class Shown:
    """What a comparison has shown about an answer that was, or would have been, served.

    `right` is None where nobody can tell: then `kept` is the kept answer's body, for a judge.
    """

    right: bool | None
    kept: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Glance:
    """What can be told of a question without a vector, and without asking the store.

    `cut`: the score from which answers are served, infinite where none are. `stage`: what would turn it away before a vector is
    made for it, or why the cache could not be asked; empty: it would be embedded.
    """

    embedder: str
    cut: float
    covered: bool  # the embedder reads its script
    stage: str


@dataclass(frozen=True, slots=True)
class Gone:
    """What a delete has found. `twin`: what the exact cache calls the answer that is gone; empty: there is none."""

    found: bool = False
    twin: str = ""


@dataclass(frozen=True, slots=True)
class SemanticStats:
    entries: int
    partitions: int
    labels: int
    wrong: int
    error_low: float  # Wilson's interval of the share of served answers that are wrong
    error_high: float
    off: tuple[str, ...]  # scopes that serve nothing until they have shown better
    store: str  # `ok`, or what is wrong
    embedder: str


class Semantic(Protocol):
    """The semantic cache, in this process or another one. No method raises for want of the cache behind it."""

    async def look(self, asked: Asked) -> Found: ...

    async def take(self, asked: Asked, grey: Grey) -> Found:
        """A neighbour that a verifier has approved."""
        ...

    async def stands(self, hit: str, body: bytes, maker: str, tenant: str, request_id: str) -> bool:
        """An approved answer, shown to `maker` as `hit`, that the exact cache is about to serve to a tenant: whether the answer
        that it came from is still kept, and the pair not refused. `body`: the digest of its body (`ids.body_digest`).
        """
        ...

    async def heard(self, asked: Asked) -> bool:
        """The question was answered without it: its tenant has asked it. Whether enough tenants have, for the first time."""
        ...

    async def keep(self, asked: Asked, entry: Entry) -> None:
        """An answer that was made for the question. It is searchable a moment later."""
        ...

    async def compare(self, asked: Asked, id: str, answer: bytes) -> Shown:  # noqa: A002 - the name of the field it is
        """A kept answer against the one that a model gave now."""
        ...

    async def learn(self, asked: Asked, id: str, score: float, *, right: bool, weight: float) -> None:  # noqa: A002 - the name of the field it is
        """`weight`: for how many served answers this one speaks."""
        ...


class OwnedSemantic(Semantic, Protocol):
    """The same, in the process that owns it; and what is done there to both caches (`caches.both`)."""

    async def feedback(self, tenant: str, request_id: str, score: float) -> str:
        """A bad score refuses the pair for that tenant: the id of the hit. Empty: it changes nothing."""
        ...

    async def delete(self, id: str, tenant: str | None) -> Gone:  # noqa: A002 - the name of the field it is
        """Never serve again what was served under an id for that question: to that tenant; None: to anybody. The answer itself
        goes if it is the tenant's own. Raises CacheAway.
        """
        ...

    async def forget(self, exact: str, tenant: str | None, *, known: bool) -> bool:
        """Delete what is kept of an exact answer, and find nothing more for that very request. `known`: there was such an answer
        of that tenant's. Whether anything was kept here. Raises CacheAway.
        """
        ...

    async def flush(self, which: Which, *, dry_run: bool = False) -> int: ...

    async def run(self) -> None:
        """For ever, beside the requests. What was learned is kept, and what is away is looked for."""
        ...

    async def close(self) -> None: ...

    async def would_stand(self, hit: str, body: bytes, maker: str, tenant: str) -> bool:
        """As `stands`, for who only looks."""
        ...

    def glance(self, asked: Asked) -> Glance | None:
        """Nothing is changed by it. None: there is no such cache."""
        ...

    def standing(self) -> SemanticStats | None:
        """Without a word to the store. None: there is no such cache."""
        ...
