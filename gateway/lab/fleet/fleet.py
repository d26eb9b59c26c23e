"""A fleet in virtual time: gateways, which are the product's, and engines that are simulated behind them.

As in the product: what a request is thought to find cached, and so the work that it adds, is decided when it is sent; the
first token and the end are heard of at once; a replica has so many slots, and who finds none waits in one line.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Sequence

from gateway.lab.fleet.costs import Setting
from gateway.lab.fleet.engine import Engine, Run
from gateway.lab.fleet.front import Front
from gateway.lab.fleet.job import Job
from gateway.lab.fleet.policies import Policy
from gateway.lab.fleet.rumour import Rumour
from gateway.lab.simulate.timeline import Timeline


class Fleet:
    """Serves `jobs`, which are in the order of their times.

    Afterwards `first` and `last` are the times of each job's first and last token, NaN for those in `refused`, which fit into no
    engine; `cached` are tokens found there, `place` the numbers of replicas; `gaps` are (seconds, tokens that came so late).
    """

    def __init__(self, jobs: Sequence[Job], policy: Policy, setting: Setting, seed: int = 0) -> None:
        self.timeline = Timeline()
        self.jobs = jobs
        self.first = [math.nan] * len(jobs)
        self.last = [math.nan] * len(jobs)
        self.cached = [0] * len(jobs)
        self.place = [-1] * len(jobs)
        self.refused: list[int] = []
        self.gaps: list[tuple[float, int]] = []
        self._wrong = _errors(len(jobs), setting.error, random.Random(seed))
        self.setting = setting
        names = [f"r{number}" for number in range(setting.replicas)]
        self._numbers = {name: number for number, name in enumerate(names)}
        self.engines = {name: Engine(self.timeline, setting.costs, setting.shape, self, self._gap) for name in names}
        count = 1 if policy.between == "one" else setting.gateways
        self.fronts = [Front(self.timeline, setting, self.engines, policy, seed + 1000 * number) for number in range(count)]
        self._asked = random.Random(f"{seed} gateways").choices(self.fronts, k=len(jobs))
        self._left = len(jobs)
        if count > 1 and policy.between != "apart":
            rumour = Rumour(self.timeline, self.fronts, setting.tell, self._busy)
            rumour.begin() if policy.between == "shared" else rumour.glimpses()
        self._free = setting.replicas * setting.slots
        self._line: deque[Job] = deque()

    def run(self) -> None:
        """Until all are served."""
        if self.jobs:
            self.timeline.at(self.jobs[0].at, lambda: self._come(0))
        self.timeline.run()

    def _busy(self) -> bool:
        return self._left > 0

    def _come(self, number: int) -> None:
        if number + 1 < len(self.jobs):
            self.timeline.at(self.jobs[number + 1].at, lambda: self._come(number + 1))
        job = self.jobs[number]
        if not self._fits(job):
            self.refused.append(number)
            self._left -= 1
        elif self._free:
            self._send(job)
        else:
            self._line.append(job)

    def _send(self, job: Job) -> None:
        tokens = max(1, round(job.prompt * self._wrong[job.number]))
        name = self._asked[job.number].send(job, tokens)
        self._free -= 1
        self.place[job.number] = self._numbers[name]
        self.engines[name].submit(job)

    def _fits(self, job: Job) -> bool:
        return all(engine.fits(job) for engine in self.engines.values())

    def first_token(self, run: Run) -> None:
        number = run.job.number
        self.first[number] = self.timeline.now
        self.cached[number] = run.cached
        self._asked[number].first_token(run.job)

    def ended(self, run: Run) -> None:
        number = run.job.number
        self.last[number] = self.timeline.now
        self._asked[number].ended(run.job)
        self._left -= 1
        self._free += 1
        if self._line:
            self._send(self._line.popleft())

    def _gap(self, seconds: float, tokens: int) -> None:
        self.gaps.append((seconds, tokens))


def _errors(count: int, sigma: float, rng: random.Random) -> list[float]:
    """What estimates are off by: a request's own, whoever chooses."""
    return [math.exp(rng.gauss(0.0, sigma)) if sigma else 1.0 for _ in range(count)]
