"""The engine: `max_num_seqs` sequences run, the others wait, and tokens come at the pace of the profile.

Rules
- First come first served, or by `priority` (lower first), ties in order of arrival. Only the head of the queue is tried:
  when it does not fit, nothing behind it passes.
- A request of n choices takes n places (never more than there are) and the KV blocks of its prompt and of its whole reply.
- The first token comes `ttft` after the place was given, later by `prefill` for each prompt token that was not cached;
  every further one `itl` after the one before.
- Places and blocks are given back when the lease ends, however it ends.
- Asleep, nothing is admitted and nothing fails: requests hang, and the server still calls itself healthy.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from gateway.lab.fake.kvcache import PrefixCache, block_keys
from gateway.lab.fake.metrics import Metrics
from gateway.lab.fake.options import Options
from gateway.lab.fake.text import TOKEN_BYTES, count


@dataclass(frozen=True, slots=True)
class Job:
    """What a request asks of the engine: `reply` is the number of tokens of its longest choice."""

    prompt: bytes
    reply: int
    n: int = 1
    priority: int = 0
    root: object = None
    slow: float = 0.0


class Lease:
    """An async context manager: entering waits for a place. Leaving gives everything back and counts."""

    def __init__(self, engine: Engine, job: Job, clock: Callable[[], float]) -> None:
        self.engine = engine
        self.job = job
        self.clock = clock
        self.prompt_tokens = count(job.prompt)
        self.cached_tokens = 0
        self.aborted = False
        self.made = 0
        self.finish: str | None = None
        self.written = b""
        self.keys = block_keys(job.prompt, engine.block_size, hash(job.root))
        blocks = -(-(self.prompt_tokens + job.n * job.reply) // engine.block_size)
        self.private = min(blocks - len(self.keys), engine.cache.blocks - len(self.keys))
        self.places = min(job.n, engine.max_num_seqs)
        self.queued = False
        self.waiter: asyncio.Future[None] | None = None
        self._arrived = self._started = self._first_at = 0.0
        self._itl = engine.speed.itl + job.slow
        self.paced = bool(any(engine.speed) or job.slow)

    async def __aenter__(self) -> Self:
        engine = self.engine
        self._arrived = self.clock()
        if not engine.admit_now(self):
            await engine.wait(self)
        self._started = self.clock()
        uncached = self.prompt_tokens - self.cached_tokens
        self._first_at = self._started + engine.speed.ttft + engine.speed.prefill * uncached + self.job.slow
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.engine.leave(self)
        ended = self.clock()
        first = self._first_at if self.paced else self._started
        if self.finish is not None:  # vLLM does not count whose client has left
            self.engine.metrics.finished(self.finish, ended - self._arrived, self._started - self._arrived)
        if self.made:
            self.engine.metrics.decoded(self.made, max(0.0, ended - first))

    async def token(self, index: int) -> None:
        """Wait until token `index` of the reply is due."""
        if self.paced:
            delay = self._first_at + index * self._itl - self.clock()
            if delay > 0:
                await asyncio.sleep(delay)
        if self.engine.paused and not self.aborted:
            await self.engine.going.wait()
        if index == 0:
            self.prefilled()

    def prefilled(self) -> None:
        self.engine.metrics.prefilled(self.prompt_tokens, self.cached_tokens, max(0.0, self.clock() - self._arrived))

    async def whole(self, length: int, total: int) -> None:
        """Wait for the last of `length` steps, `total` tokens; left early, `made` says how many there were by then."""
        try:
            await self.token(0)
            if length > 1:
                await self.token(length - 1)
            self.count(total)
        except asyncio.CancelledError:
            passed = self.clock() - self._first_at
            if passed >= 0:
                steps = length if self._itl <= 0 else int(passed / self._itl) + 1
                self.count(min(total, steps * self.job.n))
            raise

    def count(self, tokens: int) -> None:
        self.made += tokens
        self.engine.metrics.generation_tokens += tokens


class Engine:
    """`running` and `waiting` count sequences, as vLLM's gauges do."""

    def __init__(self, options: Options, metrics: Metrics, clock: Callable[[], float], notify: Callable[[], None]) -> None:
        self.speed = options.speed
        self.block_size = options.block_size
        self.max_num_seqs = options.max_num_seqs
        self.cache = PrefixCache(options.kv_blocks)
        self.metrics = metrics
        self.running = 0
        self.waiting = 0
        self.sleeping = False
        self.paused = False
        self.going = asyncio.Event()
        self.going.set()
        self.leases: set[Lease] = set()
        self._by_priority = options.scheduling_policy == "priority"
        self._queue: list[tuple[int, int, Lease]] = []
        self._arrivals = 0
        self._limit = options.max_num_queued_reqs
        self._clock = clock
        self._notify = notify

    def lease(self, job: Job) -> Lease:
        return Lease(self, job, self._clock)

    def overflows(self, n: int) -> bool:
        """Whether `--max-num-queued-reqs` refuses n more; it counts what runs as well as what waits."""
        return self._limit is not None and self.running + self.waiting + n > self._limit

    def admit_now(self, lease: Lease) -> bool:
        if self.paused or self._queue or not self._fits(lease):
            return False
        self._start(lease)
        return True

    async def wait(self, lease: Lease) -> None:
        waiter = lease.waiter = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._queue, (lease.job.priority if self._by_priority else 0, self._arrivals, lease))
        lease.queued = True
        self.waiting += lease.places
        self._notify()
        try:
            await waiter
        except asyncio.CancelledError:
            if lease in self.leases:  # given a place in the same turn as it left
                self.leave(lease)
            elif lease.queued:
                self._forget(lease)
            raise

    def leave(self, lease: Lease) -> None:
        self.running -= lease.places
        self.leases.discard(lease)
        self.cache.release(lease.keys, lease.private, self._written(lease))
        self._dispatch()
        self._notify()

    def _written(self, lease: Lease) -> list[int]:
        """Keys of the blocks that the reply filled: a later turn of the conversation finds them."""
        if not lease.written:
            return []
        done = len(lease.keys) * self.block_size * TOKEN_BYTES
        above = lease.keys[-1] if lease.keys else hash(lease.job.root)
        return block_keys(lease.job.prompt[done:] + lease.written, self.block_size, above)

    def _forget(self, lease: Lease) -> None:
        self._queue = [entry for entry in self._queue if entry[2] is not lease]
        heapq.heapify(self._queue)
        lease.queued = False
        self.waiting -= lease.places
        self._dispatch()
        self._notify()

    def sleep(self, mode: str = "abort") -> None:
        self.sleeping = True
        self.pause()
        if mode == "abort":
            for lease in self.leases:
                lease.aborted = True
        self.cache.reset()
        self._notify()

    def wake_up(self) -> None:
        self.sleeping = False
        self.resume()

    def pause(self) -> None:
        """No token is made and nothing is admitted; unlike one that sleeps, the server says nothing of it."""
        self.paused = True
        self.going.clear()

    def resume(self) -> None:
        self.paused = False
        self.going.set()
        self._dispatch()
        self._notify()

    def _fits(self, lease: Lease) -> bool:
        """Pins the lease's blocks when it fits, and tells it how much of its prompt was there already."""
        if self.running + lease.places > self.max_num_seqs:
            return False
        found = self.cache.match(lease.keys)
        if not self.cache.take(lease.keys, lease.private):
            return False
        lease.cached_tokens = min(found, (lease.prompt_tokens - 1) // self.block_size) * self.block_size
        self.cache.queries += lease.prompt_tokens
        self.cache.hits += lease.cached_tokens
        return True

    def _start(self, lease: Lease) -> None:
        self.running += lease.places
        self.leases.add(lease)
        self._notify()

    def _dispatch(self) -> None:
        while self._queue and not self.paused:
            lease = self._queue[0][2]
            gone = lease.waiter is None or lease.waiter.done()
            if not gone and not self._fits(lease):
                return
            heapq.heappop(self._queue)
            lease.queued = False
            self.waiting -= lease.places
            if not gone and lease.waiter is not None:
                self._start(lease)
                lease.waiter.set_result(None)
