"""The same requests before the same owner: in one process, or over workers' links. Time is an argument, and so is chance."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends.balance import make_balance
from backends.types import Outcome
from caches.flight import Flight, Flights, Orphaned
from caches.types import Entry
from gateway.build.owner import Owner, build_owner, replica_maker
from gateway.config import Config, parse
from gateway.dispatch.channel import listen
from gateway.dispatch.front import Front
from gateway.dispatch.link import Link
from gateway.dispatch.node import Node
from gateway.dispatch.roster import Replicas
from gateway.dispatch.types import Dispatcher, Grant, NoReplica, Question, Ticket, WorkAsk, WorkScope
from gateway.refusals import PERSONAL
from limits.slots import Scheduler
from limits.types import LimitExceeded, Scope, Standing
from limits.vault import Vault
from limits.waiting import Priority, QueueFull, QueueTimeout

MODELS = ("turns", "least", "quick", "sticky", "counted")
CONFIG = """
models:
  - {name: turns, balance: {kind: round_robin}, concurrency: {max: 1}, replicas: [%(two)s]}
  - {name: least, balance: {kind: least_requests}, concurrency: {max: 2}, replicas: [%(three)s]}
  - {name: quick, balance: {kind: least_latency}, concurrency: {max: 1}, replicas: [%(three)s]}
  - {name: sticky, balance: {kind: consistent_hash}, concurrency: {max: 1}, replicas: [%(three)s]}
  - {name: counted, balance: {kind: least_requests}, concurrency: {max: 3, tokens: 900}, replicas: [%(two)s]}
queue:
  {max_requests: 4, max_wait: {realtime: 30s, standard: 40s, batch: 50s}, preempt: {kind: requeue, within: 4s}}
breaker: {failures: 2, open: 5s, max_open: 20s}
tenants:
  - {name: acme, reserved: {least: {slots: 2}, turns: {slots: 1}}}
  - {name: globex, reserved: {least: {tpm: 3000}, quick: {slots: 1, tpm: 500}}}
