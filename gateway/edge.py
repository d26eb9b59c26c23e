"""The outermost layer: every request gets an answer, a line in the log and a count, whatever happens inside.

The model API goes to the pipeline; health, metrics, the model list and the admin calls are answered here or by `admin`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from itertools import count as counter
from os import urandom
from urllib.parse import unquote

import msgspec

from gateway.admin import Admin
from gateway.endpoints import Endpoint, route
from gateway.errors import ApiError
from gateway.exchange import Exchange
from gateway.http1 import Request, Response
from gateway.logs import RequestLog
from gateway.metrics import Metrics
from gateway.models import ModelList
from gateway.pipeline import Pipeline
from gateway.refusals import REFUSALS, refusal, waiting
from gateway.reply import Reply
from gateway.status import Status
from limits.types import LimitExceeded

_log = logging.getLogger("tiergate")
_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
_MAX_ID = 128


class Edge:
    """Answers requests. `ready` says why this process should get no traffic, or None."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        models: ModelList,
        admin: Admin,
        metrics: Metrics,
        log: RequestLog,
        status: Status,
        clock: Callable[[], float],
    ) -> None:
        self._pipeline = pipeline
        self._models = models
        self._admin = admin
        self._metrics = metrics
        self._log = log
        self._status = status
        self._clock = clock
        self._prefix = f"req-{urandom(6).hex()}-"
        self._numbers = counter(1)
        self.draining = False
        self._closing: ApiError | None = None  # what requests that are cut off at the end are told
        self.running = 0  # requests under way

    async def handle(self, request: Request, response: Response) -> None:
        """One request, from its head to the end of its answer."""
        x = Exchange(self._prefix + format(next(self._numbers), "x"), request.arrived)
        x.method = request.method.decode("latin-1")
        x.client_id = _client_id(request)
        reply = Reply(x, response, self._clock)
        self.running += 1
        try:
            await self._dispatch(x, request, reply)
            x.outcome = x.outcome or ("ok" if x.status < 400 else "client_error")
        except ApiError as error:
            self._refuse(x, reply, error)
        except REFUSALS as error:
            if isinstance(error, LimitExceeded):
                x.limit = f"{error.scope.kind}_{error.resource}"
            self._refuse(x, reply, refusal(error))
        except asyncio.CancelledError:
            if self._closing is None or reply.gone:
                x.outcome, x.status = "client_gone", x.status or 499
                raise
            self._refuse(x, reply, self._closing)
        except Exception:  # noqa: BLE001 - the edge of the process: one request's fault must be seen, and not be another's
            _log.exception("request %s failed inside the gateway", x.id)
            self._refuse(x, reply, ApiError(500, "internal_error", "The gateway failed on this request."))
        finally:
            self.running -= 1
            if x.endpoint:
                self._account(x)

    async def handle_metrics(self, request: Request, response: Response) -> None:
        """The same for a listener that has nothing but `/metrics` and `/health`."""
        reply = Reply(Exchange(self._prefix + format(next(self._numbers), "x"), request.arrived), response, self._clock)
        try:
            self._own(route(request.url).rest, request, reply)
        except ApiError as error:
            reply.error(error)

    async def idle(self) -> None:
        """Returns when no request is under way."""
        while self.running:  # noqa: ASYNC110 - once, at the end of the process
            await asyncio.sleep(0.02)

    def close(self, error: ApiError) -> None:
        """Whoever is cancelled from here on without having left is told `error`: as an answer, or as its stream's last event."""
        self._closing = error

    def wire_error(self, error: ApiError) -> bytes:
        """A request that never became one: counted, and given the headers of its answer."""
        x = Exchange(self._prefix + format(next(self._numbers), "x"), 0.0)
        x.endpoint, x.status = "wire", error.status
        x.outcome, x.error = error.outcome, error.code
        self._account(x)
        return b"content-type: application/json\r\nx-request-id: %b\r\n" % x.id.encode()

    async def _dispatch(self, x: Exchange, request: Request, reply: Reply) -> None:
        found = route(request.url)
        if found.endpoint is not None:
            x.endpoint = found.endpoint.name
            await self._model_call(x, found.endpoint, found.model, request, reply)
        elif found.rest == "/models" or found.rest.startswith("/models/"):
            x.endpoint = "models"
            _allow(request, b"GET", b"HEAD")
            principal = x.principal = self._pipeline.authenticate(request)
            reply.json(200, self._models.answer(principal, found.rest[len("/models") :]))
        elif found.rest.startswith("/cache/"):
            x.endpoint = "cache"
            _allow(request, b"DELETE")
            x.principal = self._pipeline.authenticate(request)
            reply.json(200, await self._pipeline.delete_cached(x.principal, unquote(found.rest[len("/cache/") :])))
        elif found.rest == "/admin" or found.rest.startswith("/admin/"):
            x.endpoint = "admin"
            status, body = await self._admin.answer(request, found.rest)
            reply.json(status, body)
        else:
            self._own(found.rest, request, reply)

    async def _model_call(self, x: Exchange, endpoint: Endpoint, model: str | None, request: Request, reply: Reply) -> None:
        _allow(request, b"POST")
        if self.draining:
            raise ApiError(503, "draining", "This gateway is shutting down: try again.", headers=waiting(1.0), outcome="rejected")
        await self._pipeline.run(x, endpoint, model, request, reply)
        if x.work.broken:
            x.outcome = "broken_stream"

    def _own(self, path: str, request: Request, reply: Reply) -> None:
        """Health and metrics: no key, no log line."""
        if path == "/health":
            _allow(request, b"GET", b"HEAD")
            reply.json(200, b'{"status":"ok"}')
        elif path == "/ready":
            _allow(request, b"GET", b"HEAD")
            status = self._status.ready()
            ready = status["ready"] and not self.draining
            reply.json(200 if ready else 503, msgspec.json.encode({**status, "ready": ready, "draining": self.draining}))
        elif path == "/metrics":
            _allow(request, b"GET", b"HEAD")
            reply.raw(200, _TEXT, self._metrics.exposition())
        else:
            message = f"There is nothing at {request.method.decode('latin-1')} {path[:128]}."
            raise ApiError(404, "unknown_url", message)

    def _refuse(self, x: Exchange, reply: Reply, error: ApiError) -> None:
        x.outcome = error.outcome
        reply.error(error)

    def _account(self, x: Exchange) -> None:
        now = self._clock()
        duration = now - x.arrived if x.arrived else 0.0
        work, metrics, principal = x.work, self._metrics, x.principal
        tenant = metrics.tenant(principal.tenant) if principal is not None else ""
        metrics.requests.add((tenant, work.model, work.tier, x.outcome))
        overhead = max(0.0, duration - work.queued - work.upstream - x.body_wait)
        first = work.settled and not work.reported
        if work.attempts or x.cache:
            metrics.duration.observe((work.model, work.tier), duration)
            if not x.shared:
                metrics.overhead.observe((), overhead)
        if first:
            work.reported = True
            self._account_work(x)
        if x.outcome == "limited":
            metrics.limited.add((tenant, x.limit or "upstream"))
        self._log.write(_line(x, duration, overhead, first=first))

    def _account_work(self, x: Exchange) -> None:
        """The work of one or many requests, counted once."""
        work, metrics = x.work, self._metrics
        metrics.tokens.add(("prompt",), work.prompt_tokens)
        metrics.tokens.add(("completion",), work.completion_tokens)
        if work.cached_tokens is not None:
            metrics.prefix_tokens.add((work.model, "hit"), work.cached_tokens)
            metrics.prefix_tokens.add((work.model, "miss"), max(0, work.prompt_tokens - work.cached_tokens))
        if x.stream and work.first_byte_at:
            where = (work.model, work.tier)
            metrics.ttft.observe(where, max(0.0, work.first_byte_at - x.arrived))
            if work.completion_tokens > 1:
                metrics.tpot.observe(where, (work.last_byte_at - work.first_byte_at) / (work.completion_tokens - 1))


