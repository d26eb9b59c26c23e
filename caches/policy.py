"""Which requests may look an answer up, store theirs, and share one that is being made.

    request                            look up   store   share
    plain, keepable                    yes       yes     yes
    not keepable (see `refusal`)       no        no      no
    no-cache, or max-age=0             no        yes     no      a fresh answer, which replaces the kept one
    no-store                           yes       no      no      as in HTTP: what is kept already may be served
    only-if-cached                     yes       no      no      a miss is the caller's to refuse (504)

Under `keep: deterministic` a request that asks for chance (neither temperature 0 nor a seed) does not even look up:
a client that samples three times wants three answers. `n` above 1 is fine, the choices are kept together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ENDPOINTS = frozenset({"chat", "completions", "embeddings"})
"""The endpoints whose answers can be kept: those that this package can judge and replay."""

_MOST_DIRECTIVES = 32  # in one header; what follows is not read


@dataclass(frozen=True, slots=True)
class Directives:
    """What the client said about caching."""

    no_cache: bool = False
    no_store: bool = False
    only_if_cached: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """What a request may do with the cache; `reason` says why something plain is missing."""

    lookup: bool
    store: bool
    share: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ExactPolicy:
    """The operator's choice; `ttl` in seconds, `max_entry` in bytes of the answer's body."""

    enabled: bool
    ttl: float
    keep: Literal["deterministic", "all"]
    max_entry: int

    def refusal(self, body: Mapping[str, Any], endpoint: str) -> str | None:
        """Why answers to this request are not kept; None when they are."""
        if not self.enabled:
            return "off"
        if endpoint not in ENDPOINTS:
            return "endpoint not cached"
        if self.keep == "deterministic" and not is_deterministic(body, endpoint):
            return "not deterministic"
        return None

    def storable(self, body: Mapping[str, Any], endpoint: str) -> bool:
        return self.refusal(body, endpoint) is None

    def use(self, body: Mapping[str, Any], endpoint: str, said: Directives) -> Use:
        """The table of the module's docstring."""
        refusal = self.refusal(body, endpoint)
        if refusal is not None:
            return Use(lookup=False, store=False, share=False, reason=refusal)
        if said is PLAIN:
            return _ALL
        reasons = [name for name, given in (("no-cache", said.no_cache), ("no-store", said.no_store)) if given]
        if said.only_if_cached:
            reasons.append("only-if-cached")
        return Use(
            lookup=not said.no_cache,
            store=not (said.no_store or said.only_if_cached),
            share=not reasons,
            reason=", ".join(reasons) or None,
        )


PLAIN = Directives()
_ALL = Use(lookup=True, store=True, share=True)


def is_deterministic(body: Mapping[str, Any], endpoint: str) -> bool:
    """Whether the client asked for the same answer every time: temperature 0 or an integer seed; embeddings always."""
    if endpoint == "embeddings":
        return True
    temperature = body.get("temperature")
    if type(temperature) in (int, float) and temperature == 0:
        return True
    return type(body.get("seed")) is int  # not isinstance: True is no seed


def directives(x_tiergate_cache: str | None, cache_control: str | None) -> Directives:
    """Read both headers as comma lists, in any case; a directive that is not known is ignored."""
    if not x_tiergate_cache and not cache_control:
        return PLAIN
    words = _words(x_tiergate_cache) | _words(cache_control)
    said = Directives(
        no_cache=not words.isdisjoint(("no-cache", "max-age=0")),
        no_store="no-store" in words,
        only_if_cached="only-if-cached" in words,
    )
    return PLAIN if said == PLAIN else said


def _words(header: str | None) -> set[str]:
    if not header:
        return set()
    parts = header.split(",", _MOST_DIRECTIVES)[:_MOST_DIRECTIVES]
    return {_word(part) for part in parts}


def _word(part: str) -> str:
    """`Max-Age = "00"` → `max-age=0`."""
    name, equals, value = part.strip().lower().partition("=")
    if not equals:
        return name
    value = value.strip().strip('"')
    return f"{name.strip()}={int(value) if value.isascii() and value.isdecimal() and len(value) < 12 else value}"
