"""Beginnings of prompts that a replica is made to read before it serves, so that no client waits for them.

Rules of this file
1. A replica is due when it has lost what it had: it was down, joined at run time, was started anew, woke up, or its cache was
   found empty. Being due costs nothing while nothing is to be read.
2. One that does not serve yet is kept out while it reads, for `timeout` at most. Where nobody else of its pool is ready it is
   kept out for five seconds at most, and reads on beside its first requests.
3. One that serves already is not taken out. It reads beside its requests, one prompt at a time, each as soon as nobody waits for
   a first token there and at most a quarter of its slots are taken; what had no such moment within `timeout` is left out. It does
   so once in a minute at most.
4. One after the other, in the order given, until `max_tokens` have been computed: what the replica still had costs nothing. A
   prompt that would go beyond is left out, and shorter ones behind it are not.
5. Three failures in a row end it. Nothing that fails here takes a replica down, trips a breaker or moves a count of requests.
6. What is sent and answered is never logged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import msgspec

from backends.client import Deadlines
from backends.errors import UpstreamError
from backends.kept import Kept, read_kept
from backends.replica import Replica

_log = logging.getLogger("tiergate.prewarm")

ALONE = 5.0  # seconds that a pool without anybody else waits
_MAX_ANSWER = 1024 * 1024
_FAILURES = 3
_BYTES_PER_TOKEN = 3  # of a prompt that no engine has counted yet: rather too many tokens than too few
_LOOK = 0.05  # seconds between two looks at a replica that is busy
_TEMPLATE = 4096  # tokens that a chat template may add; a prompt has no more of its own than bytes
_AGAIN = 60.0  # seconds after it has read, in which a replica that did not go down meanwhile does not read again

State = Literal["due", "reading", "warm", "partly", "failed"]
RESULTS = ("computed", "cached", "skipped", "failed")


@dataclass(slots=True, eq=False)
class Prompt:
    """A request whose answer is of no interest. `tokens`: of its prompt, as an engine counted them; 0: not yet."""

    path: str
    body: bytes = field(repr=False)
    chain: object = field(default=None, repr=False)  # for who keeps an index
    tokens: int = 0

    @property
    def likely(self) -> int:
        return self.tokens or max(1, len(self.body) // _BYTES_PER_TOKEN)


@dataclass(slots=True)
class Warmth:
    """What became of it, of one replica. `seconds`: how long it took."""

    state: State
    prompts: int = 0
    read: int = 0
    computed: int = 0
    cached: int = 0
    skipped: int = 0
    failed: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class _Run:
    began: float
    limit: asyncio.Timeout | None = None  # while it reads


class Warmed(Protocol):
    """Hears of each prompt that a replica has read."""

    def __call__(self, replica: str, prompt: Prompt, /) -> None: ...


class Members(Protocol):
    """What is needed of a pool."""

    name: str
    replicas: tuple[Replica, ...]

    def ready(self) -> list[Replica]: ...


class NoPrewarm:
    """Nothing is to be read."""

    watches = False  # whether it reads the engines' metrics

    @property
    def totals(self) -> dict[str, int]:
        """Tokens, by what became of them."""
        return dict.fromkeys(RESULTS, 0)

    def warmth(self) -> dict[str, Warmth]:
        """By replica, of those of which there is something to say."""
        return {}

    def mark(self, replica: Replica) -> None:
        """It may have lost what it had."""

    def due(self, replica: Replica) -> bool:  # noqa: ARG002 - as the other kind
        return False

    def holds(self, replica: Replica) -> bool:  # noqa: ARG002 - as the other kind
        """Whether it should not serve yet."""
        return False

    def begin(self, replica: Replica) -> None:
        """`run` follows, at once or after a look at the replica's metrics."""

    async def run(self, replica: Replica) -> None:
        """Let it read. Raises nothing."""


