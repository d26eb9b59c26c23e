"""What a worker's question to the dispatcher costs: CPU of both ends per ask, through the channel that they use.

    python -m bench.ask [--in-flight 1,8,32] [--rates 1000,2000,4000] [--work 150] [--seconds 2] [--rounds 5] [--json]

Two processes and one connection, as `serve --workers` has them: one asks with a future for each answer and tells when it is done;
the other runs a task for each ask that answers and then holds on until it is told. Nothing is decided: this is what it costs to
ask, whatever the answer takes.

- `in flight`: so many ask again as soon as they have been answered. All of them go in step, so many share a write: the least
  that an ask can cost. With one, each message is a write of its own, and an end that sleeps is woken by each: the most.
- `a second`: requests arrive at random, at this rate, and each takes `--work` microseconds of CPU and 20 ms of somebody else's.
  The asker's figure is what asking adds to the same requests without it: what it costs in a worker that has other things to do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

from bench.ask_ends import Answering, Asking, Count
from gateway.dispatch.channel import Channel, connect, listen

_ROOT = Path(__file__).resolve().parent.parent
_WARM_UP = 0.3
_HOLD = 0.02


@dataclass(frozen=True)
class Load:
    """Either closed, so many at a time, or open, so many a second."""

    in_flight: int = 0
    rate: float = 0.0
    work: float = 0.0

    def __str__(self) -> str:
        return f"{self.in_flight} in flight" if self.in_flight else f"{self.rate:,.0f} a second"


@dataclass(frozen=True)
class Figures:
    """Of one load; CPU in microseconds for an ask, with its answer and its end."""

    asker: float
    answerer: float
    both: float
    asks_per_second: float
    messages_per_write_asker: float
    messages_per_write_answerer: float
    answered_us: float  # the median time to an answer


@dataclass(frozen=True)
class Used:
    """By both ends, between two moments."""

    asker: Count
    answerer: Count
    waits: list[float]
    seconds: float

    def figures(self, without: float) -> Figures:
        """`without` is the CPU that the asker would have used without asking."""
        each = 1e6 / len(self.waits)
        asker, answerer = (self.asker.cpu - without) * each, self.answerer.cpu * each
        per_write = [end.messages / end.writes for end in (self.asker, self.answerer)]
        return Figures(
            asker,
            answerer,
            asker + answerer,
            len(self.waits) / self.seconds,
            per_write[0],
            per_write[1],
            statistics.median(self.waits) * 1e6,
        )


class Meter:
    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def start(self) -> None:
        self._first = await self._asking.counts()
        self._asking.waits.clear()
        self._began = time.monotonic()

    async def stop(self) -> Used:
        took, waits = time.monotonic() - self._began, self._asking.waits[:]
        ours, theirs = (last - first for first, last in zip(self._first, await self._asking.counts(), strict=True))
        return Used(ours, theirs, waits, took)


async def _closed(asking: Asking, load: Load, seconds: float) -> Figures:
    stopping = False

    async def ask_on() -> None:
        while not stopping:
            asking.done(await asking.ask())

    meter = Meter(asking)
    async with asyncio.TaskGroup() as group:
        for _ in range(load.in_flight):
            group.create_task(ask_on())
        await asyncio.sleep(_WARM_UP)
        await meter.start()
        await asyncio.sleep(seconds)
        used = await meter.stop()
        stopping = True
    return used.figures(without=0.0)


async def _open(asking: Asking, load: Load, seconds: float) -> Figures:
    idle, burned, arrived = await _arrivals(asking, load, seconds, ask=False)
    spare = (idle.asker.cpu - burned) / arrived  # of a request's CPU: the loop, its task, its timer
    used, burned, arrived = await _arrivals(asking, load, seconds, ask=True)
    return used.figures(without=burned + spare * arrived)


async def _arrivals(asking: Asking, load: Load, seconds: float, *, ask: bool) -> tuple[Used, float, int]:
    """What was used, how much of it by the requests' own work, and how many there were."""
    draw, burned, arrived = random.Random(1), 0.0, 0
    gaps = random.Random(2)

    async def request() -> None:
        nonlocal burned
        burned += _burn(load.work / 2)
        answer = await asking.ask() if ask else None
        await asyncio.sleep(draw.expovariate(1 / _HOLD))
        burned += _burn(load.work / 2)
        if answer is not None:
            asking.done(answer)

    meter = Meter(asking)
    await meter.start()
    end = (due := time.monotonic()) + seconds
    async with asyncio.TaskGroup() as group:
        while (now := time.monotonic()) < end:
            while due <= now:
                group.create_task(request())
                arrived += 1
                due += gaps.expovariate(load.rate)
            await asyncio.sleep(due - now)
    return await meter.stop(), burned, arrived


