"""The readers of a relay: where each stands, and how the stream was over for it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from caches.types import Sink


@dataclass(frozen=True, slots=True)
class RecordBounds:
    max_record: int = 8 * 1024 * 1024
    max_ahead: int = 1024 * 1024


class Outcome(enum.Enum):
    """How the stream was over for one reader."""

    COMPLETE = "had everything"
    BROKEN = "the producer failed, and this reader had been given something"
    SPOILED = "the producer failed before this reader was given anything"
    DROPPED = "the record could no longer hold what this reader had not had"
    REFUSED = "the reader's own sink raised"


COMPLETE = Outcome.COMPLETE  # an enum member costs a look-up in its class each time


class Reader:
    """One subscriber's place. Its fields are the relay's to change, but for `wake`."""

    __slots__ = ("error", "given", "live", "outcome", "place", "sent", "sink", "wake", "whole")

    def __init__(self) -> None:
        self.sink: Sink | None = None
        self.live = False  # at the end of the record, and writable
        self.whole = False  # waits for everything at once, has no sink
        self.given = False  # was handed the head: it can no longer be told to start again
        self.place = 0  # pieces had; not kept up while live
        self.sent = 0  # bytes had; likewise
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self.wake: Callable[[], None] | None = None

    def settle(self, outcome: Outcome, error: BaseException | None = None) -> None:
        """Once: what comes later is not heard."""
        if self.outcome is not None:
            return
        self.outcome, self.error = outcome, error
        self.live = False
        if self.wake is not None:
            self.wake()
