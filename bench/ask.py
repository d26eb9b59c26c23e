"""What a worker's question to the dispatcher costs: CPU of both ends per ask, through the channel that they use.

    python -m bench.ask [--seconds 2] [--rounds 5] [--in-flight 1,8,32] [--json]

Two processes and one connection, as `serve --workers` has them: one asks with a future for each answer and tells when it is done;
the other runs a task for each ask that answers and then holds on until it is told. Nothing is decided: this is what it costs to
ask, whatever the answer takes. Both ends are busy without a pause, the worst case for latency and the usual one for cost. What
counts is the CPU of an ask with many in flight; with one, every message is a write of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import uvloop

from gateway.dispatch.channel import Channel, connect, listen

_ROOT = Path(__file__).resolve().parent.parent
_WARM_UP = 0.3


class Ask(msgspec.Struct, array_like=True, tag=1, gc=False):
    """As much as a request brings to the decision about it."""

    serial: int
    tenant: str
    key: str
    model: str
    priority: str
    session: str
    fingerprint: bytes
    prompt_tokens: int
    max_tokens: int
    choices: int
    stream: bool
    arrived: float
    deadline: float
    needs: tuple[str, ...]
    blocks: tuple[int, ...]  # hashes of the prompt's first blocks


class Answer(msgspec.Struct, array_like=True, tag=2, gc=False):
    serial: int
    outcome: str
    replica: str
    url: str
    tier: str
    waited: float
    tokens: int
    requests_left: int
    tokens_left: int
    resets: tuple[float, float]


class Done(msgspec.Struct, array_like=True, tag=3, gc=False):
    serial: int
    status: int
    prompt_tokens: int
    completion_tokens: int
    first_token: float


class Count(msgspec.Struct, array_like=True, tag=4, gc=False):
    """What an end has used since it began; sent empty, it asks for that of the other end."""

    cpu: float = 0.0
    messages: int = 0
    writes: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Ask | Answer | Done | Count).decode


class Answering:
    """The dispatcher's end."""

    def __init__(self) -> None:
        self.channel = Channel(self._on_frames, self._on_closed)
        self.gone = asyncio.Event()
        self._held: dict[int, tuple[asyncio.Task[None], asyncio.Future[None]]] = {}
        self._loop = asyncio.get_running_loop()
        self._messages = 0

    def _on_frames(self, frames: list[bytes]) -> None:
        for frame in frames:
            message = _decode(frame)
            if type(message) is Ask:
                done = self._loop.create_future()
                self._held[message.serial] = self._loop.create_task(self._hold(message, done)), done
            elif type(message) is Done:
                self._held.pop(message.serial)[1].set_result(None)
            else:
                self.channel.send(_encode(Count(_cpu(), self._messages, self.channel.writes)))

    async def _hold(self, ask: Ask, done: asyncio.Future[None]) -> None:
        replica = f"replica-{ask.serial & 7}"
        url = "http://10.0.0.17:8000/v1/chat/completions"
        answer = Answer(ask.serial, "granted", replica, url, "small", 0.0, ask.max_tokens, 599, 99_000, (0.1, 12.5))
        self._messages += 1
        self.channel.send(_encode(answer))
        await done

    def _on_closed(self) -> None:
        for task, _ in self._held.values():
            task.cancel()
        self.gone.set()


class Asking:
    """The worker's end."""

    def __init__(self) -> None:
        self.channel = Channel(self._on_frames, self._on_closed)
        self.asks = 0
        self._serial = 0
        self._messages = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._count: asyncio.Future[Count] | None = None
        self._loop = asyncio.get_running_loop()

    def _on_frames(self, frames: list[bytes]) -> None:
        for frame in frames:
            message = _decode(frame)
            if type(message) is Answer:
                self._waiting.pop(message.serial).set_result(message)
            elif self._count is not None and type(message) is Count:
                self._count.set_result(message)

    def _on_closed(self) -> None:
        for future in self._waiting.values():
            future.set_exception(ConnectionResetError("the other end went away"))

    async def request(self) -> None:
        """One ask, its answer, and that it is over."""
        self._serial = serial = self._serial + 1
        now = time.monotonic()
        answered = self._waiting[serial] = self._loop.create_future()
        self.channel.send(_encode(_ask(serial, now)))
        answer = await answered
        self.channel.tell(_encode(Done(serial, 200, 412, answer.tokens, time.monotonic() - now)))
        self._messages += 2
        self.asks += 1

    async def counts(self) -> tuple[Count, Count]:
        """Of this end and of the other."""
        self._count = self._loop.create_future()
        self.channel.send(_encode(Count()))
        theirs = await self._count
        return Count(_cpu(), self._messages, self.channel.writes), theirs


