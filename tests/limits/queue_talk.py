"""What tests of the queue's order share."""

import math

from limits.entry import Entry
from limits.scheduler import Queue
from limits.waiting import Order, Priority, QueueBounds, SlotAsk

FAR = 1e9


class Nobody:
    """A waiter that nobody wakes."""

    def done(self) -> bool:
        return False

    def set_result(self, result: None, /) -> None:
        raise AssertionError("the order woke a waiter")


def bounds(**change) -> QueueBounds:
    given = {"max_requests": 10**6, "max_bytes": 10**12, "max_tokens": 10**12, "max_wait": (FAR, FAR, FAR)}
    return QueueBounds(**(given | change))


def queue(**order) -> Queue:
    return Queue(bounds(), Order(**order))


def push(line: Queue, tenant="acme", priority=Priority.STANDARD, *, now=0.0, prompt=0, output=0, weight=1, within=None) -> Entry:
    """One more that waits; `within`: seconds that its client gives it."""
    deadline = FAR if within is None else now + within
    return line.push(
        SlotAsk(priority, tenant, 1, 1, deadline, weight, math.inf if within is None else deadline, prompt, output), Nobody(), now
    )[0]


def serve(line: Queue, now=0.0) -> Entry:
    """The next one gets a slot."""
    entry = line.head(now)
    assert entry is not None
    line.dispatch(entry, now)
    return entry


def drain(line: Queue, now=0.0) -> list[Entry]:
    return [serve(line, now) for _ in range(len(line))]
