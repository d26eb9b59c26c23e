"""An `Upstream` whose requests go out through a library, to a provider outside the fleet.

Rules:
- The head of a stream is told once its first chunk is there, so that an error before it is an answer with a status.
- The deadlines are kept here, whatever the library thinks of time. `connect` is its own to keep.
- Leaving the `async with` before the answer was complete closes the provider's stream, on every way out.
- Health costs no request, so no money: it asks whether the library is there and knows the provider. What the provider
  does is for the breaker to judge.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from backends.alarm import Deadlines
from backends.errors import ConnectFailed, UpstreamError, UpstreamTimeout
from backends.litellm.answer import LiteLLMAnswer, Rest
from backends.litellm.arguments import Operation, Unusable, arguments_of, operation_of
from backends.litellm.events import Events, whole
from backends.litellm.failures import Refusal, failure_of, refusal
from backends.litellm.library import Chunks, Library

_log = logging.getLogger("tiergate.litellm")

_JSON = [(b"content-type", b"application/json")]
_SSE = [(b"content-type", b"text/event-stream; charset=utf-8")]


@dataclass(frozen=True, slots=True)
class Deployment:
    """A provider's model and how it is reached. `connect` and `total` are the same for all requests: the library keeps a
    set of connections for each pair. `params`: further arguments of the library.
    """

    model: str
    connect: float
    total: float
    api_key: str = field(default="", repr=False)
    api_base: str | None = None
    drop_params: bool = True
    params: Mapping[str, str] = field(default_factory=dict, repr=False)

    def arguments(self) -> dict[str, Any]:
        """What the operator decides: it wins over what a request says."""
        mine: dict[str, Any] = {**self.params, "model": self.model, "drop_params": self.drop_params}
        mine |= {"api_key": self.api_key} if self.api_key else {}
        mine |= {"api_base": self.api_base} if self.api_base else {}
        return {**mine, "connect": self.connect, "total": self.total}

    def secrets(self) -> tuple[str, ...]:
        """What no message may hold. A value of a few letters would only tear words apart."""
        return tuple(text for text in (self.api_key, *self.params.values()) if len(text) > 3)


class LiteLLMClient:
    """Several may share one library."""

    origin = None

    def __init__(self, deployment: Deployment, library: Library) -> None:
        self.deployment = deployment
        self.secrets = deployment.secrets()
        self.library = library
        self._warned = False

    async def resolve(self) -> None:
        """The library looks names up itself."""

    def request(self, head: bytes, body: bytes, deadlines: Deadlines, *, new: bool = False) -> LiteLLMRequest:  # noqa: ARG002
        """Of `head` the method and the path count. Its headers are for servers of the fleet, and stay here; so are connections
        the library's own.
        """
        method, path, _ = head.split(b" ", 2)
        return LiteLLMRequest(self, method, path, body, deadlines)

    async def usable(self) -> bool:
        """Is the library there, and does it know the provider? What is missing is logged once."""
        try:
            loaded = await self.library.loaded()
        except ConnectFailed:
            return False
        known = loaded.knows(self.deployment.model)
        if not known and not self._warned:
            self._warned = True
            _log.error("litellm knows no provider for the model %r: write it as provider/model", self.deployment.model)
        return known

    async def close(self) -> None:
        await self.library.close()


class LiteLLMRequest:
    """One request, sent on entering. Use it once."""

    def __init__(self, client: LiteLLMClient, method: bytes, path: bytes, body: bytes, deadlines: Deadlines) -> None:
        self._client = client
        self._method = method
        self._path = path
        self._body = body
        self._deadlines = deadlines
        self._chunks: Chunks | None = None

    async def __aenter__(self) -> LiteLLMAnswer:
        if self._method == b"GET":
            return await self._health()
        operation = operation_of(self._path)
        if operation is None:
            return self._refused(refusal(404, "This kind of backend has no such endpoint."))
        try:
            arguments = arguments_of(operation, self._body)
        except Unusable as unusable:
            return self._refused(refusal(400, str(unusable), param=unusable.param, code="invalid_value"))
        try:
            return await self._within_deadlines(operation, arguments)
        except BaseException:
            await self._close()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._close()

    async def _within_deadlines(self, operation: Operation, arguments: dict[str, Any]) -> LiteLLMAnswer:
        total, span = self._deadlines.total_at, self._deadlines.first_token
        at = total if span is None else min(total, asyncio.get_running_loop().time() + span)
        try:
            async with asyncio.timeout_at(at):
                return await self._send(operation, arguments)
        except TimeoutError:
            raise UpstreamTimeout("total" if at == total else "first_token", sent=True) from None

    async def _send(self, operation: Operation, arguments: dict[str, Any]) -> LiteLLMAnswer:
        client = self._client
        loaded = await client.library.loaded()
        try:
            answer = await loaded.complete(operation, {**arguments, **client.deployment.arguments()})
            if isinstance(answer, dict):
                return LiteLLMAnswer(200, _JSON, whole(answer), None, self._deadlines)
            self._chunks = answer
            rest = Rest(answer, Events())
            first = await rest.opening()
        except Exception as error:  # noqa: BLE001 - the edge to a library of a hundred providers: whatever it raises is a failed attempt
            failure = failure_of(error, client.secrets)
        else:
            return LiteLLMAnswer(200, _SSE, first, rest if first else None, self._deadlines)
        if isinstance(failure, UpstreamError):
            try:
                raise failure
            finally:
                del failure  # it refers to this frame
        return self._refused(failure)

    def _refused(self, refused: Refusal) -> LiteLLMAnswer:
        return LiteLLMAnswer(refused.status, refused.headers, refused.body, None, self._deadlines)

    async def _health(self) -> LiteLLMAnswer:
        if self._path != b"/health":
            return self._refused(refusal(404, "There is nothing else to be asked."))
        if await self._client.usable():
            return LiteLLMAnswer(200, _JSON, b"{}", None, self._deadlines)
        return self._refused(refusal(503, "The provider cannot be used."))

    async def _close(self) -> None:
        chunks, self._chunks = self._chunks, None
        if chunks is not None:
            with suppress(Exception):  # it is over for us, however it ends
                await chunks.aclose()
