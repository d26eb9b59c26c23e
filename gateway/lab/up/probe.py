"""The few bytes of HTTP that ask a server of this trial whether it is there: one request, one status, connection closed.

Nothing here raises for a server that is not ready yet: the answer is then None.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

MAX_ANSWER = 1 << 20


async def status(
    port: int, path: str, *, host: str = "127.0.0.1", body: Mapping[str, Any] | None = None, seconds: float = 2.0
) -> int | None:
    """The status of a complete answer: to a GET, or with a body to a POST of it as JSON."""
    try:
        async with asyncio.timeout(seconds):
            return _status_of(await _exchange(host, port, _request(host, port, path, body)))
    except (OSError, TimeoutError):
        return None


def _request(host: str, port: int, path: str, body: Mapping[str, Any] | None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    head = f"{method} {path} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n"
    if body is not None:
        head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
    return head.encode() + b"\r\n" + content


async def _exchange(host: str, port: int, request: bytes) -> bytes:
    """What the server said until it closed the connection, as far as it stays within bounds."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        answer = bytearray()
        while len(answer) < MAX_ANSWER and (piece := await reader.read(1 << 16)):
            answer += piece
        return bytes(answer)
    finally:
        writer.transport.abort()


def _status_of(answer: bytes) -> int | None:
    line = answer.split(b"\r\n", 1)[0].split(b" ")
    return int(line[1]) if len(line) > 1 and line[0].startswith(b"HTTP/1.") and line[1].isdigit() else None
