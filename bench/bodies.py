"""Large requests: CPU by size beside a peer's, and how long others wait meanwhile. Writes docs/bodies.md.

    python -m bench.bodies [--smg PATH/TO/smg] [--rounds 5] [--out docs/bodies.md]

A picture is a data URL in a chat message, a text is English words, and no two requests have the same. Other requests are small
ones of one connection; the large ones come from a process of their own, one after the other. What the machine's other work adds
to a wait is in all columns alike, also in that of the direct way; the longest step is CPU of the gateway's own event loop, so
nobody else's.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import uvloop

from bench import machine
from bench.load import Bodies, Load, Target, drive
from bench.peers import PEERS, Place, serve_tiergate, tiergate_config
from bench.processes import free_port, upstream
from bench.records import DIRECT, OURS, Does, PeerRecord
from bench.rounds import Entrant, rotated
from bench.stages import ROOT, entered, start
from bench.upstream import MODEL, Paced
from gateway.app import Gateway, tune_collector
from gateway.bounds import MAX_BRACKETS, MAX_SLOW_NUMBERS, MAX_STRINGS, MAX_VALUES
from gateway.config import parse

SIZES = {"0.1 MiB": 104_858, "1 MiB": 2**20, "4 MiB": 2**22, "16 MiB": 2**24 - 1024}
TEXTS = {"1 MiB of text": 2**20, "4 MiB of text": 2**22}
_ALL = {**SIZES, **TEXTS}
_FEW = 4
_COUNTS = {"0.1 MiB": 200, "1 MiB": 40, "4 MiB": 12, "16 MiB": 4, "1 MiB of text": 40, "4 MiB of text": 12}  # requests of a cell
_WORDS = ("prove", "that", "the", "model", "which", "answers", "first", "is", "as", "good", "a", "judge,", "said", "of", "it")
_PICTURE = base64.b64encode(os.urandom(3 * 2**22 + 2048))
_SETTLE = 0.3


class Pictures(Bodies):
    """Chat requests with a picture that nobody has sent before."""

    def next(self, model: str, *, stream: Paced | None = None, size: int = 0) -> bytes:
        self.number += 1
        streamed = b'"stream":true,' if stream else b""
        head = b'{"model":"%b","temperature":0,%b"messages":[{"role":"user","content":[' % (model.encode(), streamed)
        head += b'{"type":"text","text":"What is this?"},{"type":"image_url","image_url":'
        head += b'{"url":"data:image/png;base64,%08d%b' % (self.number, self.salt.encode())
        return head + _PICTURE[: size - len(head) - 8] + b'"}}]}]}'


class Texts(Bodies):
    """Chat requests with a text that nobody has sent before, also not in part."""

    def next(self, model: str, *, stream: Paced | None = None, size: int = 0) -> bytes:
        self.number += 1
        streamed = b'"stream":true,' if stream else b""
        head = b'{"model":"%b","temperature":0,%b"messages":[{"role":"user","content":"' % (model.encode(), streamed)
        head += b"%08d%b " % (self.number, self.salt.encode())
        drawn = random.Random(f"{self.salt}/{self.number}").choices(_WORDS, k=size // 4)
        return head + " ".join(drawn).encode()[: size - len(head) - 4] + b'"}]}'


class Parts(Bodies):
    """Chat requests with a field of very many small parts, as many as are let through."""

    def __init__(self, part: str, count: int, around: str) -> None:
        super().__init__()
        self._field = around % ",".join([part % number if "%" in part else part for number in range(count)])

    def next(self, model: str, *, stream: Paced | None = None, size: int = 0) -> bytes:  # noqa: ARG002 - it has a size of its own
        self.number += 1
        head = f'{{"model":"{model}","temperature":0,"messages":[{{"role":"user","content":"{self.number}{self.salt}"}}],"x":'
        return f"{head}{self._field}}}".encode()


PARTS = {
    "49,990 empty lists": ("[]", 49_990, "[%s]"),
    "499 lists, each a hundred deep": ("[" * 100 + "]" * 100, 499, "[%s]"),
    "49,980 objects with a key of their own": ('{"%d":0}', 49_980, "[%s]"),
    "199,900 strings": ('"a"', 199_900, "[%s]"),
    "199,900 keys of one object": ('"%d":0', 199_900, "{%s}"),
    "9,000 whole floats": ("1.0", 9_000, "[%s]"),
    "990,000 token ids": ("17", 990_000, "[%s]"),
    "990,000 numbers like 1.7e-99": ("1.7e-99", 990_000, "[%s]"),
}


def _bodies(name: str) -> Bodies:
    if name in PARTS:
        return Parts(*PARTS[name])
    return Texts() if name in TEXTS else Pictures()


async def cpu(entrant: Entrant, name: str) -> float:
    """CPU microseconds of the gateway for one request of that size."""
    assert entrant.running is not None
    load = Load(_COUNTS[name], 2, size=_ALL[name])
    before = entrant.running.cpu()
    await drive(entrant.target, _bodies(name), load)
    return (entrant.running.cpu() - before) / load.requests * 1e6


async def wait(target: Target, name: str | None) -> float:
    """The longest that a small request took, in milliseconds, while large ones of that size came; None: none came."""
    sender = None if name is None else _sender(target, name)
    bodies, longest, began = Bodies(), 0.0, time.perf_counter()
    while sender.poll() is None if sender is not None else time.perf_counter() - began < 2:
        longest = max(longest, *(await drive(target, bodies, Load(20, 1))).whole)
    return longest


def _sender(target: Target, name: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bench.bodies", "--send", str(target.port), target.model, name]
    return subprocess.Popen(command, cwd=ROOT)


async def send(port: int, model: str, name: str) -> None:
    await drive(Target(port, model), _bodies(name), Load(_COUNTS.get(name, _FEW), 1, size=_ALL.get(name, 0)))


async def steps_of(ports: Sequence[int], folder: Path, name: str) -> list[float]:
    """CPU milliseconds of the longest steps of the gateway's event loop, as many as requests came."""
    steps: list[float] = []
    plain = asyncio.events.Handle._run  # noqa: SLF001 - the one place that all steps of the plain loop pass

    def timed(handle: asyncio.events.Handle) -> None:
        began = time.thread_time()
        plain(handle)
        steps.append((time.thread_time() - began) * 1e3)

    text = tiergate_config(Place(ROOT, folder, 0, ports))
    gateway = Gateway(parse(text, folder / "steps.yaml"), _NoLog())
    await gateway.start()
    await asyncio.sleep(_SETTLE)
    tune_collector()
    asyncio.events.Handle._run = timed  # type: ignore[method-assign, assignment]  # noqa: SLF001
    try:
        sender = _sender(Target(gateway.port, "auto"), name)
        while sender.poll() is None:  # noqa: ASYNC110 - a process
            await asyncio.sleep(0.01)
    finally:
        asyncio.events.Handle._run = plain  # type: ignore[method-assign]  # noqa: SLF001
        await gateway.stop()
    return sorted(steps)[-_COUNTS.get(name, _FEW) :]


