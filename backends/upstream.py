"""What speaks to a replica, as everybody above sees it: requests in, answers that are still arriving out.

`backends.client.Client` does it over HTTP/1.1, for vLLM and everything else that speaks OpenAI's API.
`backends.litellm.client.LiteLLMClient` does it through a library, for providers that do not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from backends.alarm import Deadlines
from backends.answer import Opens
from backends.client import Origin


class UpstreamAnswer(Protocol):
    """Status, headers (names in lower case) and a body, in the bytes of OpenAI's API. `backends.answer` has the rules."""

    status: int
    headers: list[tuple[bytes, bytes]]
    complete: bool

    async def read(self, limit: int) -> bytes: ...
    async def first(self) -> bytes: ...
    async def relay(self, sink: Callable[[bytes], None], frames: Callable[[bytes], bool] | None = None) -> None: ...
    async def relay_if(
        self, opens: Opens, sink: Callable[[bytes], None], frames: Callable[[bytes], bool] | None = None
    ) -> bool: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Upstream(Protocol):
    """Belongs to one replica. Its failures are `backends.errors`."""

    @property
    def origin(self) -> Origin | None:
        """The address, where there is one: then requests are for paths below it, and health is asked beside it."""

    def request(
        self, head: bytes, body: bytes, deadlines: Deadlines, *, new: bool = False
    ) -> AbstractAsyncContextManager[UpstreamAnswer]:
        """`new`: over no connection that was used before; what is sent on one of those may have to be sent again."""

    async def resolve(self) -> None: ...
    async def close(self) -> None: ...
