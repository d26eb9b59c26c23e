"""`/admin`: the operator's calls, under the admin key. Without one in the config there is no `/admin`."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from urllib.parse import unquote

import msgspec

from caches.types import ExactStore
from gateway.auth import credential
from gateway.errors import ApiError
from gateway.http1 import Request


class Flush(msgspec.Struct, forbid_unknown_fields=True):
    """What to flush; all conditions given must hold. `older_than` in seconds."""

    tenant: str | None = None
    model: str | None = None
    older_than: float | None = None
    all: bool = False
    dry_run: bool = False


class Admin:
    """`status` tells the state of pools and queues."""

    def __init__(self, key: str, exact: ExactStore, status: Callable[[], dict[str, object]]) -> None:
        self._digest = hashlib.sha256(key.encode()).digest() if key else b""
        self._exact = exact
        self._status = status

    async def answer(self, request: Request, path: str) -> tuple[int, bytes]:
        """One call: status and JSON body. Raises ApiError 401, 404, 405 and 400."""
        self._authenticate(request)
        method, parts = request.method, path.removeprefix("/admin").strip("/").split("/")
        match parts:
            case ["status"]:
                _only(method, b"GET")
                return 200, msgspec.json.encode(self._status())
            case ["cache"]:
                _only(method, b"GET")
                return 200, msgspec.json.encode({"exact": await self._exact.stats()})
            case ["cache", "flush"]:
                _only(method, b"POST")
                return 200, msgspec.json.encode({"flushed": await self._flush(await request.body())})
            case ["cache", entry]:
                _only(method, b"DELETE")
                if not await self._exact.delete(unquote(entry), None):
                    raise ApiError(404, "entry_not_found", "No cached answer has this id.")
                return 200, b'{"deleted":true}'
        raise ApiError(404, "unknown_url", "There is no such admin call.")

    def _authenticate(self, request: Request) -> None:
        if not self._digest:
            raise ApiError(404, "admin_off", "The admin API is off: the config has no admin key.")
        given = hashlib.sha256(credential(request.headers)).digest()
        if not hmac.compare_digest(given, self._digest):
            raise ApiError(401, "invalid_api_key", "This is not the admin key.", headers={"www-authenticate": "Bearer"})

    async def _flush(self, body: bytes) -> int:
        try:
            wanted = msgspec.json.decode(body, type=Flush)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ApiError(400, "invalid_request", f"The flush request is not understood: {error}.") from None
        if not wanted.all and wanted.tenant is None and wanted.model is None and wanted.older_than is None:
            raise ApiError(400, "invalid_request", "Say what to flush: tenant, model, older_than or all.")
        if wanted.older_than is not None and wanted.older_than < 0:
            raise ApiError(400, "invalid_request", "`older_than` is an age in seconds, not below 0.")
        return await self._exact.flush(
            tenant=wanted.tenant, model=wanted.model, older_than=wanted.older_than, all=wanted.all, dry_run=wanted.dry_run
        )


def _only(method: bytes, allowed: bytes) -> None:
    if method != allowed:
        raise ApiError(405, "method_not_allowed", f"This call takes {allowed.decode()}.", headers={"allow": allowed.decode()})
