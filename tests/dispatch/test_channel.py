"""Between a worker and the dispatcher: what is sent arrives, whole and in order, and nothing grows without bound."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from gateway.dispatch.channel import Channel, connect, listen

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

    async def __aenter__(self) -> Self:
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


def framed(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(frame)) + frame for frame in frames)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@asynccontextmanager
async def raw_peer(**options: Any) -> AsyncIterator[tuple[End, socket.socket]]:
    """A channel, and the bare socket that it is connected to."""
    end = End(**options)
    here, there = socket.socketpair()
    there.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(lambda: end.channel, sock=here)
    with there:
        yield end, there
        end.channel.abort()
        await end.until(lambda: end.closings > 0)


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=12), st.data())
def test_frames_cut_anywhere_arrive_as_they_were(frames: list[bytes], data: st.DataObject) -> None:
    """Wherever reads end, in a head or in a payload, the same messages come out in the same order, none late."""
    wire = framed(frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=30), label="cuts"))

    async def receive() -> None:
        async with raw_peer() as (end, _):
            whole = [len(framed(frames[: count + 1])) for count in range(len(frames))]
            for begin, stop in pairwise([0, *cuts, len(wire)]):
                if begin < stop:
                    end.channel.data_received(wire[begin:stop])
                assert end.frames == frames[: sum(edge <= stop for edge in whole)]
            assert all(type(frame) is bytes for frame in end.frames)

    uvloop.run(receive())


@given(st.lists(st.tuples(st.sampled_from(["send", "tell", "flush", "tick"]), st.integers(1, 40_000)), max_size=40))
def test_messages_arrive_in_the_order_of_the_calls(program: list[tuple[str, int]]) -> None:
    """Sent or told, flushed or not, in one tick or in several: what was said first arrives first."""

    async def talk() -> None:
        said: list[bytes] = []
        async with Pair() as pair:
            for step, size in program:
                if step == "flush":
                    pair.near.channel.flush()
                elif step == "tick":
                    await asyncio.sleep(0)
                else:
                    said.append(len(said).to_bytes(2, "big") + bytes(size))
                    getattr(pair.near.channel, step)(said[-1])
            await pair.far.until(lambda: len(pair.far.frames) == len(said))
            assert pair.far.frames == said

    uvloop.run(talk())


async def test_what_a_tick_says_is_one_write() -> None:
    """Many messages in one tick, sent and told, are one write, and one call at the other end."""
    said = [b"%d" % number for number in range(1000)]
    async with Pair() as pair:
        for number, message in enumerate(said):
            (pair.near.channel.tell if number % 3 else pair.near.channel.send)(message)
        await pair.far.until(lambda: len(pair.far.frames) == len(said))
        assert pair.near.channel.writes == 1
        assert pair.far.reads == [said]


async def test_answers_to_one_read_are_one_write() -> None:
    """What one read brought is answered in one write, by the callback itself or by the tasks that it wakes."""
    async with raw_peer() as (end, peer):
        channel, tasks = end.channel, []

        async def later(frame: bytes) -> None:
            channel.send(frame)

        def answer(frames: list[bytes]) -> None:
            channel.send(frames[0])
            tasks.extend(asyncio.create_task(later(frame)) for frame in frames[1:])

        channel._on_frames = answer
        asked = framed([b"one", b"two", b"three"])
        peer.send(asked)
        heard = await asyncio.get_running_loop().sock_recv(peer, 1000)
        assert heard == asked
        assert channel.writes == 1


async def test_a_tell_goes_out_by_itself() -> None:
    """When nothing is sent, what was told goes out all the same, and what was told in the meantime with it."""
    async with Pair() as pair:
        pair.near.channel._patience = 0.2  # two calls of a busy machine may be a millisecond apart
        pair.near.channel.tell(b"done")
        await asyncio.sleep(0)
        pair.near.channel.tell(b"done too")
        await pair.far.until(lambda: pair.far.frames == [b"done", b"done too"])
        assert pair.near.channel.writes == 1
        pair.near.channel.tell(b"and again")
        await pair.far.until(lambda: len(pair.far.frames) == 3)


async def test_a_tell_in_answer_goes_out_by_itself() -> None:
    """What is only told while a read is being handled does not wait for a message that never comes."""
    async with Pair() as pair:
        pair.far.channel._on_frames = lambda _: pair.far.channel.tell(b"told")
        pair.near.channel.send(b"ask")
        await pair.near.until(lambda: pair.near.frames == [b"told"])


async def test_a_tell_waits_for_company() -> None:
    """With patience left it does not go out alone, but ahead of the next message that is sent."""
    async with Pair(patience=3600.0) as pair:
        pair.near.channel.tell(b"done")
        for _ in range(10):
            await asyncio.sleep(0)
        assert pair.near.channel.writes == 0
        assert pair.near.channel.pending == 8
        pair.near.channel.send(b"ask")
        await pair.far.until(lambda: pair.far.frames == [b"done", b"ask"])
        assert pair.near.channel.writes == 1


async def test_a_tell_in_answer_waits_for_company_too() -> None:
    """What is only told while a read is being handled does not go out at its end: patience holds there as well."""
    async with raw_peer(patience=3600.0) as (end, peer):
        told: list[list[bytes]] = []
        end.channel._on_frames = lambda frames: (end.channel.tell(b"told"), told.append(frames), end.changed.set())
        peer.send(framed([b"ask"]))
        await end.until(lambda: bool(told))
        for _ in range(3):
            await asyncio.sleep(0)
        assert (end.channel.writes, end.channel.pending) == (0, 8)


async def test_flush_does_not_wait() -> None:
    """What was told goes out at once when asked to."""
    async with Pair(patience=3600.0) as pair:
        pair.near.channel.tell(b"done")
        pair.near.channel.flush()
        await pair.far.until(lambda: pair.far.frames == [b"done"])


@pytest.mark.parametrize(
    "rubbish", [struct.pack("<I", 1001), bytes(4), b"GET / HTTP/1.1\r\n\r\n", framed([b"good"]) + b"\xff" * 9]
)
async def test_rubbish_ends_the_connection(rubbish: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A message above the bound, an empty one, another protocol: it is said once, and the connection is closed."""
    async with raw_peer(max_frame=1000) as (end, peer):
        peer.send(rubbish)
        await end.until(lambda: end.closings > 0)
        assert end.channel.closed
        assert end.frames == []
    assert len(errors(caplog)) == 1
    assert end.closings == 1


