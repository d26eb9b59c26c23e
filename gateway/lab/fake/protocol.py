"""uvicorn's own HTTP protocol, opened by one hand's breadth: the application may reach its connection.

vLLM is served by uvicorn, so its bytes (`server`, `date`, chunking, keep-alive, what a departed client looks like) are
uvicorn's. Three things are added. An ASGI application cannot end a connection in the middle of an answer, nor be told that
the client left without a task that waits for it: both go through `scope["extensions"]["connection"]`. And what is written
within one turn of the loop goes to the socket in one call, so that an instant stream costs one system call, not one a token.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: closing sends RST
_ENOUGH = 64 * 1024


class Gathering(asyncio.Transport):
    """A transport that keeps what is written until the turn ends, or until it is a lot."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(bytes(data))
        self._size += len(data)
        if self._size > _ENOUGH:
            self.flush()

    def flush(self) -> None:
        if self._parts:
            data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            if not self._transport.is_closing():
                self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._parts.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


class Connection(HttpToolsProtocol):
    """`departed` is called when the connection is lost; it belongs to the request being answered."""

    departed: Callable[[], object] | None = None

    def __init__(self, config: Config, state: ServerState, changed: Callable[[], None]) -> None:
        super().__init__(config, state, {})
        self._changed = changed

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        super().connection_made(Gathering(transport, self.loop))
        self._changed()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"connection": {"protocol": self}}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.departed is not None:
            self.departed()
        self._changed()

    async def cut(self, *, reset: bool) -> None:
        """End the connection here: what was written goes out, what was promised does not."""
        self.departed = None
        self.cycle.disconnected = True  # uvicorn then takes the unfinished answer for a departed client's
        if reset:
            await asyncio.sleep(0)  # what was written leaves at the end of its loop turn
            await asyncio.sleep(0)
            sock = self.transport.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()
        else:
            self.transport.close()
