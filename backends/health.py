"""Asks every replica at its own pace whether it is there.

Rules:
1. Each replica has a task of its own, from its joining the pool to its leaving. One that hangs delays nobody's checks
   but its own, and those by `timeout`.
2. A check writes `up` and nothing else: no count, no breaker, no latency is touched when a replica comes or goes.
3. A replica is not up before its first good check. It goes down after `fall` bad checks in a row, but at once
   when no connection can be made; it comes back after `rise` good ones.
4. A good check proves little (an engine that sleeps, or has lost its GPU, may still answer 200 here). What the
   requests themselves show is the breaker's business.
5. What a replica sends here is bounded, and never logged. One log line a change, none a check.
6. A replica that joined with a warm-up has it after its first good check and before it is up: one request, answered
   within its deadline. One that fails is logged and tried again with the next good check; after the last attempt the
   replica serves without, unless it refuses (401, 403, 404), as it would every client. One that comes back later has no
   second warm-up.
7. One that has lost what it had cached reads what the pool wants read before it is up (see `prewarm`); it is checked meanwhile
   as always.
8. Where metrics are read, an engine that says there that it sleeps is down: it would keep requests until they time out. It is
   asked again with each check; one that was away meanwhile is another.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from backends.client import Deadlines
from backends.engine import read_engine
from backends.errors import ConnectFailed, UpstreamError, UpstreamTimeout
from backends.gauges import WAITING, read_gauge
from backends.kept import asleep
from backends.pool import Pool
from backends.replica import Replica
from backends.warmup import WarmUp

_log = logging.getLogger("tiergate.health")

_MAX_BODY = 64 * 1024
_MAX_METRICS = 1024 * 1024
_RESOLVE_SECONDS = 30.0
_EARLY_SECONDS = 0.25  # a suspicion brings the next check forward, but never closer than this to the last one
_JITTER = 0.1
_REFUSED = frozenset({"status 401", "status 403", "status 404"})


@dataclass(frozen=True, slots=True)
class _Finding:
    """What a check found: `fault` is None when all is well; `at_once` when it needs no second opinion."""

    fault: str | None = None
    at_once: bool = False


_ASLEEP = _Finding("it sleeps", at_once=True)
_WELL = _Finding()


@dataclass(slots=True, eq=False)
class _Watch:
    """What is remembered of a replica from one check to the next."""

    pool: Pool
    replica: Replica
    warm_up: WarmUp | None = None  # what it has still to pass
    cold: int = 0  # warm-ups that failed
    good: int = 0
    bad: int = 0
    asleep: bool = False
    announced: bool = False
    resolve_at: float = float("-inf")
    suspected: asyncio.Event = field(default_factory=asyncio.Event)


class HealthMonitor:
    def __init__(
        self,
        pools: Sequence[Pool],
        *,
        interval: float = 2.0,
        timeout: float = 2.0,
        fall: int = 3,
        rise: int = 1,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._interval = interval
        self._timeout = timeout
        self._fall = fall
        self._rise = rise
        self._clock = clock
        self._rng = rng or random.Random()
        self._watches = {replica: _Watch(pool, replica) for pool in pools for replica in pool.replicas}
        self._tasks: dict[Replica, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None  # while it runs
        for pool in pools:
            pool.on_suspect(self._suspect)
            pool.on_join(partial(self._join, pool))
            pool.on_leave(self._leave)

    async def run(self) -> None:
        """For ever; cancelling it ends every check."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for watch in self._watches.values():
                    self._start(watch)
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def check_once(self) -> None:
        """Every replica, all at once."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches.values():
                group.create_task(self._check(watch))

    def _join(self, pool: Pool, replica: Replica, warm_up: WarmUp | None) -> None:
        watch = self._watches[replica] = _Watch(pool, replica, warm_up)
        self._start(watch)

    def _leave(self, replica: Replica) -> None:
        self._watches.pop(replica, None)
        task = self._tasks.pop(replica, None)
        if task is not None:
            task.cancel()

    def _start(self, watch: _Watch) -> None:
        if self._group is not None:
            self._tasks[watch.replica] = self._group.create_task(self._follow(watch))

    def _suspect(self, replica: Replica) -> None:
        watch = self._watches.get(replica)  # a request may outlive its replica's membership
        if watch is not None:
            watch.suspected.set()

    async def _follow(self, watch: _Watch) -> None:
        while True:
            watch.suspected.clear()
            await self._check(watch)
            await self._pause(watch.suspected)

    async def _pause(self, suspected: asyncio.Event) -> None:
        """Until the next check is due. The jitter keeps gateways and replicas from falling into step."""
        seconds = self._interval * self._rng.uniform(1 - _JITTER, 1 + _JITTER)
        early = min(seconds, _EARLY_SECONDS)
        await asyncio.sleep(early)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds - early):
                await suspected.wait()

    async def _check(self, watch: _Watch) -> None:
        await self._resolve(watch)
        finding = await self._ask(watch.replica)
        if finding.fault is None and watch.warm_up is not None and not await self._warm(watch, watch.warm_up):
            return
        if watch.replica not in watch.pool.replicas:
            return  # it left while we asked
        if finding.fault is None and watch.asleep:
            finding = await self._sleeping(watch)
        if finding.fault is None and self._reads(watch):
            return
        self._judge(watch, finding)
        if finding.fault is None and (watch.pool.wants_metrics or watch.replica.governor.wants_engine):
            finding = await self._sleeping(watch)
            if finding.fault is not None:
                self._judge(watch, finding)
        watch.pool.catch_up()  # nobody else may be asking: an opening that has ended shows in the capacity now

    async def _sleeping(self, watch: _Watch) -> _Finding:
        """What its metrics say, which are read for all who want them."""
        await self._scrape(watch)
        return _ASLEEP if watch.asleep else _WELL

    def _reads(self, watch: _Watch) -> bool:
        """Rule 7. Whether it is to be kept out."""
        prewarm, replica = watch.pool.prewarm, watch.replica
        if prewarm.due(replica) and self._group is not None:
            prewarm.begin(replica)
            self._group.create_task(self._read_ahead(watch))
        return not replica.up and prewarm.holds(replica)

    async def _read_ahead(self, watch: _Watch) -> None:
        """Its metrics first: what is forgotten because of them is forgotten before it reads."""
        await self._scrape(watch)
        await watch.pool.prewarm.run(watch.replica)
        watch.suspected.set()

    async def _resolve(self, watch: _Watch) -> None:
        """A name that cannot be resolved just now is no bad check: the known addresses are kept."""
        now = self._clock()
        if now < watch.resolve_at:
            return
        watch.resolve_at = now + _RESOLVE_SECONDS
        with suppress(UpstreamError, OSError):
            async with asyncio.timeout(self._timeout):
                await watch.replica.client.resolve()

    async def _ask(self, replica: Replica) -> _Finding:
        try:
            status, _ = await self._get(replica, b"/health", _MAX_BODY)
        except ConnectFailed as error:
            return _Finding(str(error), at_once=not error.ours)
        except (UpstreamTimeout, TimeoutError):
            return _Finding(f"no answer within {self._timeout:g} s")
        except UpstreamError:
            return _Finding("the answer broke off or was not HTTP")
        except Exception as error:  # noqa: BLE001  the edge of a check: a fault in one must not end the watch over all
            return _Finding(f"the check failed ({type(error).__name__})")
        return _Finding(None if status == 200 else f"status {status}")

    async def _warm(self, watch: _Watch, warm_up: WarmUp) -> bool:
        """Rule 6. True when it is over: passed, or given up."""
        replica, pool = watch.replica, watch.pool
        head = b"POST %b%b%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (
            replica.path.encode(), warm_up.path.encode(), replica.head_lines, len(warm_up.body),
        )  # fmt: skip
        fault = await self._fault_of(replica, head, warm_up)
        watch.cold += fault is not None
        if fault in _REFUSED:  # a wrong key, name or path: as it would refuse every client
            if watch.cold == 1:
                _log.warning("%s/%s: it refuses the warm-up (%s), it gets no requests", pool.name, replica.name, fault)
            return False
        if fault is not None and watch.cold < warm_up.attempts:
            count = f"{watch.cold} of {warm_up.attempts}"
            _log.warning("%s/%s: warm-up %s failed (%s), it gets no requests yet", pool.name, replica.name, count, fault)
            return False
        watch.warm_up = None
        if fault is not None:
            _log.warning("%s/%s: the last warm-up failed (%s), it serves without", pool.name, replica.name, fault)
        return True

    async def _fault_of(self, replica: Replica, head: bytes, warm_up: WarmUp) -> str | None:
        timeout = warm_up.timeout
        deadlines = Deadlines(timeout, None, None, asyncio.get_running_loop().time() + timeout)
        try:
            async with asyncio.timeout(timeout), replica.client.request(head, warm_up.body, deadlines) as answer:
                await answer.read(_MAX_METRICS)
                return None if 200 <= answer.status < 300 else f"status {answer.status}"
        except (UpstreamTimeout, TimeoutError):
            return f"no answer within {timeout:g} s"
        except UpstreamError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  the edge of a warm-up, as of a check
            return type(error).__name__

    async def _scrape(self, watch: _Watch) -> None:
        """Advice only: when no answer can be had, the last one goes stale by itself; one without it takes it back."""
        pool, replica = watch.pool, watch.replica
        with suppress(UpstreamError, OSError):
            status, page = await self._get(replica, b"/metrics", _MAX_METRICS)
            now = self._clock()
            waiting = read_gauge(page, WAITING) if status == 200 else None
            if waiting is None:
                replica.forget_waiting()
            else:
                replica.observe_waiting(waiting, now)
            if status != 200 or replica not in pool.replicas:
                return
            view = read_engine(page) if replica.governor.wants_engine else None
            if view is not None and replica.governor.engine(view, replica, now):
                pool.refresh()
            watch.asleep = asleep(page)
            pool.scraped(replica, page)

    async def _get(self, replica: Replica, path: bytes, limit: int) -> tuple[int, bytes]:
        head = b"GET " + _root(replica) + path + replica.head_lines + b"accept: */*\r\naccept-encoding: identity\r\n\r\n"
        timeout = self._timeout
        deadlines = Deadlines(timeout, timeout, timeout, asyncio.get_running_loop().time() + timeout)
        async with asyncio.timeout(timeout), replica.client.request(head, b"", deadlines) as answer:
            return answer.status, await answer.read(limit)

    def _judge(self, watch: _Watch, finding: _Finding) -> None:
        replica = watch.replica
        if finding.fault is None:
            watch.good, watch.bad = watch.good + 1, 0
            if not replica.up and watch.good >= self._rise:
                self._turn(watch, up=True, why="it answers")
            return
        watch.good, watch.bad = 0, watch.bad + 1
        watch.asleep = watch.asleep and finding is _ASLEEP
        if not replica.up:
            watch.pool.prewarm.mark(replica)
        enough = finding.at_once or watch.bad >= self._fall
        if enough if replica.up else not watch.announced:
            self._turn(watch, up=False, why=finding.fault)

    def _turn(self, watch: _Watch, *, up: bool, why: str) -> None:
        watch.announced = True
        level, word = (logging.INFO, "up") if up else (logging.WARNING, "down")
        _log.log(level, "%s/%s is %s: %s", watch.pool.name, watch.replica.name, word, why)
        watch.replica.up = up
        if not up:
            watch.pool.prewarm.mark(watch.replica)


def _root(replica: Replica) -> bytes:
    """Of /health and /metrics: vLLM serves them beside /v1, not below it; a path in front of /v1 is a proxy's and stays."""
    origin = replica.client.origin
    return b"" if origin is None else origin.base_path.removesuffix("/v1").encode("ascii")