async def test_a_message_of_the_largest_size_passes() -> None:
    """The bound itself is allowed; what is above it or empty is refused where it is sent, and the channel lives on."""
    async with Pair(max_frame=1000) as pair:
        for wrong in (b"", bytes(1001)):
            with pytest.raises(ValueError, match="can be sent"):
                pair.near.channel.send(wrong)
        pair.near.channel.send(bytes(1000))
        await pair.far.until(lambda: pair.far.frames == [bytes(1000)])


async def test_a_peer_that_does_not_read_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    """What waits for it stays within the bound and one message more; then the connection ends, said once."""
    bound, message = MIB, bytes(64 * KIB)
    async with raw_peer(max_buffer=bound) as (end, _):
        channel, most = end.channel, 0
        for _ in range(1000):
            channel.send(message)
            most = max(most, channel.pending)
            if channel.closed:
                break
            await asyncio.sleep(0)
        assert channel.closed
        assert not channel.writable
        assert bound < most <= bound + len(message) + 8
        assert end.closings == 0, "never from within a call"
        channel.send(message)
        await end.until(lambda: end.closings > 0)
        assert channel.pending == 0
    assert len(errors(caplog)) == 1
    assert end.closings == 1


async def test_one_tick_cannot_say_without_bound() -> None:
    """The bound holds within a tick too, before the loop had a chance to write."""
    async with raw_peer(max_buffer=MIB) as (end, _):
        for _ in range(1000):
            end.channel.tell(bytes(16 * KIB))
        assert end.channel.closed


async def test_a_slow_peer_gets_everything() -> None:
    """`writable` says that a peer is behind, `on_writable` that it has caught up; nothing is lost in between."""
    async with raw_peer() as (end, peer):
        sent = 0
        while end.channel.writable:
            end.channel.send(bytes(16 * KIB))
            sent += 16 * KIB + 4
            await asyncio.sleep(0)
        assert end.channel.pending > 0
        heard = 0
        while heard < sent:
            heard += len(await asyncio.get_running_loop().sock_recv(peer, MIB))
        await end.until(lambda: end.resumed > 0)
        assert heard == sent
        assert end.channel.writable
        assert end.channel.pending == 0


async def test_who_waits_for_a_slow_peer_may_send_at_once() -> None:
    """What `on_writable` sends, in whatever call of the loop's that is, goes out in its place."""
    said: list[bytes] = []
    async with Pair() as pair:

        def say() -> None:
            while pair.near.channel.writable and len(said) < 2000:
                said.append(len(said).to_bytes(2, "big") + bytes(4 * KIB))
                pair.near.channel.send(said[-1])

        pair.near.channel._on_writable = say
        say()
        assert len(said) < 2000, "it was to be slow"
        await pair.far.until(lambda: len(pair.far.frames) == 2000)
        assert pair.far.frames == said


async def test_a_message_to_who_is_leaving() -> None:
    """Between the peer's end and the news of it, what is sent is lost without a word: no fault, no log."""
    loop, faults = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    for linger in (0, 64):  # with nothing on its way, and with more than the kernel takes
        async with raw_peer() as (end, peer):
            for _ in range(linger):
                end.channel.send(bytes(16 * KIB))
            await asyncio.sleep(0)
            peer.close()
            while not end.closings:
                end.channel.send(b"hello?")
                end.channel.tell(b"hello?")
                await asyncio.sleep(0)
        assert end.closings == 1
    assert faults == []


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("size", "piece"), [(64 * MIB, 64 * KIB), (256 * KIB, 1)])
async def test_a_large_message_in_small_pieces(size: int, piece: int) -> None:
    """Time and memory grow with its size and not with the number of pieces: no piece is copied once for each of the others."""
    async with raw_peer() as (end, _):
        wire = struct.pack("<I", size) + bytes(size)
        tracemalloc.start()
        try:
            for at in range(0, len(wire), piece):
                end.channel.data_received(wire[at : at + piece])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert [len(frame) for frame in end.frames] == [size]
        assert peak < 4 * size


