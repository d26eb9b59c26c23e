"""A clock that moves when told, and an event loop whose time passes only while nothing else can happen."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from redis_fixtures import one_redis, own_redis, redis, redis_program  # noqa: F401 - fixtures

from limits.memory import MemoryLimiter


class FakeClock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


class VirtualLoop(asyncio.SelectorEventLoop):
    """Where a real loop would sleep, this one moves its clock. To wait for what never comes is an error."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        poll = self._selector.select

        def select(timeout: float | None) -> list[Any]:
            if timeout is None:
                raise RuntimeError("everyone waits and no timer is set")
            self.now += timeout
            return poll(0)

        self._selector.select = select

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def limiter(clock: FakeClock) -> MemoryLimiter:
    return MemoryLimiter(clock)


@pytest.fixture
def virtual() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine in virtual time."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(main)

    return run
