"""The producer's side of single flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from caches.reader import RecordBounds
from caches.relay import Relay


class Flight(Relay):
    """What a producer holds: begin(head), write(piece) and, by returning or with `end`, the end.

    It may set `flow` (how to pause it) and `on_raise` (called with the new priority when a more urgent request joins),
    and reads `priority` when it takes its place in a queue. `pieces` is the record so far, to be stored. `note` is the
    caller's own: what subscribers are to know of the work.
    """

    __slots__ = ("closing", "fed", "key", "note", "on_raise", "priority", "task", "trace")

    def __init__(self, key: bytes | None, bounds: RecordBounds, *, stream: bool, priority: int) -> None:
        super().__init__(bounds, stream=stream)
        self.key = key
        self.priority = priority
        self.on_raise: Callable[[int], None] | None = None
        self.note: object = None
        self.closing = False
        self.fed = False  # made by another process, and only passed on
        self.task: asyncio.Task[None] | None = None  # until it is done
        self.trace: TracebackType | None = None  # of the failure, before any subscriber raised it on

    def end(self) -> None:
        """The answer is complete: subscribers need not wait for what the producer still does, nor does their leaving stop it.

        Until the producer returns, the flight can still be joined, and gives all of its record at once.
        """
        self.finish()

    def last(self) -> None:
        """The last piece was written, and only the source's own end is still to come: it is worth waiting a moment for."""
        self.closing = True

    def raise_priority(self, priority: int) -> None:
        if priority < self.priority:
            self.priority = priority
            if self.on_raise is not None:
                self.on_raise(priority)