def _line(x: Exchange, duration: float, overhead: float, *, first: bool) -> dict[str, object]:
    """The log line: one flat object, times in milliseconds. Tokens are on the `first` line of the work that made them."""
    work, principal = x.work, x.principal
    line: dict[str, object] = {
        "ts": round(time.time(), 3),
        "request_id": x.id,
        "tenant": principal.tenant if principal else None,
        "key": principal.key_id if principal else None,
        "method": x.method,
        "endpoint": x.endpoint,
        "status": x.status,
        "outcome": x.outcome,
        "stream": x.stream,
        "requested": x.requested_model[:128],
        "model": work.model,
        "tier": work.tier,
        "route": work.reason,
        "score": work.score,
        "cache": x.cache,
        "replica": work.replica,
        "attempts": work.attempts,
        "prompt_tokens": work.prompt_tokens if first else 0,
        "completion_tokens": work.completion_tokens if first else 0,
        "cached_tokens": work.cached_tokens if first else None,
        "charged_tokens": work.charged if first else 0,
        "queue_ms": round(work.queued * 1000, 2),
        "ttft_ms": round((work.first_byte_at - x.arrived) * 1000, 2) if work.first_byte_at and x.stream else None,
        "duration_ms": round(duration * 1000, 2),
        "overhead_ms": round(overhead * 1000, 3),
    }
    if x.client_id:
        line["client_request_id"] = x.client_id
    if x.error:
        line["error"] = x.error
    if x.cache_reason:
        line["cache_reason"] = x.cache_reason
    if work.terms:
        line["terms"] = dict(work.terms[:5])
    return line


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