""" % {count: ", ".join(f'{{name: r{n}, url: "http://127.0.0.1:9/r{n}"}}' for n in range(number))
       for count, number in (("two", 2), ("three", 3))}  # fmt: skip
PLAN = Scope("plan:pro", "plan", 40, 19000, 14, "pro")
SCOPES = {
    "acme": (Scope("key:a", "key", 29, None, 9, "a"), Scope("tenant:acme", "tenant", 30, 9000, None, "acme"), PLAN),
    "initech": (Scope("tenant:initech", "tenant", 40, 6000, None, "initech"),),  # its Ends wait for company
    "globex": (Scope("tenant:globex", "tenant", None, 2400, 8, "globex", 150.0), PLAN),
}
MODEL_SCOPES = {("acme", "turns"): Scope("acme:turns", "model", 12, 3000, 4, "acme turns", 150.0)}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class _Soonest(random.Random):
    """Who is refused is told the soonest time, in whatever order the refusals of one step come."""

    def random(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Wish:
    """What a request asks for. `content` 0 is no business of the cache; equal ones are the same request."""

    tenant: str
    model: str
    fallback: str | None
    content: int
    tokens: int
    clamp: bool
    priority: int
    patience: float
    share: bool

    @property
    def key(self) -> bytes | None:
        return b"%s %d" % (self.tenant.encode() + self.model.encode(), self.content) if self.content else None


class Unserved(Exception):
    pass


@dataclass
class Process:
    """What takes requests: one that is alone, or a worker."""

    dispatcher: Dispatcher
    flights: Flights = field(default_factory=lambda: Flights(personal=PERSONAL))


class Request:
    """One request, as the pipeline and the forwarder have it. Where they would hear of a replica it waits for `told`."""

    def __init__(self, world: World, number: int, wish: Wish, process: Process) -> None:
        self.world, self.number, self.wish, self.process = world, number, wish, process
        self.priority = Priority(wish.priority)
        self.waiting: WorkScope | None = None
        self.listens: asyncio.Future[tuple[str, int]] | None = None
        self.ask: WorkAsk | None = None
        self.ticket: Any = None
        self.charge = 0
        self.begun = self.ordered = False
        self.task = asyncio.get_running_loop().create_task(self._run())

    def say(self, *what: object) -> None:
        self.world.events.append((self.number, *what))

    def tell(self, verb: str, tokens: int) -> None:
        """How its attempt goes on. Nothing, where none runs."""
        if self.listens is not None and not self.listens.done():
            self.listens.set_result((verb, tokens))

    async def _run(self) -> None:
        wish = self.wish
        question = Question(
            lookup=wish.key, share=wish.key if wish.share else None, stream=False, first=lambda: self._ask(wish.model)
        )
        admit = self.process.dispatcher.admit(SCOPES[wish.tenant], question)
        try:
            async with admit as ticket:
                self.ticket = ticket
                try:
                    await self._answer(ticket, question)
                except (QueueFull, QueueTimeout, NoReplica):
                    ticket.refund()
                    raise
        except asyncio.CancelledError:
            self.say("left")
        except LimitExceeded as error:
            figures = (error.resource, error.limit, error.used, error.requested, error.wait, error.never)
            self.say("limited", error.scope, *figures, _figures(admit.standing()))
        except QueueFull as error:
            self.say("full", error.tenant, error.retry_after, _figures(admit.standing()))
        except QueueTimeout as error:
            self.say("queued in vain", error.waited, _figures(admit.standing()))
        except (NoReplica, Unserved) as error:
            self.say(type(error).__name__)

    def _ask(self, model: str) -> WorkAsk:
        ask = self.ask
        if ask is None or ask.model != model:
            wish, scope = self.wish, MODEL_SCOPES.get((self.wish.tenant, model))
            deadline, session = self.world.clock() + wish.patience, f"s{wish.tokens % 4}"
            ask = self.ask = WorkAsk(
                model, wish.tokens, wish.clamp, scope, self.priority, wish.tenant, 1 + len(wish.tenant) % 2, 100 * wish.tokens,
                deadline, session, wish.tokens // 2,
            )  # fmt: skip
        return ask

    async def _answer(self, ticket: Ticket, question: Question) -> None:
        spent = False
        while True:
            entry = await ticket.look(question)
            if entry is not None:
                self._conclude(ticket, entry.prompt_tokens + entry.completion_tokens)
                self.say("hit", entry.id, entry.body, entry.generation, _figures(ticket.standing()))
                return
            if question.share is None:
                await self._produce(ticket)
                return
            assert ticket.elsewhere() is None, "identical requests come to the same worker here"
            try:
                async with self.process.flights.join(
                    question.share, stream=False, start=self._fly, priority=self.priority, on_raise=self.on_raise, spent=spent
                ) as seat:
                    self.say("leads" if seat.leader else "shares")
                    if not seat.leader:
                        ticket.follow()
                    await seat.whole()
                    if not seat.leader:
                        self._conclude(ticket, 7)
                    return
            except Orphaned as orphaned:
                spent, self.ask = orphaned.spent, None
                self.say("orphaned")

    def _conclude(self, ticket: Ticket, tokens: int) -> None:
        """What a hit costs: of some its tokens, of some no request, of some both."""
        wish = self.wish
        if wish.clamp or wish.tokens != 200:
            ticket.conclude(tokens if wish.tokens != 200 else 0, refund=wish.clamp)

    def on_raise(self, priority: int) -> None:
        self.priority = Priority(priority)
        if self.ask is not None:
            self.ask.priority = self.priority
        if self.waiting is not None:
            self.waiting.raise_priority(self.priority)

    async def _fly(self, flight: Flight) -> None:
        await self._produce(self.ticket)
        flight.begin(None)
        flight.write(b"answer", False)
        flight.end()

    async def _produce(self, ticket: Ticket) -> None:
        wish = self.wish
        for model in (wish.model, wish.fallback):
            if model is not None:
                try:
                    await self._serve(ticket, model)
                except (NoReplica, Unserved) as error:
                    self.say(type(error).__name__, model)
                except LimitExceeded as error:
                    if error.scope.kind != "model" or model == wish.fallback:
                        raise
                    self.say("limited on", model)
                else:
                    await self._store(ticket)
                    return
        raise Unserved

    async def _store(self, ticket: Ticket) -> None:
        wish, now = self.wish, self.world.clock()
        if wish.key is not None:
            body = b"%d" % self.number
            await ticket.store(
                Entry(wish.key.hex(), wish.key, wish.tenant, wish.model, "", "chat", body, now, now + 90.0, 3, wish.tokens)
            )

    async def _serve(self, ticket: Ticket, model: str) -> None:
        scope = self.waiting = ticket.work(self._ask(model))
        self.charge = 0
        async with scope as grant:
            self.waiting = None
            self.say("granted", grant.tokens, grant.queued, _figures(ticket.standing()))
            if await self._yields(grant):
                self.say("gave way")
                self.waiting = scope
                await grant.again()
                self.waiting = None
                self.say("granted again", grant.queued, _figures(ticket.standing()))
                await self._settled(grant)

    async def _settled(self, grant: Grant) -> None:
        try:
            await self._forward(grant)
        finally:
            if not self.ordered:
                grant.settle(self.charge)

    async def _yields(self, grant: Grant) -> bool:
        """As `gateway.giveway`: whether its slot was wanted back before its first byte."""
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()

        def order() -> bool:
            if self.begun or self.priority is not Priority.BATCH or task.cancelling() > cancelled:
                return False
            self.ordered = task.cancel()
            return self.ordered

        grant.lend(order)
        try:
            await self._settled(grant)
        except asyncio.CancelledError:
            if not self.ordered or task.uncancel() > cancelled:
                raise
            self.ordered = False
            return True
        except BaseException:
            grant.lend(None)
            raise
        grant.lend(None)
        return False

    async def _forward(self, grant: Grant) -> None:
        for _ in range(3):
            attempt = await grant.attempt()
            if attempt is None:
                break
            self.say("asks", attempt.replica.name)
            async with attempt:
                self.charge = grant.tokens // 2  # what it costs to leave now
                verb, tokens = await self._told()
                if verb == "first":
                    self.begun = True
                    attempt.first_byte()
                    self.charge = tokens
                    verb, tokens = await self._told()
                if verb in ("answered", "first"):
                    attempt.settle(Outcome.OK)
                    attempt.settle(Outcome.FAILED)  # the first word counts
                    self.charge = tokens
                    return
                self.charge = 0
                if verb == "refused":
                    attempt.settle(Outcome.NEUTRAL)
                elif verb == "later":
                    attempt.settle(Outcome.REFUSED, 1.0)
                elif verb in ("failed", "unreachable"):
                    attempt.settle(Outcome.FAILED)
                if verb == "unreachable":
                    attempt.suspect()
        raise Unserved

    async def _told(self) -> tuple[str, int]:
        self.listens = asyncio.get_running_loop().create_future()
        try:
            return await self.listens
        finally:
            self.listens = None


def _figures(standing: Standing) -> tuple[object, ...]:
    """Resets are seconds from arithmetic in another order: equal to a microsecond is equal."""
    return tuple(
        round(value, 6) if isinstance(value, float) else value
        for value in (
            standing.request_limit, standing.request_remaining, standing.request_reset,
            standing.token_limit, standing.token_remaining, standing.token_reset,
            standing.request_burst, standing.token_burst,
        )
    )  # fmt: skip


class World:
    """An owner, and who asks it."""

    def __init__(self, owner: Owner, clock: Clock) -> None:
        self.owner, self.clock = owner, clock
        self.processes: list[Process] = []
        self.requests: list[Request] = []
        self.events: list[tuple[object, ...]] = []
        self.settle: Callable[[], Any]
        self.restless: Callable[[], list[object]] = list
        self.suspects: list[str] = []
        for lane in owner.lanes.values():
            lane.pool.on_suspect(lambda replica: self.suspects.append(replica.name))

    def start(self, wish: Wish) -> Request:
        """Identical requests come to the same worker; what happens when they do not is told elsewhere."""
        which = wish.content or len(self.requests)
        request = Request(self, len(self.requests), wish, self.processes[which % len(self.processes)])
        self.requests.append(request)
        return request

    def expire(self) -> None:
        """The clock was moved: whatever is due is due now. The loop's own timers are far off."""
        loop = asyncio.get_running_loop()
        for lane in self.owner.lanes.values():
            scheduler: Scheduler = lane.scheduler
            if scheduler._timer is not None:
                scheduler._timer.cancel()
                scheduler._expire(loop)
            lane.pool.capacity()

    def decided(self) -> dict[str, object]:
        """What this step has brought: what requests were told, and all that the owner holds."""
        told, self.events = sorted(self.events, key=repr), []
        lanes, limiter = self.owner.lanes, self.owner.limiter
        accounts = limiter.ledger._accounts
        for account in accounts.values():
            account.advance(limiter.now())
        return {
            "told": told,
            "balances": {
                name: (account.requests, account.tokens, account.parallel)
                for name, account in sorted(accounts.items())
                if account.requests or account.tokens or account.parallel
            },
            "queues": {
                name: (
                    lane.scheduler.inflight, lane.scheduler.capacity, lane.scheduler.dispatched,
                    lane.scheduler.queued_bytes, lane.scheduler.queued_tokens, *map(lane.scheduler.depth, Priority),
                )
                for name, lane in lanes.items()
            },
            "shares": {name: lane.scheduler.reserved() for name, lane in lanes.items()},
            "replicas": {
                f"{name}/{replica.name}": (
                    replica.inflight, replica.ready, replica.breaker.tripped, replica.breaker.epoch, replica.breaker.open_until,
                    replica.breaker._row, replica.breaker._probing, replica.latency if name == "quick" else None,
                )
                for name, lane in lanes.items()
                for replica in lane.pool.replicas
            },
            "cached": sorted(entry.key for entry in self.owner.exact._shelf.of(None)),  # type: ignore[attr-defined]
            "suspects": list(self.suspects),
        }  # fmt: skip


