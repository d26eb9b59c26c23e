"""What the tests of single flight write into, and count with."""

import asyncio


class Collect:
    """A sink that keeps what it is given. With `room`, it is full after so many pieces, until `drain`."""

    def __init__(self, room=None):
        self.head = None
        self.pieces = []
        self.usage_flags = []
        self.room = room

    line = None

    @property
    def writable(self):
        return self.room is None or self.room > 0

    def begin(self, head):
        assert self.head is None
        self.head = head

    def write(self, data, usage_only):
        assert self.head is not None
        self.pieces.append(data)
        self.usage_flags.append(usage_only)
        if self.room is not None:
            self.room -= 1

    @property
    def text(self):
        return b"".join(self.pieces)


class Brake:
    """A flow that remembers whether it is on."""

    def __init__(self):
        self.paused = False
        self.calls = []

    def pause(self):
        self.paused = True
        self.calls.append("pause")

    def resume(self):
        self.paused = False
        self.calls.append("resume")


class Producer:
    """Starts flights that say "one", wait for `go`, say "two", and end; counts what it starts and holds.

    The first one fails, if it is given an exception for before its beginning or for after `go`.
    """

    def __init__(self, fail_before=None, fail_after=None):
        self.started = 0
        self.held = 0
        self.cancelled = 0
        self.flight = None
        self.go = asyncio.Event()
        self.fail_before = fail_before
        self.fail_after = fail_after

    async def __aenter__(self):
        self.held += 1

    async def __aexit__(self, *_):
        await asyncio.sleep(0)
        self.held -= 1

    async def __call__(self, flight):
        self.started += 1
        self.flight = flight
        try:
            async with self:
                await self.produce(flight)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def produce(self, flight):
        if self.fail_before is not None:
            await self.go.wait()
            failure, self.fail_before = self.fail_before, None
            raise failure
        flight.begin("head")
        flight.write(b"one")
        await self.go.wait()
        if self.fail_after is not None:
            failure, self.fail_after = self.fail_after, None
            raise failure
        flight.write(b"two")


async def settle():
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)
