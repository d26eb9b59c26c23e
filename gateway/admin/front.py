"""Who may make admin calls.

Rules:
- The key comes as any API key does, or as the password of HTTP Basic, so that a browser can show `/admin/docs`.
- A browser sends Basic credentials by itself, also for a page of somebody else's. What changes something is therefore
  refused when the browser says that another site asked for it.
- Nothing but the key's hash is kept, and both are compared in constant time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Protocol

from gateway.admin.bridge import MAX_BODY, Answer, Call
from gateway.auth import credential
from gateway.errors import ApiError
from gateway.http1 import Request

_OWN_SITE = frozenset({b"same-origin", b"none"})
_LONGEST_BASIC = 1024


class Calls(Protocol):
    """What answers admin calls, here or elsewhere."""

    def load(self) -> None:
        """At the process's start."""

    async def answer(self, call: Call, path: str, /) -> Answer:
        """One call of somebody who may. Raises ApiError."""


class Admin:
    """`calls` answers whoever has the key. Without one there is nothing to answer."""

    def __init__(self, key: str, calls: Calls) -> None:
        self._digest = hashlib.sha256(key.encode()).digest() if key else b""
        self._calls = calls

    def load(self) -> None:
        """At the process's start, for it takes half a second: FastAPI is loaded only where there is an admin."""
        if self._digest:
            self._calls.load()

    async def answer(self, request: Request, path: str) -> Answer:
        """One call. Raises ApiError, 401 and 404 among them."""
        if not self._digest:
            raise ApiError(404, "admin_off", "The admin API is off: the config has no admin key.")
        self._authenticate(request)
        body = await request.body()
        if len(body) > MAX_BODY:
            raise ApiError(413, "body_too_large", f"The body of an admin call has at most {MAX_BODY} bytes.")
        return await self._calls.answer(Call(request.method, request.url, request.header(b"content-type") or b"", body), path)

    def _authenticate(self, request: Request) -> None:
        basic = _basic(request)
        try:
            given = hashlib.sha256(credential(request.headers) if basic is None else basic).digest()
        except ApiError as error:
            error.headers.update(_challenge(request))
            raise
        if not hmac.compare_digest(given, self._digest):
            raise ApiError(401, "invalid_api_key", "This is not the admin key.", headers=_challenge(request))
        if basic is not None and request.method != b"GET" and (request.header(b"sec-fetch-site") or b"none") not in _OWN_SITE:
            raise ApiError(403, "cross_site_call", "Another site's page asked the browser for this call.")


def _challenge(request: Request) -> dict[str, str]:
    """What a browser is to ask for, so that it does; programs know how to send a key."""
    browser = b"text/html" in (request.header(b"accept") or b"")
    return {"www-authenticate": 'Basic realm="tiergate admin", charset="UTF-8"' if browser else "Bearer"}


def _basic(request: Request) -> bytes | None:
    """The password of HTTP Basic; None when the request does not use it."""
    value = request.header(b"authorization")
    if value is None or value[:6].lower() != b"basic ":
        return None
    if len(value) > _LONGEST_BASIC:
        return b""
    try:
        return base64.b64decode(value[6:].strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""
