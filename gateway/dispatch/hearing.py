"""Before a limit refuses: what has ended in the workers, and was not told yet, is heard.

A worker keeps an End back for company. Its client may have the whole answer meanwhile, and ask the next worker; what it has
given back must count then. So the workers are asked for the Ends that they have, which only those requests pay for that would
be refused. However many these are, one round is under way at a time: it is for all who were there when it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

Hear = Callable[[], Awaitable[bool]]
"""What other processes have given back is heard when it returns; false where there is nothing to hear."""


async def nothing_unheard() -> bool:
    """The `Hear` of a process that is alone."""
    return False


class Hearing:
    """`ask` is one round; false when it was not worth one."""

    def __init__(self, ask: Hear) -> None:
        self._ask = ask
        self._turn = asyncio.Lock()
        self._moments = count(1)
        self._began = 0  # the last round that came to its end
        self._worth = False  # it was

    async def all(self) -> bool:
        """A round that began after this call; whether it was worth it."""
        called = next(self._moments)
        async with self._turn:
            if self._began < called:
                began = next(self._moments)
                self._worth = await self._ask()
                self._began = began
            return self._worth
