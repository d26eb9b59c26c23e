"""The product's limiter in front of the simulated queue: what a tenant may spend a minute."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from gateway.lab.simulate.terms import Tenants
from gateway.lab.simulate.workload import Length
from limits.estimate import reservation
from limits.memory import MemoryLimiter
from limits.types import LimitExceeded, Reservation, Scope

_DEFAULT_MOST = 1024
T = TypeVar("T")


class Visit:
    """A request that was let in, until it leaves."""

    __slots__ = ("_held", "_reservation")

    def __init__(self, held: AsyncExitStack, reserved: Reservation) -> None:
        self._held = held
        self._reservation = reserved

    def leave(self, length: Length) -> None:
        self._reservation.settle(length.prompt + length.output)
        at_once(self._held.aclose())


class Door:
    """By what each tenant may."""

    def __init__(self, tenants: Tenants, clock: Callable[[], float]) -> None:
        self._limiter = MemoryLimiter(clock)
        self._tenants = tenants
        self._scopes: dict[str, Scope] = {}

    def enter(self, length: Length) -> Visit | None:
        """None: refused."""
        scope = self._scopes.get(length.tenant)
        if scope is None:
            terms = self._tenants.of(length.tenant)
            scope = self._scopes[length.tenant] = Scope(
                length.tenant, "tenant", None, terms.tpm, terms.max_parallel, length.tenant
            )
        try:
            return at_once(self._let_in(scope, length))
        except LimitExceeded:
            return None

    async def _let_in(self, scope: Scope, length: Length) -> Visit:
        tokens = reservation(length.prompt, 1, length.most, _DEFAULT_MOST)
        async with AsyncExitStack() as stack:
            admission = await stack.enter_async_context(self._limiter.admit((scope,)))
            reserved = await stack.enter_async_context(admission.reserve(tokens, clamp=length.most is None))
            return Visit(stack.pop_all(), reserved)


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Balances in memory never wait."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("a limiter waited")
