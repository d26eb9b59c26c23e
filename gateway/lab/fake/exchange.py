"""One request and its answer: the body in, the status and the bytes out, with the faults that concern the bytes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.lab.fake.errors import UnreadableError, VLLMError, bad, invalid, not_json_type
from gateway.lab.fake.faults import Fault
from gateway.lab.fake.log import Entry

if TYPE_CHECKING:
    from gateway.lab.fake.protocol import Connection

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_JSON = [(b"content-type", b"application/json")]
_VARY = (b"vary", b"Origin")
_SSE = [(b"content-type", b"text/event-stream; charset=utf-8")]
_ERROR = {"message": "Internal server error", "type": "InternalServerError", "param": None, "code": 500}

encode = msgspec.json.Encoder().encode


class Cut(Exception):  # noqa: N818 - not an error: the answer ended as a fault told it to
    """The connection was closed on purpose; nothing more is to be said."""


class Exchange:
    """What a handler needs. `entry` is the log's record of the request, `fault` what shall go wrong, if anything."""

    __slots__ = ("_send", "connection", "entry", "fault", "scope")

    def __init__(self, scope: Scope, send: Send, connection: Connection, entry: Entry, fault: Fault | None) -> None:
        self.scope = scope
        self.connection = connection
        self.entry = entry
        self.fault = fault
        self._send = send

    def header(self, name: bytes) -> bytes | None:
        for key, value in self.entry.raw_headers:
            if key == name:
                return value
        return None

    def parse(self, raw: bytes) -> dict[str, Any]:
        """The body as FastAPI reads it: a JSON object under a JSON content type, or a 400."""
        kind = self.header(b"content-type") or b""
        if kind != b"application/json" and kind.lower().partition(b";")[0] != b"application/json":
            raise not_json_type()
        if not raw:
            raise invalid([{"type": "missing", "loc": "body", "msg": "Field required", "input": None}])
        body = parse_json(raw)
        if body is None:
            raise invalid([{"type": "missing", "loc": "body", "msg": "Field required", "input": None}])
        if not isinstance(body, dict):
            message = "Input should be a valid dictionary or object to extract fields from"
            raise invalid([{"type": "model_attributes_type", "loc": "body", "msg": message, "input": body}])
        return body

    async def start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """With vLLM's mark of cross-origin rules, which a refused key does not get as far as."""
        self.entry.status = status
        marked = [*headers, _VARY] if status != 401 else list(headers)
        await self._send({"type": "http.response.start", "status": status, "headers": marked})

    async def body(self, data: bytes, *, more: bool) -> None:
        split = self.fault.split if self.fault is not None else None
        if split is not None and len(data) > split > 0:
            for at in range(0, len(data) - split, split):
                await self._send({"type": "http.response.body", "body": data[at : at + split], "more_body": True})
                await asyncio.sleep(0)  # a turn of the loop: the transport writes each piece by itself
            data = data[-(len(data) % split or split) :]
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def write(self, data: bytes) -> None:
        """A piece of a stream that has no fault."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def json(self, status: int, value: Any, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """A whole answer; `value` may be bytes that are JSON already."""
        data = value if isinstance(value, bytes) else encode(value)
        await self.start(status, [*headers, (b"content-length", b"%d" % len(data)), *_JSON])
        if self.fault is not None and self.fault.cut_after_tokens is not None and status == 200:
            await self.body(data[: max(1, len(data) // 2)], more=True)
            await self.cut()
        await self.body(data, more=False)

    async def empty(self, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        await self.start(status, [(b"content-length", b"0"), *headers])
        await self.body(b"", more=False)

    async def text(self, status: int, text: str, kind: bytes) -> None:
        data = text.encode()
        await self.start(status, [(b"content-length", b"%d" % len(data)), (b"content-type", kind)])
        await self.body(data, more=False)

    async def error(self, error: VLLMError) -> None:
        await self.json(error.status, error.body())

    async def open_stream(self) -> None:
        await self.start(200, _SSE)

    async def cut(self) -> None:
        await self.connection.cut(reset=self.fault is not None and self.fault.reset)
        raise Cut

    async def before_headers(self, fault: Fault) -> bool:
        """The faults that come instead of an answer; True when one of them was the answer."""
        if fault.close_before_headers:
            await self.cut()
        await hang(fault.hang_before_headers)
        if fault.status is None:
            return False
        body = fault.body if fault.body is not None else {"error": {**_ERROR, "code": fault.status}}
        headers = [(name.lower().encode("latin-1"), str(value).encode("latin-1")) for name, value in fault.headers.items()]
        if isinstance(body, str):
            data = body.encode()
            await self.start(fault.status, [(b"content-length", b"%d" % len(data)), *headers])
            await self.body(data, more=False)
        else:
            await self.json(fault.status, body, headers)
        return True

    def first_token(self) -> None:
        self.entry.first_token_at = time.time()


def parse_json(raw: bytes) -> Any:
    """The quick way is msgspec; what it refuses is asked of the standard library, which words the error and allows NaN."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return _unicode(json.loads(raw))
        except UnicodeDecodeError:
            raise UnreadableError from None
        except (ValueError, RecursionError) as error:
            place = getattr(error, "pos", 0)
            detail = {"ctx": {"error": getattr(error, "msg", str(error))}}
            raise invalid(
                [{"type": "json_invalid", "loc": f"body.{place}", "msg": "JSON decode error", "input": {}, **detail}]
            ) from None


def _unicode(value: Any) -> Any:
    """Half a surrogate pair passes the parser and the types, and fails the tokenizer."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise bad("TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]") from None
    return value


async def hang(how_long: bool | float) -> None:
    """True is for ever (until the client leaves), a number is seconds, False and 0 are no time."""
    if how_long is True:
        await asyncio.get_running_loop().create_future()
    elif how_long:
        await asyncio.sleep(how_long)
