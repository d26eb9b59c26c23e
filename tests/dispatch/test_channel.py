"""The transport between a worker and the dispatcher: what is sent arrives, whole and in order, and nothing grows without bound."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from gateway.dispatch.channel import Channel

KIB = 1024
MIB = 1024 * KIB


class End:
    """A channel, and what came through it."""

    def __init__(self, **options: Any) -> None:
        self.reads: list[list[bytes]] = []
        self.closings = 0
        self.resumed = 0
        self.changed = asyncio.Event()
        self.channel = Channel(self.heard, self.ended, on_writable=self.resume, **options)

    @property
    def frames(self) -> list[bytes]:
        return [frame for frames in self.reads for frame in frames]

    def heard(self, frames: list[bytes]) -> None:
        self.reads.append(frames)
        self.changed.set()

    def ended(self) -> None:
        self.closings += 1
        self.changed.set()

    def resume(self) -> None:
        self.resumed += 1
        self.changed.set()

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not true():
                self.changed.clear()
                await self.changed.wait()


class Pair:
    """Two ends of one connection."""

    def __init__(self, **options: Any) -> None:
        self.near = End(**options)
        self.far = End(**options)

    async def __aenter__(self) -> Pair:
        here, there = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self.near.channel, sock=here)
        await loop.create_unix_connection(lambda: self.far.channel, sock=there)
        return self

    async def __aexit__(self, *_: object) -> None:
        for end in (self.near, self.far):
            end.channel.abort()
            await end.until(lambda end=end: end.closings > 0)


async def test_a_message_arrives() -> None:
    """What one end sends the other hears."""
    async with Pair() as pair:
        pair.near.channel.send(b"ask")
        await pair.far.until(lambda: pair.far.frames == [b"ask"])
        pair.far.channel.send(b"answer")
        await pair.near.until(lambda: pair.near.frames == [b"answer"])