async def test_a_large_message_through_the_socket() -> None:
    """64 MiB go through while smaller ones before and after it keep their place."""
    said = [b"before", bytes(64 * MIB), b"after"]
    async with Pair(max_buffer=80 * MIB) as pair:
        for message in said:
            pair.near.channel.send(message)
        await pair.far.until(lambda: len(pair.far.frames) == 3)
        assert pair.far.frames == said


@pytest.mark.parametrize("ways", [["close"], ["abort"], ["close", "close"], ["close", "abort", "abort"], ["abort", "close"]])
async def test_both_ends_hear_of_the_end_once(ways: list[str]) -> None:
    """However often a channel is closed, each end is told once, and not from within the call."""
    async with Pair() as pair:
        for way in ways:
            getattr(pair.near.channel, way)()
        assert pair.near.channel.closed
        assert pair.near.closings == 0
        await pair.near.until(lambda: pair.near.closings > 0)
        await pair.far.until(lambda: pair.far.closings > 0)
        pair.near.channel.close()
        pair.near.channel.send(b"nobody hears it")
        pair.near.channel.tell(b"nor this")
        pair.near.channel.flush()
        await asyncio.sleep(0)
        assert pair.near.channel.pending == 0
    assert (pair.near.closings, pair.far.closings) == (1, 1)


async def test_what_was_said_before_closing_arrives() -> None:
    """A channel that is closed says first what was to be said, and then ends."""
    async with Pair(patience=3600.0) as pair:
        pair.near.channel.tell(b"done")
        pair.near.channel.send(b"last words")
        pair.near.channel.close()
        await pair.far.until(lambda: pair.far.closings > 0)
        assert pair.far.frames == [b"done", b"last words"]


async def test_an_owner_that_fails_loses_the_connection() -> None:
    """A fault in `on_frames` is the loop's to report and ends the connection: it does not leave a channel that is mute."""
    loop, faults = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
    async with raw_peer() as (end, peer):
        end.channel._on_frames = lambda frames: frames[1]
        peer.send(framed([b"one"]))
        await end.until(lambda: end.closings > 0)
    assert [type(fault) for fault in faults] == [IndexError]
    assert end.closings == 1


async def test_a_peer_that_dies_within_a_message() -> None:
    """Half a message is none: the end is told, the half is dropped."""
    async with raw_peer() as (end, peer):
        peer.send(framed([b"whole", b"half"])[:-2])
        await end.until(lambda: bool(end.reads))
        peer.close()
        await end.until(lambda: end.closings > 0)
        assert end.frames == [b"whole"]


async def test_nothing_is_said_before_there_is_a_connection() -> None:
    """A channel that was never connected is a closed one: it can be used, and nobody hears it."""
    end = End()
    for use in (end.channel.send, end.channel.tell):
        use(b"hello?")
    end.channel.flush()
    end.channel.close()
    end.channel.abort()
    await asyncio.sleep(0)
    assert end.channel.closed
    assert (end.closings, end.channel.pending) == (0, 0)


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.SelectorEventLoop], ids=["uvloop", "asyncio"])
def test_a_listener_takes_over_an_inherited_socket(tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The bound socket outlives the one who listened on it: who comes next answers at the same path, on either event loop."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_take_over(str(tmp_path / "s")))


async def _take_over(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path)
        bound.listen()
        for _ in range(2):
            far: list[End] = []
            server = await listen(bound.dup(), lambda far=far: far.append(End()) or far[-1].channel)
            near = End()
            channel = await connect(path, lambda near=near: near.channel)
            assert channel is near.channel
            channel.send(b"ask")
            while not far:
                await asyncio.sleep(0.001)
            await far[0].until(lambda far=far: far[0].frames == [b"ask"])
            server.close()
            channel.close()
            await far[0].until(lambda far=far: far[0].closings > 0)
            await near.until(lambda near=near: near.closings > 0)


async def test_nobody_listens(tmp_path: Path) -> None:
    """That is an OSError, and a listener may make the path itself."""
    path = str(tmp_path / "s")
    with pytest.raises(OSError, match=r"."):
        await connect(path, lambda: End().channel)
    far = End()
    server = await listen(path, lambda: far.channel)
    near = End()
    await connect(path, lambda: near.channel)
    near.channel.send(b"ask")
    await far.until(lambda: far.frames == [b"ask"])
    near.channel.close()
    await far.until(lambda: far.closings > 0)
    server.close()
