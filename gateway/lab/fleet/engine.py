"""An engine in virtual time: continuous batching, chunked prefill, a prefix cache. Nothing of it is random.

Rules:
1. In each step every request that decodes gets one token. What the step's budget of tokens leaves goes to prompts, in the order
   in which they came; a prompt's first token comes with the end of the step that computes its last piece.
2. A request begins when there is a seat, and room in the KV memory for its prompt and all of its answer: none is ever preempted.
   Who came first begins first; those behind wait, whether they would fit or not.
3. Prompt blocks that are cached when a request begins are not computed again, but the last token of a prompt always is.
4. Steps without prompts in them are one event, until somebody ends or comes: an engine that only decodes costs nearly nothing.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.lab.fleet.blocks import Blocks
from gateway.lab.fleet.costs import Costs, Shape
from gateway.lab.fleet.job import Job
from gateway.lab.simulate.timeline import Due, Timeline


class Teller(Protocol):
    """Who hears what becomes of requests."""

    def first_token(self, run: Run) -> None: ...

    def ended(self, run: Run) -> None: ...


class Run:
    """One request in an engine."""

    __slots__ = ("cached", "came", "done", "first", "fresh", "job", "last", "learned", "shared")

    def __init__(self, job: Job, came: float) -> None:
        self.job = job
        self.came = came
        self.first = self.last = came
        self.cached = 0  # tokens
        self.done = 0  # tokens of the prompt
        self.shared = 0  # blocks with a key that it found here
        self.fresh = 0  # blocks that it was given anew
        self.learned = 0  # blocks with a key that it holds, of those that it found and those that it computed


Gaps = Callable[[float, int], None]  # so many tokens came so many seconds after the one before


class Engine:
    def __init__(self, timeline: Timeline, costs: Costs, shape: Shape, teller: Teller, gaps: Gaps) -> None:
        self.timeline = timeline
        self.blocks = Blocks(shape.blocks)
        self.prefilling = 0.0  # seconds
        self.computed = 0  # tokens of prompts
        self.waiting: deque[Run] = deque()
        self._costs = costs
        self._shape = shape
        self._teller = teller
        self._gaps = gaps
        self._prefills: deque[Run] = deque()
        self._ends: list[tuple[int, int, Run]] = []  # decoding: by the step that brings the last token
        self._context = 0  # tokens of those that decode
        self._steps = 0  # of decoding, so far
        self._seq = 0
        self._due: Due | None = None
        self._reading: float | None = None  # when the step under way began, where there are prompts in it
        self._cruise: tuple[float, int] | None = None  # when the steps under way began, and how many there are

    @property
    def running(self) -> int:
        return len(self._prefills) + len(self._ends)

    def submit(self, job: Job) -> Run:
        run = Run(job, self.timeline.now)
        self.waiting.append(run)
        if self._due is None:
            self._go()
        elif self._cruise is not None and self._room():
            self._cut_short()
        return run

    def fits(self, job: Job) -> bool:
        return self._need(job) <= self._shape.blocks

    def cached(self, keys: Sequence[int], prompt: int) -> int:
        """Tokens of a prompt that would not be computed again, if it began now."""
        return self.blocks.known(keys[: (prompt - 1) // self._shape.block]) * self._shape.block

    def backlog(self) -> float:
        """Seconds of prefill that are to be done, as nobody outside can know them."""
        costs = self._costs
        seconds = sum(costs.piece(run.done, run.job.prompt) + costs.prefill * (run.done == run.cached) for run in self._prefills)
        seconds += sum(costs.alone(run.job.prompt, self.cached(run.job.keys, run.job.prompt)) for run in self.waiting)
        return seconds if self._reading is None else max(0.0, seconds - (self.timeline.now - self._reading))

    def _need(self, job: Job) -> int:
        return -(-(job.prompt + job.output) // self._shape.block)

    def _go(self) -> None:
        """Begin the next step, or several, if there is anything to do."""
        pieces = self._pieces()
        decoding, context = len(self._ends), self._context
        if pieces:
            seconds = self._costs.decode(decoding, context) if decoding else 0.0
            prefill = sum(
                self._costs.piece(run.done, end) + self._costs.prefill * (run.done == run.cached) for run, end in pieces
            )
            self.prefilling += prefill
            self._reading = self.timeline.now
            seconds += prefill
            self._due = self.timeline.at(self.timeline.now + seconds, lambda: self._step(pieces, seconds))
        elif decoding:
            self._cruise_for(self._ends[0][0] - self._steps)
        else:
            self._due = None

    def _pieces(self) -> list[tuple[Run, int]]:
        """Prompts of the next step, and up to which token each will be computed."""
        budget = self._shape.chunk - len(self._ends)
        pieces: list[tuple[Run, int]] = []
        for run in self._prefills:
            if budget <= 0:
                return pieces
            end = min(run.job.prompt, run.done + budget)
            budget -= end - run.done
            pieces.append((run, end))
        while budget > 0 and self.waiting and self._begin(self.waiting[0]):
            run = self.waiting.popleft()
            self._prefills.append(run)
            end = min(run.job.prompt, run.done + budget)
            budget -= end - run.done
            pieces.append((run, end))
        return pieces

    def _room(self) -> bool:
        return len(self._ends) + len(self._prefills) < self._shape.seats

    def _begin(self, run: Run) -> bool:
        job = run.job
        if not self._room():
            return False
        shared = self.cached(job.keys, job.prompt) // self._shape.block
        fresh = self._need(job) - shared
        if not self.blocks.take(job.keys[:shared], fresh):
            return False
        run.shared = run.learned = shared
        run.fresh = fresh
        run.cached = run.done = shared * self._shape.block
        return True

    def _step(self, pieces: list[tuple[Run, int]], seconds: float) -> None:
        """The end of one with prompts in it."""
        self._reading = None
        self._decoded(1, seconds)
        for run, end in pieces:
            self.computed += end - run.done
            run.done = end
            self._learn(run)
        while self._prefills and self._prefills[0].done == self._prefills[0].job.prompt:
            self._first_token(self._prefills.popleft())
        self._go()

    def _learn(self, run: Run) -> None:
        full = min(run.done // self._shape.block, len(run.job.keys))
        if full > run.learned:
            self.blocks.learn(run.job.keys[run.learned : full])
            run.learned = full

    def _first_token(self, run: Run) -> None:
        run.first = self.timeline.now
        self._teller.first_token(run)
        if run.job.output == 1:
            self._end(run)
            return
        self._seq += 1
        self._context += run.job.prompt + 1
        heapq.heappush(self._ends, (self._steps + run.job.output - 1, self._seq, run))

    def _cruise_for(self, steps: int) -> None:
        seconds = self._costs.decode(len(self._ends), self._context, steps)
        self._cruise = self.timeline.now, steps
        self._due = self.timeline.at(self.timeline.now + seconds, lambda: self._arrive(steps, seconds))

    def _cut_short(self) -> None:
        """Somebody came: the step under way is the last of these."""
        assert self._cruise is not None
        assert self._due is not None
        began, steps = self._cruise
        elapsed = self.timeline.now - began
        low, high = 1, steps  # the least number of steps that are not over before now
        while low < high:
            middle = (low + high) // 2
            if self._costs.decode(len(self._ends), self._context, middle) < elapsed:
                low = middle + 1
            else:
                high = middle
        seconds = self._costs.decode(len(self._ends), self._context, low)
        self._due.cancel()
        self._due = self.timeline.at(began + seconds, lambda: self._arrive(low, seconds))
        self._cruise = began, low

    def _arrive(self, steps: int, seconds: float) -> None:
        self._cruise = None
        self._decoded(steps, seconds)
        self._go()

    def _decoded(self, steps: int, seconds: float) -> None:
        decoding = len(self._ends)
        if not decoding:
            return
        self._gaps(seconds / steps, steps * decoding)
        self._steps += steps
        self._context += steps * decoding
        while self._ends and self._ends[0][0] <= self._steps:
            run = heapq.heappop(self._ends)[2]
            self._context -= run.job.prompt + run.job.output
            self._end(run)

    def _end(self, run: Run) -> None:
        run.last = self.timeline.now
        self.blocks.leave(run.job.keys[: run.learned], run.shared + run.fresh - run.learned)
        self._teller.ended(run)
