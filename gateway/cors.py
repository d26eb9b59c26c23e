"""Cross-origin requests: what a browser asks before a page of another site may call, and the headers that let it read.

Off unless the config names origins. CORS keeps no one out, keys do that: a request from an origin that is not listed is
answered as any other, its page just cannot read the answer. There are no cookies here, so credentials are never allowed,
and the admin API is for no page of another site.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from gateway.endpoints import Route, route
from gateway.errors import ApiError
from gateway.exchange import Exchange
from gateway.http1 import Request, Response
from gateway.reply import Reply

_METHODS = b"GET, HEAD, POST, DELETE"
_MAX_NAMES = 1_024  # bytes of header names that a page may ask for
_NAMES = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*")
_EXPOSED = ", ".join(
    (
        "x-request-id",
        "x-tiergate-model",
        "x-tiergate-tier",
        "x-tiergate-replica",
        "x-tiergate-route",
        "x-tiergate-score",
        "x-tiergate-policy",
        "x-tiergate-cascade",
        "x-tiergate-cache",
        "x-tiergate-cache-id",
        "x-tiergate-queue-ms",
        "age",
        *(f"x-ratelimit-{what}-{unit}" for what in ("limit", "remaining", "reset") for unit in ("requests", "tokens")),
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
        "openai-processing-ms",
    )
)


class Cors:
    """The origins that may read, and for how long a browser may remember it."""

    def __init__(self, origins: Collection[str], max_age: float) -> None:
        self._any = "*" in origins
        self._origins = frozenset(origin.encode() for origin in origins)
        self._max_age = int(max_age)
        self.unasked = b"access-control-allow-origin: *\r\n" if self._any else b""  # where no origin is known

    def reply(self, x: Exchange, request: Request, response: Response, clock: Callable[[], float]) -> CorsReply:
        """What answers this request."""
        made = CorsReply(x, response, clock)
        made.cors = self._lines(request)
        return made

    def _lines(self, request: Request) -> bytes:
        """The header lines of an answer to this request."""
        if _is_admin(route(request.url)):
            return b""
        allowed = self._allowed(request)
        if allowed is None:
            return b"vary: origin\r\n"
        return b"%baccess-control-expose-headers: %b\r\n" % (allowed, _EXPOSED.encode())

    def preflight(self, request: Request, reply: Reply) -> bool:
        """Answer it, if it is one. ApiError 403 for an origin, or a header's name, that is not allowed."""
        if request.method != b"OPTIONS" or not request.header(b"access-control-request-method"):
            return False
        found = route(request.url)
        allowed = self._allowed(request)
        if allowed is None or _is_admin(found):
            raise ApiError(403, "origin_not_allowed", "This gateway does not serve pages of this origin.")
        names = request.header(b"access-control-request-headers") or b""
        if names and (len(names) > _MAX_NAMES or _NAMES.fullmatch(names) is None):
            raise ApiError(403, "origin_not_allowed", "The headers that this page asks for are too many, or are none.")
        headers = b"%baccess-control-allow-methods: %b\r\n" % (allowed, _METHODS)
        headers += b"access-control-max-age: %d\r\n" % self._max_age
        if names:
            headers += b"access-control-allow-headers: %b\r\n" % names
        reply.nothing(headers)
        return True

    def _allowed(self, request: Request) -> bytes | None:
        """The lines that let the request's origin read; None: it may not, or there is none."""
        if self._any:
            return b"access-control-allow-origin: *\r\n"
        origin = request.header(b"origin")
        if origin is None or origin not in self._origins:
            return None
        return b"access-control-allow-origin: %b\r\nvary: origin\r\n" % origin


def _is_admin(found: Route) -> bool:
    return found.endpoint is None and found.rest.startswith("/admin")


class CorsReply(Reply):
    """A reply whose every head carries the lines."""

    __slots__ = ("cors",)

    cors: bytes

    def _headers(self, content_type: bytes) -> bytes:
        return super()._headers(content_type) + self.cors
