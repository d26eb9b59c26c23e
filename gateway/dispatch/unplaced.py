"""Pools where nobody asks what of a prompt is cached; `placing` has the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backends.replica import Replica
from backends.types import Ask
from caches.chain import Chain
from limits.waiting import Spent

if TYPE_CHECKING:
    from gateway.dispatch.types import WorkAsk


@dataclass(slots=True)
class Told:
    """Prompt tokens that were thought to be cached, and that were, of answers whose backend says so."""

    expected: int = 0
    delivered: int = 0


class Unplaced:
    """One request's work."""

    __slots__ = ()

    def ask(self, ask: Ask) -> Ask:
        """For the balance, with what is cached now."""
        return ask

    def sent(self, replica: Replica) -> None:
        """That one was chosen."""

    def ended(self, spent: Spent) -> None:
        """What the attempt that was sent last has cost."""


UNPLACED = Unplaced()


class NoPlacing:
    """One pool."""

    __slots__ = ("on_lost", "told")

    def __init__(self) -> None:
        self.told = Told()
        self.on_lost: Callable[[str], None] = lambda _name: None  # that replica's cache was found empty

    @property
    def entries(self) -> int:
        """What is remembered, in blocks of prompts."""
        return 0

    @property
    def hearing(self) -> bool:
        """Some engine of the pool says what it has cached, and is understood."""
        return False

    def hears(self, name: str) -> bool:  # noqa: ARG002 - as the other kind
        """The same of one replica's."""
        return False

    def look(self, prefix: bytes, session: str | None, tokens: int) -> Ask:  # noqa: ARG002 - as the other kind
        """What a balance would be asked for a request with that beginning, for who only wants to know."""
        return Ask(session, tokens)

    def has(self, name: str, prompt: Chain, tokens: int) -> None:
        """That replica has read a prompt of so many tokens, which no client sent."""

    def place(self, work: WorkAsk) -> Unplaced:  # noqa: ARG002 - as above
        return UNPLACED