def _ask(serial: int, now: float) -> Ask:
    return Ask(
        serial, "acme", "key-7f3a9c", "llama-3.1-70b-instruct", "interactive", "session-48151623", b"0123456789abcdef" * 2,
        412, 256, 1, True, now, now + 30.0, ("tools", "json"), tuple(range(serial << 32, (serial << 32) + 8)),
    )  # fmt: skip


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Figures:
    """Of one concurrency; microseconds of CPU for an ask, with its answer and its end."""

    in_flight: int
    asker: float
    answerer: float
    both: float
    asks_per_second: float
    messages_per_write_asker: float
    messages_per_write_answerer: float


async def _measured(asking: Asking, in_flight: int, seconds: float) -> Figures:
    stopping = False

    async def ask_on() -> None:
        while not stopping:
            await asking.request()

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(ask_on())
        await asyncio.sleep(_WARM_UP)
        asks, began, (our_first, their_first) = asking.asks, time.monotonic(), await asking.counts()
        await asyncio.sleep(seconds)
        asks, took, (our_last, their_last) = asking.asks - asks, time.monotonic() - began, await asking.counts()
        stopping = True
    ours, theirs = (last.cpu - first.cpu for first, last in ((our_first, our_last), (their_first, their_last)))
    per_write = [
        (last.messages - first.messages) / (last.writes - first.writes)
        for first, last in ((our_first, our_last), (their_first, their_last))
    ]
    each = 1e6 / asks
    return Figures(in_flight, ours * each, theirs * each, (ours + theirs) * each, asks / took, *per_write)


async def _answer(listening: socket.socket) -> None:
    """Serve the one who connects, until it goes."""
    came: asyncio.Future[Answering] = asyncio.get_running_loop().create_future()

    def make() -> Channel:
        came.set_result(Answering())
        return came.result().channel

    server = await listen(listening, make)
    await (await came).gone.wait()
    server.close()


async def _ask_all(path: str, in_flight: Sequence[int], seconds: float, rounds: int) -> list[Figures]:
    asking = Asking()
    await connect(path, lambda: asking.channel)
    taken = [await _measured(asking, number, seconds) for _ in range(rounds) for number in in_flight]
    asking.channel.close()
    return [_median([figures for figures in taken if figures.in_flight == number]) for number in in_flight]


def _median(rounds: list[Figures]) -> Figures:
    return Figures(**{name: statistics.median(getattr(each, name) for each in rounds) for name in asdict(rounds[0])})


def measure(in_flight: Sequence[int], seconds: float, rounds: int) -> list[Figures]:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = f"{folder}/ask.sock"
        listening.bind(path)
        listening.listen()
        command = [sys.executable, "-m", "bench.ask", "--answer", str(listening.fileno())]
        with subprocess.Popen(command, cwd=_ROOT, pass_fds=[listening.fileno()]) as other:
            try:
                return uvloop.run(_ask_all(path, in_flight, seconds, rounds))
            finally:
                other.terminate()


def table(figures: Sequence[Figures]) -> str:
    lines = ["in flight   us per ask: asker  answerer    both     asks/s   messages a write: asker  answerer"]
    lines += [
        f"{each.in_flight:9}  {each.asker:18.1f}  {each.answerer:8.1f}  {each.both:6.1f}  {each.asks_per_second:9,.0f}"
        f"  {each.messages_per_write_asker:23.1f}  {each.messages_per_write_answerer:8.1f}"
        for each in figures
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--in-flight", type=lambda text: [int(part) for part in text.split(",")], default=[1, 8, 32])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--answer", type=int, metavar="FD", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.answer is not None:
        uvloop.run(_answer(socket.socket(fileno=args.answer)))
        return 0
    figures = measure(args.in_flight, args.seconds, args.rounds)
    print(json.dumps([asdict(each) for each in figures]) if args.json else table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
