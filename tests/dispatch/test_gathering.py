"""Who is answered when, by a dispatcher that takes over or comes to itself."""

import asyncio

from gateway.dispatch.gathering import Gathering


def hello(gathering: Gathering, told: list[str], worker: str, *, knew: bool = True) -> None:
    gathering.hello(worker, knew_another=knew, answer=lambda: told.append(worker))


async def test_at_the_first_start_nobody_waits() -> None:
    """There is nothing to be told of."""
    told: list[str] = []
    hello(Gathering(2), told, "a", knew=False)
    assert told == ["a"]


async def test_who_takes_over_answers_all_at_once() -> None:
    """When the last one has told what it holds; one that says it twice is no second one."""
    told: list[str] = []
    gathering = Gathering(2)
    hello(gathering, told, "a")
    hello(gathering, told, "a")
    assert told == []
    hello(gathering, told, "b", knew=False)
    assert told == ["a", "a", "b"]
    hello(gathering, told, "c")
    assert told[-1] == "c"


async def test_one_that_stood_still_waits_for_those_it_knows() -> None:
    """They come back to the same dispatcher, and are answered together, too."""
    told: list[str] = []
    gathering = Gathering(2, again=True)
    hello(gathering, told, "a", knew=False)
    assert told == []
    gathering.end()
    assert told == ["a"]
    hello(gathering, told, "b", knew=False)
    assert told == ["a", "b"]


async def test_a_dead_worker_is_waited_for_only_so_long() -> None:
    """The others are answered after a moment."""
    told: list[str] = []
    hello(Gathering(3), told, "a")
    async with asyncio.timeout(20):
        while not told:
            await asyncio.sleep(0.01)
