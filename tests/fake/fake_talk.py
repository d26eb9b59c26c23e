"""Requests to the fake and what came back, over httpx and over bare sockets."""

import asyncio
import json
from typing import Any, Self

from gateway.lab.fake import FakeVLLM


def talk(text: str = "Hello there", **fields: Any) -> dict[str, Any]:
    """A chat request of one user message."""
    return {"model": "fake", "messages": [{"role": "user", "content": text}], **fields}


def events(text: str) -> list[Any]:
    """The payloads of a stream; `[DONE]` as it is."""
    parts = [part for part in text.split("\n\n") if part]
    assert all(part.startswith("data: ") for part in parts)
    return [part[6:] if part == "data: [DONE]" else json.loads(part[6:]) for part in parts]


def texts(chunks: list[Any]) -> str:
    """What a chat stream said, all choices together."""
    return "".join(
        chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk != "[DONE]" and chunk["choices"]
    )


class Wire:
    """One connection, bytes as they are."""

    def __init__(self, fake: FakeVLLM) -> None:
        self._port = fake.port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def post(self, body: dict[str, Any], path: str = "/v1/chat/completions", more: str = "") -> None:
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: fake\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n{more}\r\n"
        )
        self.writer.write(head.encode() + data)

    async def head(self) -> str:
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    async def chunk(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        return await self.reader.read()