def build(folder: Path, vault: Vault | None) -> tuple[Config, Owner, Clock]:
    """The same every time: no chance that is not seeded, and every replica is up."""
    config, clock = parse(CONFIG, folder / "config.yaml"), Clock()
    owner = build_owner(config, clock, clock, vault)
    for model in config.models:
        lane = owner.lanes[model.name]
        lane.scheduler.queue._rng = _Soonest()
        lane.pool.balance = make_balance(model.balance.kind, seed=1, clock=clock)
        for replica in lane.pool.replicas:
            replica.breaker._rng = random.Random(2)
            replica.up = True
    return config, owner, clock


async def ticks(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def one_process(folder: Path) -> AsyncIterator[World]:
    _, owner, clock = build(folder, None)
    world = World(owner, clock)
    world.processes = [Process(owner.local)]
    world.settle = lambda: ticks(30)
    try:
        yield world
    finally:
        await _close(world, owner)


@asynccontextmanager
async def workers(folder: Path, count: int) -> AsyncIterator[World]:
    """The owner, its node, and a link for each of `count` workers: their real socket, in one loop."""
    vault = Vault.open(bytearray(Vault.size_for(256)))
    config, owner, clock = build(folder, vault)
    world = World(owner, clock)

    async def rest(_: object, __: bytes) -> bytes:
        await ticks(6)
        return b""

    node = Node(
        owner.local, owner.fleet, vault, config="", workers=1, calls={"rest": rest}, counts=lambda _, __: (),
        forget=lambda _: None,
    )  # fmt: skip
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = str(folder / f"d{random.randrange(1 << 48):x}")
    sock.bind(path)
    server = await listen(sock, lambda: node.session().channel)
    links = [
        Link(path, number=n, replicas=Replicas(replica_maker(config), {}), front=Front(1 << 20), clock=clock)
        for n in range(count)
    ]
    runs = [asyncio.create_task(link.run()) for link in links]
    for link in links:
        await link.welcomed()
    world.processes = [Process(link) for link in links]

    async def settle() -> None:
        for _ in range(4):
            await asyncio.gather(*(link.call("rest") for link in links))
            await ticks(6)

    def restless() -> list[object]:
        return [
            *(case for session in node.sessions for case in session.cases.values()),
            *node.berths,
            *(ticket for link in links for ticket in link.tickets.values()),
            *(ticket for link in links for ticket in link._leaving),
            *(number for link in links for number in link._calls),
            *(seq for session in node.sessions for seq in session._early),
        ]

    world.settle, world.restless = settle, restless
    try:
        yield world
        await settle()
        said = [next(link._ends) - 1 for link in links]
        heard = {session.number: session._heard for session in node.sessions}
        assert [heard[number] for number in range(count)] == said, "every End was heard"
    finally:
        await _close(world, owner)
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        server.close()
        await node.close()
        for link in links:
            await link.replicas.close()
        await ticks()


async def _close(world: World, owner: Owner) -> None:
    for request in world.requests:
        request.task.cancel()
    await asyncio.gather(*(request.task for request in world.requests), return_exceptions=True)
    for process in world.processes:
        await process.flights.close()
    await owner.fleet.close()