_HOW = (
    "A body above 64 KiB is admitted before it is understood, so what is refused costs no reading. It is read by a decoder in C",
    "that copies each string once, and nothing walks it; the body that is sent on is put together from the bytes of this one.",
    "What is above 256 KiB is worked on in steps, between which others have their turn; above 2 MiB the digest that its answer",
    "is kept under is made in a thread, where it lets others run. A text costs more than a picture of its length: the digests of",
    "its first half megabyte, which tell where its beginning is cached, are most of that. One that is written as `\\u` escapes",
    "throughout takes the decoder ten times as long as one in ASCII.",
)
_PARTS_TOLD = (
    "Decoding is one step. Pictures and texts keep it short, many small parts do not, so these are bounded whatever the length",
    f"of the body: {MAX_BRACKETS:,} lists and objects, {MAX_STRINGS:,} keys and strings, {MAX_VALUES:,} values, and",
    f"{MAX_SLOW_NUMBERS:,} numbers of more digits than 64 bits or a float have, or with huge exponents. What stands in a string",
    "is none of them. What is over is a 400 `invalid_json` that says so. What is just within, and how long it keeps others",
    "waiting:",
)


class _NoLog:
    def write(self, facts: object) -> None:
        pass

    def close(self) -> None:
        pass


Cells = dict[tuple[str, str, str], list[float]]
"""By what was measured, the gateway's name and the size."""


async def race(entrants: dict[str, Entrant], rounds: int, cells: Cells) -> None:
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for name in _ALL:
            for peer in rotated(list(entrants), number):
                entrant = entrants[peer]
                if entrant.running is not None:
                    cells.setdefault(("cpu", peer, name), []).append(await cpu(entrant, name))
                cells.setdefault(("wait", peer, name), []).append(await wait(entrant.target, name))
        for peer, entrant in entrants.items():
            cells.setdefault(("wait", peer, "none"), []).append(await wait(entrant.target, None))


