"""The outermost layer: every request gets an answer, a line in the log and a count, whatever happens inside.

The model API goes to the pipeline; health, metrics, the model list and the admin calls are answered here or by `admin`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count as counter
from os import urandom
from typing import Protocol
from urllib.parse import unquote

import msgspec

from gateway.accounts import Accounts
from gateway.admin import Answer
from gateway.cors import Cors
from gateway.endpoints import Endpoint, Route, route
from gateway.errors import ApiError, internal_error
from gateway.exchange import Exchange
from gateway.http1 import Request, Response
from gateway.models import ModelList
from gateway.pipeline import Pipeline
from gateway.refusals import REFUSALS, refusal, waiting
from gateway.reply import Reply
from limits.types import LimitExceeded

_log = logging.getLogger("tiergate")
_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
_MAX_ID = 128


class Face(Protocol):
    """What the node says of itself, whichever of its processes is asked."""

    async def ready(self) -> dict[str, object]:
        """`ready`, and what that follows from."""

    async def page(self) -> bytes:
        """The metrics, in Prometheus' text format."""


class AdminCalls(Protocol):
    async def answer(self, request: Request, path: str, /) -> Answer:
        """One call under /admin. Raises ApiError."""


class Edge:
    """Answers requests."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        models: ModelList,
        admin: AdminCalls,
        accounts: Accounts,
        face: Face,
        clock: Callable[[], float],
        cors: Cors | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._models = models
        self._admin = admin
        self._accounts = accounts
        self._face = face
        self._clock = clock
        self._cors = cors
        self._prefix = f"req-{urandom(6).hex()}-"
        self._numbers = counter(1)
        self.draining = False
        self.metrics_here = True  # False when they have a listener of their own
        self._closing: ApiError | None = None  # what requests that are cut off at the end are told
        self.running = 0  # requests under way

    async def handle(self, request: Request, response: Response) -> None:
        """One request, from its head to the end of its answer."""
        x = Exchange(f"{self._prefix}{next(self._numbers):x}", request.arrived)
        x.method = "POST" if request.method == b"POST" else request.method.decode("latin-1")
        x.client = request.client
        x.client_id = _client_id(request)
        reply = Reply(x, response, self._clock) if self._cors is None else self._cors.reply(x, request, response, self._clock)
        self.running += 1
        try:
            try:
                if self._cors is None or not self._cors.preflight(request, reply):
                    found = route(request.url)
                    endpoint = found.endpoint
                    if endpoint is not None:
                        self._begin(x, endpoint, request, reply)
                        await self._pipeline.run(x, endpoint, found.model, request, reply)
                        if x.work.broken:
                            x.outcome = "broken_stream"
                    else:
                        await self._other(x, found, request, reply)
            except ApiError as error:
                if x.standing is None and error.status != 401:  # who is known hears where it stands, whatever it asked for
                    with suppress(ApiError):
                        await self._pipeline.introduce(x, request)
                raise
            x.outcome = x.outcome or ("ok" if x.status < 400 else "client_error")
        except ApiError as error:
            self._refuse(x, reply, error)
        except REFUSALS as error:
            if isinstance(error, LimitExceeded):
                x.limit = f"{error.scope.kind}_{error.resource}"
            self._refuse(x, reply, refusal(error))
        except asyncio.CancelledError:
            if self._closing is None or reply.gone:
                x.outcome, x.status = ("ok", x.status) if x.work.finished else ("client_gone", x.status or 499)
                raise
            self._refuse(x, reply, self._closing)
        except Exception:  # noqa: BLE001 - the edge of the process: one request's fault must be seen, and not be another's
            _log.exception("request %s failed inside the gateway", x.id)
            self._refuse(x, reply, internal_error())
        finally:
            self.running -= 1
            if x.endpoint:
                self._accounts.close(x)

    async def handle_metrics(self, request: Request, response: Response) -> None:
        """The same for a listener that has nothing but `/metrics` and `/health`."""
        reply = Reply(Exchange(self._prefix + format(next(self._numbers), "x"), request.arrived), response, self._clock)
        try:
            await self._own(route(request.url), request, reply, apart=True)
        except ApiError as error:
            reply.error(error)

    async def idle(self) -> None:
        """Returns when no request is under way."""
        while self.running:  # noqa: ASYNC110 - once, at the end of the process
            await asyncio.sleep(0.02)

    def close(self, error: ApiError) -> None:
        """Whoever is cancelled from here on without having left is told `error`: as an answer, or as its stream's last event."""
        self._closing = error

    def wire_error(self, error: ApiError, peer: str) -> bytes:
        """A request that never became one: counted, and given the headers of its answer."""
        x = Exchange(self._prefix + format(next(self._numbers), "x"), 0.0)
        x.endpoint, x.status, x.client = "wire", error.status, peer
        x.outcome, x.error = error.outcome, error.code
        self._accounts.close(x)
        cors = b"" if self._cors is None else self._cors.unasked
        return b"content-type: application/json\r\nx-request-id: %b\r\n%b" % (x.id.encode(), cors)

    def _begin(self, x: Exchange, endpoint: Endpoint, request: Request, reply: Reply) -> None:
        """It is a call of the model API."""
        x.endpoint = endpoint.name
        reply.dialect = endpoint.dialect
        if request.method != b"POST":
            _allow(request, b"POST")
        if self.draining:
            raise ApiError(503, "draining", "This gateway is shutting down: try again.", headers=waiting(1.0), outcome="rejected")

    async def _other(self, x: Exchange, found: Route, request: Request, reply: Reply) -> None:
        """A call of anything else."""
        if found.rest == "/models" or found.rest.startswith("/models/"):
            x.endpoint = "models"
            _allow(request, b"GET", b"HEAD")
            principal = x.principal = await self._pipeline.introduce(x, request)
            reply.json(200, self._models.answer(principal, found.rest[len("/models") :]))
        elif found.rest.startswith("/cache/"):
            x.endpoint = "cache"
            _allow(request, b"DELETE")
            x.principal = await self._pipeline.introduce(x, request)
            reply.json(200, await self._pipeline.delete_cached(x.principal, unquote(found.rest[len("/cache/") :])))
        elif found.rest == "/feedback":
            x.endpoint = "feedback"
            _allow(request, b"POST")
            x.principal = await self._pipeline.introduce(x, request)
            reply.json(200, await self._pipeline.feedback(x, await request.body()))
        elif found.own and (found.rest == "/admin" or found.rest.startswith("/admin/")):
            x.endpoint = "admin"
            answer = await self._admin.answer(request, found.rest)
            reply.raw(answer.status, answer.content_type, answer.body)
        else:
            await self._own(found, request, reply)

    async def _own(self, found: Route, request: Request, reply: Reply, *, apart: bool = False) -> None:
        """Health and metrics: no key, no log line. `apart`: on the listener that has nothing else."""
        path = found.rest if found.own else ""
        if path == "/health":
            _allow(request, b"GET", b"HEAD")
            reply.json(200, b'{"status":"ok"}')
        elif path == "/ready":
            _allow(request, b"GET", b"HEAD")
            status = await self._face.ready()
            ready = status["ready"] and not self.draining
            reply.json(200 if ready else 503, msgspec.json.encode({**status, "ready": ready, "draining": self.draining}))
        elif path == "/metrics" and (self.metrics_here or apart):
            _allow(request, b"GET", b"HEAD")
            reply.raw(200, _TEXT, await self._face.page())
        elif found.rest.startswith("/responses/"):
            raise ApiError(404, "response_not_stored", "Answers are not kept here: /v1/responses only makes them.")
        else:
            message = f"There is nothing at {request.method.decode('latin-1')} {found.rest[:128]}."
            raise ApiError(404, "unknown_url", message)

    def _refuse(self, x: Exchange, reply: Reply, error: ApiError) -> None:
        x.outcome = "broken_stream" if reply.begun else error.outcome
        reply.error(error)


def _client_id(request: Request) -> str:
    """The client's own id, when it can be echoed: short, printable ASCII."""
    value = request.header(b"x-request-id")
    if not value or len(value) > _MAX_ID or not value.isascii():
        return ""
    text = value.decode("ascii")
    return text if text.isprintable() else ""


def _allow(request: Request, *methods: bytes) -> None:
    if request.method not in methods:
        allowed = ", ".join(method.decode() for method in methods)
        raise ApiError(405, "method_not_allowed", f"This path takes {allowed}.", headers={"allow": allowed})
