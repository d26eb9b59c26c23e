"""An engine as vLLM schedules, in virtual time: steps, seats, a KV cache, preemption.

Rules of this file
- In a step each running request makes a token, and prompts are computed, first come first served, up to a budget of tokens.
  A step takes `base` seconds, `per_seat` for each token that it makes and `per_token` for each of a prompt.
- A request gets a seat when one is free and its prompt fits into the KV cache. What its answer will need is not set aside.
- When a step finds the KV cache full, those that came last are preempted: they wait first in line, and all that they had is
  computed again.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from backends.engine import EngineView
from gateway.lab.simulate.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Build:
    """An engine's size and speed; `seats` is max_num_seqs, `budget` max_num_batched_tokens."""

    name: str
    seats: int
    kv_tokens: int
    base: float
    per_seat: float
    per_token: float = 0.00005
    budget: int = 2048


@dataclass(slots=True, eq=False)
class Run:
    """One request in the engine. `made` tokens of its answer were told; `last` is the step that makes its last one."""

    prompt: int
    output: int
    first: Callable[[], None]
    over: Callable[[], None]
    came: float
    made: int = 0
    compute: int = 0  # tokens of it that are still to be computed, before it makes one
    began: int = -1  # the step before the one that made its first token, since it was seated
    size: int = 0  # of what it holds in the KV cache when it begins
    epoch: int = 0  # how often it was seated


class Engine:
    """`preemptions` and `waited` (seconds in its own queue, of all requests together) are counted from the start."""

    def __init__(self, build: Build, timeline: Timeline) -> None:
        self.build = build  # another one may be put in its place: then it tells the old size of its KV cache all the same
        self._told = build.kv_tokens
        self._timeline = timeline
        self._waiting: deque[Run] = deque()
        self._computing: deque[Run] = deque()
        self._making: dict[Run, None] = {}  # in the order in which they began
        self._ends: list[tuple[int, int, int, Run]] = []
        self._seq = 0
        self._step = 0
        self._held = 0
        self._asleep = True
        self.preemptions = 0
        self.waited = 0.0

    def submit(self, prompt: int, output: int, first: Callable[[], None], over: Callable[[], None]) -> None:
        """`first` is called with the first token, `over` with the last."""
        self._waiting.append(Run(prompt, max(1, output), first, over, self._timeline.now))
        if self._asleep:
            self._asleep = False
            self._timeline.at(self._timeline.now, self._begin_step)

    def view(self) -> EngineView:
        running = len(self._making) + len(self._computing)
        usage = min(1.0, self._held / self.build.kv_tokens)
        return EngineView(running, len(self._waiting), self.preemptions, usage, self._told)

    def _begin_step(self) -> None:
        self._make_room()
        computed = self._compute()
        making = len(self._making)
        if not making and not computed:
            self._asleep = True
            return
        build = self.build
        seconds = build.base + build.per_seat * making + build.per_token * computed
        self._timeline.at(self._timeline.now + seconds, self._end_step)

    def _make_room(self) -> None:
        """For one token of each."""
        while self._held + len(self._making) > self.build.kv_tokens and len(self._making) + len(self._computing) > 1:
            run = self._computing.pop() if self._computing else self._making.popitem()[0]
            if run.began >= 0:
                made = self._step - run.began
                run.made += made
                self._held -= run.size + made
                run.began = -1
            else:
                self._held -= run.size
            run.epoch += 1
            run.came = self._timeline.now
            self._waiting.appendleft(run)
            self.preemptions += 1

    def _compute(self) -> int:
        left = self.build.budget - len(self._making)
        computed = 0
        for run in list(self._computing):
            part = min(run.compute, max(0, left - computed))
            run.compute -= part
            computed += part
        while self._waiting and computed < left and self._has_room(self._waiting[0]):
            run = self._waiting.popleft()
            self.waited += self._timeline.now - run.came
            run.size = run.prompt + run.made
            self._held += run.size
            part = min(run.size, left - computed)
            run.compute = run.size - part
            computed += part
            self._computing.append(run)
        return computed

    def _has_room(self, run: Run) -> bool:
        running = len(self._making) + len(self._computing)
        fits = self._held + run.prompt + run.made + running < self.build.kv_tokens
        return running < self.build.seats and (fits or not running)

    def _end_step(self) -> None:
        self._step += 1
        self._held += len(self._making)
        told = []
        while self._computing and not self._computing[0].compute:
            run = self._computing.popleft()
            run.began = self._step - 1  # the step that ends a prompt makes the first token
            self._held += 1
            self._making[run] = None
            self._seq += 1
            heapq.heappush(self._ends, (self._step + run.output - run.made - 1, self._seq, run.epoch, run))
            if not run.made:
                told.append(run.first)
        while self._ends and self._ends[0][0] <= self._step:
            _, _, epoch, run = heapq.heappop(self._ends)
            if epoch == run.epoch:
                del self._making[run]
                self._held -= run.size + self._step - run.began
                told.append(run.over)
        for tell in told:
            tell()
        self._begin_step()
