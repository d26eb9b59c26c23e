"""The small values that pools, leases and balance policies hand to each other."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

_NOWHERE: Mapping[str, int] = MappingProxyType({})


class Ask(Struct):  # made for every request, in a third of the time that a dataclass takes
    """What a balance policy may know of a request.

    `tokens`: of its prompt and of the answer that it is thought to get. `stream`: the first byte says when the first token came.
    `cached`: the tokens of its prompt that a replica, by its name, is thought to hold, those with most first. `holders`: (so many
    tokens, how many hold just that), where those are many. `prefix`: what the prompt begins with, a digest for each step further
    into it. `alone`: what other gateways have sent to the same replicas is not known just now.
    `crowd`: (so many tokens into the prompt, how many of late had all up to there), longer with each, and fewer.
    """

    session: str | None = None
    prompt_tokens: int = 0
    tokens: int = 0
    stream: bool = False
    cached: Mapping[str, int] = _NOWHERE
    holders: Sequence[tuple[int, int]] = ()
    prefix: Sequence[int] = ()
    alone: bool = False
    crowd: Sequence[tuple[int, float]] = ()

    def uncached(self, name: str) -> int:
        """Tokens that the replica of that name would have to compute."""
        if not self.cached:
            return self.prompt_tokens
        return max(0, self.prompt_tokens - self.cached.get(name, 0))


NOBODY = Ask()


class Outcome(enum.Enum):
    """What an attempt said about its replica, which is not the same as what the client was told.

    OK       the replica did its work
    FAULTED  it found fault with the request, as a 400 does: it took a working engine to find that
    REFUSED  it will not take requests just now: 429, or a 503 that named a time to come back
    FAILED   a 5xx, a broken connection, a deadline that passed
    NEUTRAL  it says nothing: a client that left
    """

    OK = "ok"
    FAULTED = "faulted"
    REFUSED = "refused"
    FAILED = "failed"
    NEUTRAL = "neutral"


OK = Outcome.OK  # an enum member costs a look-up in its class each time