class Prewarm(NoPrewarm):
    """One pool's. `prompts` are asked for each time, the most wanted first."""

    watches = True

    def __init__(
        self,
        pool: Members,
        prompts: Callable[[], Sequence[Prompt]],
        *,
        max_tokens: int,
        timeout: float,
        warmed: Warmed = lambda _replica, _prompt: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._prompts = prompts
        self._max_tokens = max_tokens
        self._timeout = timeout
        self._warmed = warmed
        self._clock = clock
        self._due: set[Replica] = set()
        self._runs: dict[Replica, _Run] = {}
        self._kept: dict[Replica, Kept] = {}
        self._last: dict[Replica, Warmth] = {}
        self._ended: dict[Replica, float] = {}
        self._totals = dict.fromkeys(RESULTS, 0)

    @property
    def totals(self) -> dict[str, int]:
        return dict(self._totals)

    def mark(self, replica: Replica) -> None:
        self._due.add(replica)
        run = self._runs.get(replica)
        if run is not None and run.limit is not None and not run.limit.expired():  # it reads for nothing
            run.limit.reschedule(0)

    def lost(self, name: str) -> None:
        """The cache of the replica of that name was found empty."""
        for replica in self._pool.replicas:
            if replica.name == name:
                self._found(replica)

    def due(self, replica: Replica) -> bool:
        """Asked of one that is well. Where nothing is to be read it is due no more."""
        if replica in self._due and replica not in self._runs and not self._prompts():
            self._due.discard(replica)
        return replica in self._due and replica not in self._runs

    def holds(self, replica: Replica) -> bool:
        run = self._runs.get(replica)
        if run is None:
            return False
        others = any(other is not replica for other in self._pool.ready())
        return self._clock() - run.began < (self._timeout if others else min(self._timeout, ALONE))

    def scraped(self, replica: Replica, page: bytes) -> None:
        """What its server tells of itself."""
        now, before = read_kept(page), self._kept.get(replica)
        self._kept[replica] = now
        if before is not None and (now.newer(before) or (before.asleep and not now.asleep)):
            self._found(replica)

    def _found(self, replica: Replica) -> None:
        """Its cache is gone. Several engines behind one address look so all the time."""
        ended = self._ended.get(replica)
        if replica not in self._runs and (ended is None or self._clock() - ended >= _AGAIN):
            self.mark(replica)

    def left(self, replica: Replica) -> None:
        for known in (self._kept, self._last, self._ended, self._runs):
            known.pop(replica, None)
        self._due.discard(replica)

    def warmth(self) -> dict[str, Warmth]:
        told = {replica.name: warmth for replica, warmth in self._last.items()}
        told |= {replica.name: Warmth("due") for replica in self._due if replica in self._pool.replicas}
        return told | {replica.name: Warmth("reading") for replica in self._runs}

    def begin(self, replica: Replica) -> None:
        self._due.discard(replica)
        self._runs[replica] = _Run(self._clock())

    async def run(self, replica: Replica) -> None:
        run = self._runs.get(replica)
        if run is None:
            return  # it has left
        left = list(self._prompts())
        done = Warmth("warm", len(left))
        try:
            async with asyncio.timeout(max(0.0, run.began + self._timeout - self._clock())) as run.limit:
                await self._read(replica, left, done, beside=replica.up)
        except TimeoutError:
            done.state = "partly"
        except Exception as error:  # noqa: BLE001 - an edge: a fault here must not end the watch over all replicas
            done.state = "failed"
            _log.error("%s/%s: reading prompts ahead ended with %s", self._pool.name, replica.name, type(error).__name__)
        finally:
            run.limit = None
            self._runs.pop(replica, None)
        done.skipped += sum(prompt.likely for prompt in left)
        done.seconds = self._clock() - run.began
        for result in RESULTS:
            self._totals[result] += getattr(done, result)
        if done.failed and not done.read:
            done.state = "failed"
        elif done.failed or done.skipped:
            done.state = "partly"
        if replica in self._pool.replicas:
            self._last[replica] = done
            self._ended[replica] = self._clock()
        if done.prompts:
            self._tell(replica, done)

    async def _read(self, replica: Replica, left: list[Prompt], done: Warmth, *, beside: bool) -> None:
        """`left` keeps what was not come to."""
        failures = 0
        while left and failures < _FAILURES and replica in self._pool.replicas:
            prompt = left[0]
            if done.computed + prompt.likely <= self._max_tokens:
                while (beside or replica.up) and not _idle(replica):  # noqa: ASYNC110 - nobody tells of a count that fell
                    await asyncio.sleep(_LOOK)
                counts = await self._ask(replica, prompt)
                if counts is None:
                    failures += 1
                    done.failed += prompt.likely
                else:
                    failures = 0
                    prompt.tokens, cached = counts
                    done.read += 1
                    done.cached += cached
                    done.computed += prompt.tokens - cached
                    if replica in self._pool.replicas:
                        self._warmed(replica.name, prompt)
            else:
                done.skipped += prompt.likely
            del left[0]

    async def _ask(self, replica: Replica, prompt: Prompt) -> tuple[int, int] | None:
        """Tokens of the prompt, and how many of them were cached; None: it failed."""
        head = b"POST %b%b%bcontent-type: application/json\r\naccept-encoding: identity\r\ncontent-length: %d\r\n\r\n" % (
            replica.path.encode(), prompt.path.encode(), replica.head_lines, len(prompt.body),
        )  # fmt: skip
        deadlines = Deadlines(self._timeout, None, None, asyncio.get_running_loop().time() + self._timeout)
        try:
            async with replica.client.request(head, prompt.body, deadlines) as answer:
                page = await answer.read(_MAX_ANSWER)
                return _counts(page, prompt) if 200 <= answer.status < 300 else None
        except UpstreamError:
            return None

    def _tell(self, replica: Replica, done: Warmth) -> None:
        level = logging.INFO if done.state == "warm" else logging.WARNING
        _log.log(
            level,
            "%s/%s has read %d of %d prompts ahead in %.1f s: %d tokens computed, %d cached, some %d left out, some %d failed",
            self._pool.name, replica.name, done.read, done.prompts, done.seconds, done.computed, done.cached, done.skipped,
            done.failed,
        )  # fmt: skip


def _idle(replica: Replica) -> bool:
    return not replica.pending and replica.inflight * 4 <= replica.slots


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


_read_answer = msgspec.json.Decoder(_Answer).decode


def _counts(page: bytes, prompt: Prompt) -> tuple[int, int]:
    """An answer that does not tell them has read the prompt all the same, all of it."""
    try:
        usage = _read_answer(page).usage
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        usage = None
    if usage is None or not 0 < usage.prompt_tokens <= len(prompt.body) + _TEMPLATE:
        return prompt.likely, 0
    details = usage.prompt_tokens_details
    cached = 0 if details is None or details.cached_tokens is None else details.cached_tokens
    return usage.prompt_tokens, min(max(0, cached), usage.prompt_tokens)
