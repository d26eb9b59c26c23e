"""How much one replica is given at once: the verb of each kind of `concurrency`, and the kind that never changes it."""

from __future__ import annotations

import math
from typing import Protocol

from backends.engine import EngineView

ENDLESS = 10**9


class Load(Protocol):
    """What a replica has now. `peak`: the most requests at once since that was last looked at."""

    inflight: int
    peak: int
    tokens: int


class Governor(Protocol):
    """`slots` and `tokens` are what the replica may have at once; `reason` is why they are what they are, for the operator.

    The verbs return whether either has changed. Times are of the pool's clock.
    """

    slots: int
    tokens: float
    reason: str

    @property
    def wants_engine(self) -> bool:
        """Somebody has to scrape the engine's metrics for it."""

    def wants_first_byte(self, now: float) -> bool:
        """A first byte is to be told when it comes, not when the answer has ended."""

    def engine(self, view: EngineView, load: Load, now: float) -> bool:
        """The engine has told how it stands."""

    def first_byte(self, prompt: int, began: float, load: Load, now: float) -> bool:
        """A stream with a prompt of so many tokens, dispatched at `began`, has its first byte."""

    def recovered(self) -> bool:
        """The replica is back from an outage."""


class Fixed:
    """The replica's own number of slots, and no more than `tokens`."""

    __slots__ = ("reason", "slots", "tokens")

    wants_engine = False

    def __init__(self, tokens: int | None = None) -> None:
        self.slots = ENDLESS
        self.tokens = math.inf if tokens is None else float(tokens)
        self.reason = "fixed"

    def wants_first_byte(self, now: float) -> bool:  # noqa: ARG002 - as the others
        return False

    def engine(self, view: EngineView, load: Load, now: float) -> bool:  # noqa: ARG002 - as above
        return False

    def first_byte(self, prompt: int, began: float, load: Load, now: float) -> bool:  # noqa: ARG002 - as above
        return False

    def recovered(self) -> bool:
        return False


FIXED = Fixed()
