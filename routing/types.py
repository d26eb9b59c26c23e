"""The values that routing takes and gives, and the few ways in which it refuses.

RoutingError
├── UnknownModel         no such name in the catalogue
├── ModelNotAllowed      the name is known, the key may not call what it stands for
├── EndpointNotServed    known and allowed, but not at this endpoint
└── UnknownTier          a tier override that no candidate model is in
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from routing.load import Move
from routing.sessions import Held, Turned

Reason = Literal["pinned", "score", "capability", "context", "session", "load", "override", "fallback", "default", "budget"]


@dataclass(frozen=True, slots=True)
class Model:
    """A pool of replicas behind one name. `None` for context or capabilities means unknown, which is not the same as lacking."""

    name: str
    tier: str
    served_name: str
    context: int | None = None
    capabilities: frozenset[str] | None = None
    endpoints: frozenset[str] = frozenset({"chat", "completions"})
    fallback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """What a request can be sent to: a model by its own name, or one of its adapters by the adapter's."""

    name: str
    model: Model
    served_name: str


@dataclass(slots=True)  # made for every request: a frozen one takes three times as long to make
class Resolution:
    """What a requested name stands for.

    Pinned: `candidates` is the pinned target followed by its own fallbacks. Auto: every model that may be chosen, in config
    order; never empty; `route` is its name unless that is `auto` itself.
    """

    requested: str
    pinned: Target | None
    candidates: tuple[Target, ...]
    auto: bool
    route: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """One line of the model list: a name that may be asked for, what it stands for, and the most tokens that it can hold."""

    name: str
    kind: Literal["auto", "route", "alias", "model", "adapter"]
    stands_for: str
    context: int | None


@dataclass(slots=True)  # made for every request: a frozen one takes three times as long to make
class Needs:
    """What a request cannot do without. `prompt_tokens` is an estimate; `max_tokens` is what the client asked for, if it did."""

    capabilities: frozenset[str]
    prompt_tokens: int
    max_tokens: int | None = None


@dataclass(slots=True)  # made for every request: a frozen one takes six times as long to make
class Verdict:
    """How hard a request looks. `score` None is "don't know", which is never the same as easy.

    `tier` is set by a classifier that names a tier itself. `terms` are the features that spoke, strongest first, each with
    what it added to the weighted sum. `small` and `large`: how likely the cheapest and the dearest tier are good enough, 0-1,
    from a classifier that tells. `policy`: the version of what was learned, of one that learns. `idle`: it is small talk, which
    asks for nothing. `instead`: why another classifier than the config's made it, one word.
    """

    score: float | None
    tier: str | None = None
    terms: tuple[tuple[str, float], ...] = ()
    small: float | None = None
    large: float | None = None
    policy: str = ""
    idle: bool = False
    instead: str = ""


@dataclass(slots=True)  # made for every request: a frozen one takes three times as long to make
class Decision:
    """Where a request goes, the thing that decided it, and where it goes next when that fails.

    `wanted`: the tier for this ask alone, where that was asked for. `keeps`: the tier that its conversation holds from here on
    (none after small talk alone), and `easy` the easy turns in a row with this one; `held`: what it held before, and `turned`
    what became of that. `move`: what the load made of it. `tiers`: those that it might have gone to, from cheap to dear.
    """

    target: Target
    reason: Reason
    score: float | None
    alternatives: tuple[Target, ...]
    terms: tuple[tuple[str, float], ...] = ()
    wanted: str = ""
    keeps: str = ""
    easy: int = 0
    held: Held | None = None
    turned: Turned | None = None
    move: Move | None = None
    tiers: tuple[str, ...] = ()


class Classifier(Protocol):
    """Judges how hard a request is. Never raises for a hostile body, and is bounded in time for a huge one."""

    def classify(self, body: Mapping[str, Any], endpoint: str) -> Verdict: ...


class RoutingError(Exception):
    """A request that cannot be routed; the client's or the operator's to mend, never worth a retry."""


class UnknownModel(RoutingError):  # noqa: N818 -- says what is the matter; the base says that it is an error
    def __init__(self, requested: str) -> None:
        super().__init__(f"no model is called {_shown(requested)}")
        self.requested = requested


class ModelNotAllowed(RoutingError):  # noqa: N818 -- says what is the matter; the base says that it is an error
    def __init__(self, requested: str) -> None:
        super().__init__(f"this key may not call {_shown(requested)}")
        self.requested = requested


class EndpointNotServed(RoutingError):  # noqa: N818 -- says what is the matter; the base says that it is an error
    def __init__(self, model: str, endpoint: str) -> None:
        super().__init__(f"{_shown(model)} does not serve {endpoint}")
        self.model = model
        self.endpoint = endpoint


class UnknownTier(RoutingError):  # noqa: N818 -- says what is the matter; the base says that it is an error
    def __init__(self, tier: str, known: tuple[str, ...]) -> None:
        super().__init__(f"no tier is called {_shown(tier)}; known here: {', '.join(known)}")
        self.tier = tier
        self.known = known


def _shown(name: str) -> str:
    """A client's text inside a message: quoted, one line, and short."""
    return repr(name if len(name) <= 200 else name[:200] + "…")