def _burn(seconds: float) -> float:
    """Use so much CPU, and tell how much it was."""
    now = began = time.thread_time()
    while now < began + seconds:
        now = time.thread_time()
    return now - began


async def _ask_all(path: str, loads: Sequence[Load], seconds: float, rounds: int) -> list[Figures]:
    asking = Asking()
    await connect(path, lambda: asking.channel)
    taken: dict[Load, list[Figures]] = {load: [] for load in loads}
    for _ in range(rounds):
        for load in loads:
            taken[load].append(await (_closed if load.in_flight else _open)(asking, load, seconds))
    asking.channel.close()
    return [_median(figures) for figures in taken.values()]


def _median(rounds: Sequence[Figures]) -> Figures:
    return Figures(**{name: statistics.median(getattr(each, name) for each in rounds) for name in asdict(rounds[0])})


async def _answer(listening: socket.socket) -> None:
    """Serve the one who connects, until it goes."""
    came: asyncio.Future[Answering] = asyncio.get_running_loop().create_future()

    def make() -> Channel:
        came.set_result(Answering())
        return came.result().channel

    server = await listen(listening, make)
    await (await came).gone.wait()
    server.close()


def measure(loads: Sequence[Load], seconds: float, rounds: int) -> list[Figures]:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = f"{folder}/ask.sock"
        listening.bind(path)
        listening.listen()
        command = [sys.executable, "-m", "bench.ask", "--answer", str(listening.fileno())]
        with subprocess.Popen(command, cwd=_ROOT, pass_fds=[listening.fileno()]) as other:
            try:
                return uvloop.run(_ask_all(path, loads, seconds, rounds))
            finally:
                other.terminate()


def table(loads: Sequence[Load], figures: Sequence[Figures]) -> str:
    lines = [
        "                us per ask: asker  answerer    both    asks/s   messages a write: asker  answerer   us to the answer"
    ]
    lines += [
        f"{load!s:>15}  {each.asker:16.1f}  {each.answerer:8.1f}  {each.both:6.1f}  {each.asks_per_second:8,.0f}"
        f"  {each.messages_per_write_asker:23.1f}  {each.messages_per_write_answerer:8.1f}  {each.answered_us:17.0f}"
        for load, each in zip(loads, figures, strict=True)
    ]
    return "\n".join(lines)


def _numbers(kind: Callable[[str], float]) -> Callable[[str], list[float]]:
    return lambda text: [kind(part) for part in text.split(",") if part]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-flight", type=_numbers(int), default=[1, 8, 32])
    parser.add_argument("--rates", type=_numbers(float), default=[1000.0, 2000.0, 4000.0])
    parser.add_argument("--work", type=float, default=150.0, metavar="US")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--answer", type=int, metavar="FD", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.answer is not None:
        uvloop.run(_answer(socket.socket(fileno=args.answer)))
        return 0
    loads = [Load(in_flight=number) for number in args.in_flight]
    loads += [Load(rate=rate, work=args.work / 1e6) for rate in args.rates]
    figures = measure(loads, args.seconds, args.rounds)
    told = [{**asdict(load), **asdict(each)} for load, each in zip(loads, figures, strict=True)]
    print(json.dumps(told) if args.json else table(loads, figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
