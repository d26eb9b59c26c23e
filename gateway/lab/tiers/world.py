"""Two pools in virtual time. What decides is the product's: `decide`, conversations in a table, loads on a page, queues."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from gateway.dispatch.types import Lane
from gateway.lab.fleet.costs import Costs, Setting, Shape
from gateway.lab.fleet.engine import Engine, Run
from gateway.lab.fleet.front import Front
from gateway.lab.fleet.job import Job
from gateway.lab.fleet.policies import BY_NAME
from gateway.lab.simulate.timeline import Timeline
from gateway.lab.tiers.work import Piece
from gateway.loads import EVERY, SIZE, Page, PageLoads
from limits.entry import Entry
from limits.slots import Scheduler
from limits.waiting import Order, Priority, QueueBounds, SlotAsk, Spent
from routing.aims import Aim, Told
from routing.decide import decide
from routing.load import OFF, LoadRules
from routing.recent import Recent
from routing.sessions import Held, Sticky
from routing.share import Share
from routing.table import Record, Table
from routing.types import Decision, Model, Needs, Resolution, Target, Verdict

TIERS = ("small", "large")
_FOREVER = 1e12
_ENDLESS = QueueBounds(10**9, 10**15, 10**15, (_FOREVER, _FOREVER, _FOREVER))
_WARM = 300.0
_OPEN = ("score", "default", "budget", "load")
_UNRATED = math.nextafter(0.5, 0.0)  # the score of who has none, as the product has it by default
_ORDER = Order(0.03, 512)
_COSTS, _SHAPE, _STICKY = Costs(), Shape(), Sticky()


@dataclass(frozen=True, slots=True)
class Fleet:
    """`slots` are of a replica. A dear engine takes `dear` times as long for everything as a cheap one."""

    small: int = 8
    large: int = 2
    slots: int = 32
    dear: float = 3.0
    costs: Costs = _COSTS
    shape: Shape = _SHAPE


@dataclass(frozen=True, slots=True)
class Policy:
    """`tier`: all go there. `sticky` None: each turn stands for itself. `chance`: as much spills, but near the cut or not."""

    name: str
    rules: LoadRules = OFF
    sticky: Sticky | None = _STICKY
    tier: str = ""
    chance: bool = False


class Pool:
    """One tier: its engines, and the product's queue in front of them."""

    def __init__(self, world: World, name: str, replicas: int, fleet: Fleet, factor: float, seed: int) -> None:
        costs = fleet.costs
        costs = Costs(*(factor * value for value in
                        (costs.prefill, costs.token, costs.square, costs.step, costs.request, costs.context)))  # fmt: skip
        timeline, self._world = world.timeline, world
        setting = Setting(replicas=replicas, slots=fleet.slots, costs=costs, shape=fleet.shape)
        self.engines = {f"{name}{number}": Engine(timeline, costs, fleet.shape, self, _deaf) for number in range(replicas)}
        self.front = Front(timeline, setting, self.engines, BY_NAME["work_cost"], seed)
        self.scheduler = Scheduler(_ENDLESS, replicas * fleet.slots, timeline.clock, _ORDER)
        self.lane = Lane(name, self.front.pool, self.scheduler)
        self._entries: dict[int, Entry] = {}
        self.busy = 0.0  # seconds of all its slots

    def ask(self, job: Job) -> None:
        ask = SlotAsk(Priority.STANDARD, "all", 1, 1, _FOREVER, 1, prompt=job.prompt)
        ask.form = "chat"
        ask.output = self.scheduler.predictor.predict(ask)
        if not self.scheduler.full:
            self.begin(job, self.scheduler.take(ask))
        else:
            guest = _Guest(self, job)
            guest.entry = self.scheduler.join(ask, guest)

    def begin(self, job: Job, entry: Entry) -> None:
        self._entries[job.number] = entry
        self._world.begins[job.number] = self.timeline.now
        self.engines[self.front.send(job, job.prompt)].submit(job)

    def first_token(self, run: Run) -> None:
        self._world.first[run.job.number] = self.timeline.now
        self.front.first_token(run.job)

    def ended(self, run: Run) -> None:
        job, world = run.job, self._world
        self.front.ended(job)
        self.busy += self.timeline.now - world.begins[job.number]
        world.left -= 1
        world.over = self.timeline.now
        self.scheduler.settle(self._entries.pop(job.number), Spent(job.prompt, job.output, whole=True))
        self.scheduler.release()

    @property
    def timeline(self) -> Timeline:
        return self._world.timeline