def measured(smg: str | None, rounds: int) -> Cells:
    cells: Cells = {}
    peers = {OURS: replace(PEERS[OURS], command=lambda place: serve_tiergate(sys.executable, place))}
    peers[OURS] = replace(peers[OURS], env={"PYTHONPATH": str(ROOT)})
    if smg:
        command = str(Path(smg).absolute())
        peers["smg"] = replace(PEERS["smg"], command=lambda place: [command, *PEERS["smg"].command(place)[1:]])
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tiergate-bench-")))
        ports = stack.enter_context(upstream(ROOT))
        entrants = {DIRECT: Entrant(Target(ports[0], MODEL), PeerRecord(version="-", does=Does()))}
        for name, peer in peers.items():
            place = Place(ROOT, folder, free_port(), ports)
            entrants[name] = entered(peer, place, name)
            start(name, peer, entrants[name], place, stack)
            if entrants[name].out():
                sys.exit(f"{name}: {entrants[name].record.failure}")
        uvloop.run(race(entrants, rounds, cells))
        for size in (*_ALL, *PARTS):
            cells["step", OURS, size] = [one for _ in range(rounds) for one in asyncio.run(steps_of(ports, folder, size))]
    return cells


def page(cells: Cells, command: str, load: Sequence[float]) -> str:
    peers = [name for name in (OURS, "smg") if ("cpu", name, "1 MiB") in cells]
    versions = "".join(f", smg {PEERS['smg'].packages['smg']}" for name in peers if name == "smg")
    sizes, everything, told = list(SIZES), list(_ALL), machine.describe({})
    lines = [
        f"Made by `{command}`, which overwrites all of it.",
        "",
        "# Large bodies",
        "",
        f"{told.cpu}, {told.cores} cores, {told.memory_gib:.1f} GiB, {told.kernel}; {told.python}{versions}.",
        f"Load average {load[0]:.1f} before, {load[1]:.1f} after: {_said(load, told.cores)}",
        "",
        *(__doc__ or "").split("\n\n")[2].strip().splitlines(),
        "",
        "## CPU, milliseconds a request",
        "",
        "Of the process tree; the median of the rounds with their range. The slope is from the smallest picture to the largest.",
        "",
        f"| gateway | {' | '.join(everything)} | µs for each KB of a picture |",
        "|---" * (len(everything) + 2) + "|",
    ]
    for peer in peers:
        rows = [cells["cpu", peer, size] for size in everything]
        slope = (median(rows[len(sizes) - 1]) - median(rows[0])) / (SIZES[sizes[-1]] - SIZES[sizes[0]]) * 1000
        lines.append(f"| {peer} | {' | '.join(_spread([one / 1000 for one in row]) for row in rows)} | {slope:.2f} |")
    lines += [
        "",
        "## What others wait, milliseconds",
        "",
        "The longest that one of the small requests took, in a round; the median of the rounds with their range.",
        "",
        f"| gateway | no large ones | {' | '.join(everything)} |",
        "|---" * (len(everything) + 2) + "|",
    ]
    for peer in (DIRECT, *peers):
        lines.append(f"| {peer} | {' | '.join(_spread(cells['wait', peer, size]) for size in ('none', *everything))} |")
    lines += [
        f"| longest steps of tiergate's loop, CPU | | {' | '.join(_spread(cells['step', OURS, size]) for size in everything)} |",
        "",
        *_HOW,
        "",
        "## Many small parts",
        "",
        *_PARTS_TOLD,
        "",
        "| a request with | longest steps of tiergate's loop, CPU ms |",
        "|---|---|",
        *(f"| {name} | {_spread(cells['step', OURS, name])} |" for name in PARTS),
        "",
    ]
    return "\n".join(lines)


def _said(load: Sequence[float], cores: int) -> str:
    return "a quiet machine." if max(load) < cores else "a busy machine, so waits are its neighbours' too, and figures are rough."


def _spread(figures: Sequence[float]) -> str:
    return f"{median(figures):.1f} ({min(figures):.1f} to {max(figures):.1f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smg", help="the smg command of an environment of its own (pip install smg==1.13.0)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "bodies.md")
    parser.add_argument("--send", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.send:
        uvloop.run(send(int(args.send[0]), *args.send[1:]))
        return 0
    before = os.getloadavg()[0]
    cells = measured(args.smg, args.rounds)
    command = "python -m bench.bodies" + (" --smg smg" if args.smg else "") + f" --rounds {args.rounds}"
    args.out.write_text(page(cells, command, (before, os.getloadavg()[0])), encoding="utf-8")
    print(f"wrote {args.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
