"""One request that waits, and everything that can end its wait, at the same moment and in every order: it ends once."""

import asyncio
from collections import Counter
from itertools import permutations, product

import pytest

from limits.entry import State
from limits.slots import Scheduler
from limits.waiting import GiveWay, Priority, QueueBounds, QueueFull, QueueTimeout, SlotAsk, Spent

REALTIME, STANDARD, BATCH = Priority
ENDS = {"served": State.DISPATCHED, "late": State.EXPIRED, "cancelled": State.CANCELLED, "full": State.PUSHED_OUT}
RACES = ("slot", "deadline", "cancel", "push out", "raise")


class Race:
    """A pool of one slot that is taken, room for one to wait, and the request that does."""

    def __init__(self, give_way):
        self.now = 0.0
        bounds = QueueBounds(1, 10**6, 10**6, (10.0, 10.0, 10.0))
        self.scheduler = Scheduler(bounds, 1, lambda: self.now, give_way=GiveWay(60.0, requeue=True) if give_way else None)
        self.ends: Counter[str] = Counter()
        self.tasks = []
        self.go = asyncio.Event()
        self.served = 0

    def visit(self, priority, tenant, life=1e6, go=None):
        slot = self.scheduler.slot(SlotAsk(priority, tenant, 1, 1, self.now + life))
        self.tasks.append(asyncio.create_task(self._visit(slot, tenant, go)))
        return slot, self.tasks[-1]

    async def _visit(self, slot, tenant, go):
        end = "served"
        try:
            async with slot:
                if go is not None:
                    await go.wait()
                slot.spent = Spent(1, 1, whole=True)
        except asyncio.CancelledError:
            end = "cancelled"
        except QueueFull:
            end = "full"
        except QueueTimeout:
            end = "late"
        self.ends[tenant, end] += 1

    async def run(self, order, pauses):
        blocker, _ = self.visit(STANDARD, "blocker", go=self.go)
        await asyncio.sleep(0)
        slot, task = self.visit(BATCH, "racer", life=5.0)
        await asyncio.sleep(0)
        entry = slot._entry
        assert entry is not None
        held = blocker._held
        for what, pause in zip(order, pauses, strict=True):
            if what == "slot" and held is not None:
                self.go.set()
            elif what == "deadline":
                self.now = 5.0
                self.scheduler._expire(asyncio.get_running_loop())
            elif what == "cancel":
                task.cancel()
            elif what == "push out":
                self.visit(REALTIME, "urgent", life=100.0)
            elif what == "raise":
                slot.raise_priority(REALTIME)
            for _ in range(pause):
                await asyncio.sleep(0)
        self.go.set()
        await asyncio.gather(*self.tasks)
        return entry


def at_rest(scheduler):
    queue = scheduler.queue
    return (scheduler.inflight, len(queue), queue._tenants) == (0, 0, {}) and not any(
        line.account.running for line in queue._lines
    )


@pytest.mark.parametrize("give_way", [False, True], ids=["plain", "slots are lent"])
@pytest.mark.parametrize("count", range(2, len(RACES) + 1))
def test_it_ends_once_whatever_comes_first(count, give_way):
    """A slot, the deadline, its client's departure, a more urgent one in a full queue, a raise: all orders of any of them, in one
    tick or with turns of the loop between. The request ends once, the state of its entry says how, and no slot is lost.
    """

    async def main():
        seen = set()
        for order in permutations(RACES, count):
            for pauses in product((0, 1, 3), repeat=count) if count < 4 else ((0,) * count, (1,) * count, (3,) * count):
                race = Race(give_way)
                entry = await race.run(order, pauses)
                [(_, end)] = [key for key in race.ends if key[0] == "racer"]
                assert race.ends["racer", end] == 1
                assert entry.state is ENDS[end] or end == "cancelled", (order, pauses)  # who leaves may not know yet how it ended
                assert entry.state is not State.WAITING
                assert race.ends["blocker", "served"] == 1
                assert sum(race.ends.values()) == len(race.tasks)
                assert at_rest(race.scheduler), (order, pauses)
                if race.scheduler._timer is not None:
                    race.scheduler._timer.cancel()
                seen.add(end)
        return seen

    assert asyncio.run(main()) == {"served", "late", "cancelled", "full"}