class _Guest:
    """One request in line; as much of a future as it needs."""

    __slots__ = ("_job", "_pool", "_told", "entry")

    def __init__(self, pool: Pool, job: Job) -> None:
        self._pool = pool
        self._job = job
        self._told = False
        self.entry: Entry | None = None

    def done(self) -> bool:
        return self._told

    def set_result(self, _result: None, /) -> None:
        self._told = True
        assert self.entry is not None
        self._pool.begin(self._job, self.entry)

    def get_loop(self) -> Timeline:
        return self._pool.timeline


class World:
    """Serves `pieces`, in the order of their times; `share` of them may go to the large pool, `prior` are scores to begin with.

    Afterwards `first` and `begins` are times of each job's first token and slot,
    `tiers` and `decisions` what was decided; NaN and None for those in `refused`, which fit into no engine.
    """

    def __init__(
        self, pieces: Sequence[Piece], policy: Policy, fleet: Fleet, share: float, prior: Sequence[float], seed: int = 0
    ) -> None:
        self.timeline = Timeline()
        self.pieces = pieces
        self.policy = policy
        self._share = Share(Aim("large", share), prior, _UNRATED)
        self._recent = Recent()
        self._draw = random.Random(f"{seed} draw").random
        self.begins = [math.nan] * len(pieces)
        self.first = [math.nan] * len(pieces)
        self.decisions: list[Decision | None] = [None] * len(pieces)
        self.refused: list[int] = []
        self.left = len(pieces)
        self.over = 0.0  # when the last one ended; afterwards only timers run out
        self.pools = {
            "small": Pool(self, "small", fleet.small, fleet, 1.0, seed),
            "large": Pool(self, "large", fleet.large, fleet, fleet.dear, seed + 1),
        }
        lanes, memory = {name: pool.lane for name, pool in self.pools.items()}, bytearray(SIZE)
        self._page = Page(memory, lanes, self.timeline.clock)
        self._loads = PageLoads(memory, list(lanes), self.timeline.clock)
        self._table = Table(bytearray(1 << 22), frozenset(TIERS))
        targets = tuple(Target(tier, Model(tier, tier, tier), tier) for tier in TIERS)
        self._resolution = Resolution("auto", None, targets, auto=True)

    def run(self) -> None:
        """Until all are served."""
        if self.pieces:
            self.timeline.at(0.0, self._write)
            self.timeline.at(self.pieces[0].job.at, partial(self._come, 0))
        self.timeline.run()

    def _write(self) -> None:
        """As a dispatcher does."""
        self._page.write()
        if self.left:
            self.timeline.at(self.timeline.now + EVERY, self._write)

    def _come(self, number: int) -> None:
        if number + 1 < len(self.pieces):
            self.timeline.at(self.pieces[number + 1].job.at, partial(self._come, number + 1))
        piece = self.pieces[number]
        if not all(engine.fits(piece.job) for pool in self.pools.values() for engine in pool.engines.values()):
            self.refused.append(number)
            self.left -= 1
            return
        decision = self.decisions[number] = self._decide(piece)
        self.pools[decision.target.name].ask(piece.job)

    def _decide(self, piece: Piece) -> Decision:
        policy, cut = self.policy, self._share.cut(self._draw)
        decision = decide(
            self._resolution,
            Needs(frozenset(), piece.job.prompt),
            lambda: Verdict(piece.score),
            override=policy.tier or None,
            default_tier="large",
            cut=cut,
            order=TIERS,
            fallback={},
            talk=partial(self._held, piece),
            sticky=policy.sticky or _STICKY,
            load=self._loads.at(Priority.STANDARD),
            rules=policy.rules,
            near=self._near,
        )
        if decision.wanted == "large" and decision.score is not None:
            self._recent.add(decision.score)
        up = (decision.wanted if decision.move else decision.target.name) == "large"
        self._share.tell(Told(up, decision.reason in _OPEN, decision.score))
        read = piece.job.prompt if decision.target.name == decision.keeps else 0
        record = Record(b"ask-none", decision.keeps, decision.target.name, decision.easy, read, self.timeline.now)
        self._table.put(_name(piece), "all", record)
        return decision

    def _near(self, tier: str, share: float) -> float | None:
        if tier != "large":
            return None
        if self.policy.chance:
            return math.inf if self._draw() < share else None
        return self._recent.near(share)

    def _held(self, piece: Piece) -> Held | None:
        if self.policy.sticky is None or not piece.later:
            return None
        last = self._table.get(_name(piece))
        if last is None:
            return None
        cost = last.tokens if self.timeline.now - last.at < _WARM else 0
        return Held(last.tier, "", last.easy, cost)


def _name(piece: Piece) -> bytes:
    return (piece.talk + 1).to_bytes(8, "little") * 2


def _deaf(_seconds: float, _tokens: int) -> None:
    """Nobody asks for the time between tokens here."""
