"""Classifiers that have to be awaited are scored like others."""

import asyncio
from contextlib import closing

from gateway.lab.routing.asked import Awaited
from gateway.lab.routing.scored import scored
from routing.types import Verdict


class Slow:
    """Knows nothing until its own task has run for a while; then the length of the prompt."""

    def __init__(self):
        self.ready = False

    async def run(self):
        await asyncio.sleep(0.05)
        self.ready = True
        await asyncio.Event().wait()

    async def judge(self, body, endpoint, tenant):
        await asyncio.sleep(0)
        return Verdict(len(body["messages"][0]["content"]) / 100 if self.ready else None)


def test_it_is_waited_for_once_and_then_asked_for_each_prompt():
    """The first prompt has a score already, and the others theirs."""
    with closing(Awaited(Slow(), ready=10)) as judge:
        said = scored("slow", judge, ["a", "bb", "ccc"])
    assert said.scores.tolist() == [0.01, 0.02, 0.03]


def test_one_that_never_knows_is_one_that_does_not_know():
    """After the time it has to be ready every prompt is unknown."""

    class Never(Slow):
        async def run(self):
            await asyncio.Event().wait()

    with closing(Awaited(Never(), ready=0.01)) as judge:
        assert scored("never", judge, ["a", "b"]).abstained == 1
