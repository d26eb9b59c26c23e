"""Which requests may look an answer up, store theirs, and share one that is being made.

    request                            look up   store   share
    plain, keepable                    yes       yes     yes
    not keepable (see `refusal`)       no        no      no
    no-cache, or max-age=0             no        yes     no      a fresh answer, which replaces the kept one
    no-store                           yes       no      no      as in HTTP: what is kept already may be served
    only-if-cached                     yes       no      no      a miss is the caller's to refuse (504)
    store                              yes       yes     yes     whether deterministic or not, unless the operator keeps none

Under `keep: deterministic` a request that asks for chance (neither temperature 0 nor a seed) does not even look up:
a client that samples three times wants three answers. `n` above 1 is fine, the choices are kept together.

A request of `/v1/responses` or `/v1/messages` is keepable only if its answer depends on nothing but the request, and making
it does nothing else: no state kept elsewhere, and no tools but those that the client itself runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from caches.directives import PLAIN, Directives

ENDPOINTS = frozenset({"chat", "completions", "embeddings", "responses", "messages"})
"""The endpoints whose answers can be kept: those that this package can judge and replay."""

_STATE = {
    "responses": ("background", "conversation", "previous_response_id", "prompt"),  # `prompt` names a template kept elsewhere
    "messages": ("container", "mcp_servers"),
}
_CLIENT_RUNS = {"responses": ("function", "custom"), "messages": ("custom", None)}  # a type may be anything, so no sets
_MOST_TOOLS = 10_000  # are looked at


@dataclass(frozen=True, slots=True)
class Use:
    """What a request may do with the cache; `reason` says why something plain is missing."""

    lookup: bool
    store: bool
    share: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ExactPolicy:
    """The operator's choice, for everybody or for one tenant.

    `ttl` and `stale` are seconds: an answer is fresh for `ttl`, and may for `stale` more be served once again while a new one
    is made. `max_entry` is in bytes of the answer's body. `keep="none"`: nothing is looked up nor stored.
    """

    enabled: bool
    ttl: float
    keep: Literal["deterministic", "all", "none"]
    max_entry: int
    stale: float = 0.0

    def refusal(self, body: Mapping[str, Any], endpoint: str, said: Directives = PLAIN) -> str | None:
        """Why answers to this request are not kept; None when they are."""
        if not self.enabled or self.keep == "none":
            return "off"
        if endpoint not in ENDPOINTS:
            return "endpoint not cached"
        if endpoint in _STATE:
            beyond = _beyond_the_answer(body, endpoint)
            if beyond is not None:
                return beyond
        if self.keep == "deterministic" and not said.store and not is_deterministic(body, endpoint):
            return "not deterministic"
        return None

    def storable(self, body: Mapping[str, Any], endpoint: str) -> bool:
        return self.refusal(body, endpoint) is None

    def use(self, body: Mapping[str, Any], endpoint: str, said: Directives) -> Use:
        """The table of the module's docstring."""
        refusal = self.refusal(body, endpoint, said)
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

    def lifetime(self, said: Directives) -> float:
        """For how many seconds an answer is kept: as long as it is fresh or stale, and no longer than the client allows."""
        whole = self.ttl + self.stale
        return whole if said.ttl is None else min(whole, said.ttl)


_ALL = Use(lookup=True, store=True, share=True)


def is_deterministic(body: Mapping[str, Any], endpoint: str) -> bool:
    """Whether the client asked for the same answer every time: temperature 0 or an integer seed; embeddings always."""
    if endpoint == "embeddings":
        return True
    temperature = body.get("temperature")
    if type(temperature) in (int, float) and temperature == 0:
        return True
    return type(body.get("seed")) is int  # not isinstance: True is no seed


def _beyond_the_answer(body: Mapping[str, Any], endpoint: str) -> str | None:
    """What a request has to do with beside itself: things that are kept elsewhere, or tools that act on their own."""
    for name in _STATE[endpoint]:
        if body.get(name):
            return name.replace("_", " ")
    tools = body.get("tools")
    if not tools:
        return None
    if type(tools) is not list or len(tools) > _MOST_TOOLS:
        return "tools"
    client_runs = _CLIENT_RUNS[endpoint]
    return None if all(type(tool) is dict and tool.get("type") in client_runs for tool in tools) else "tools"
