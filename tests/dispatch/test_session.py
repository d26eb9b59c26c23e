"""The owner's process, spoken to as workers speak: by messages, however they fall together."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from gateway.build.apart import NodeParts, build_node
from gateway.config import parse
from gateway.dispatch import messages as m
from gateway.dispatch.gathering import Gathering
from gateway.dispatch.session import Session
from gateway.fleet import spec_of
from gateway.loads import SIZE
from limits.types import Scope
from limits.vault import Vault
from limits.waiting import Priority

CONFIG = """
models: [{name: small, replicas: [{name: s1, url: "http://127.0.0.1:9/v1"}]}]
tenants: [{name: acme, rpm: 600, tpm: 60000, keys: [{id: k, sha256: "%s"}]}]
""" % ("0" * 64)
WORKER = "00" * 8
PAGES = SimpleNamespace(loads=bytearray(SIZE), talks=bytearray(4096), switches=bytearray(4096))
ACME = m.ScopeTerms(1, "tenant:acme", "tenant", 600, 60_000, 8, "acme")
SCOPE = Scope("tenant:acme", "tenant", 600, 60_000, 8, "acme")
RESERVED = 1000


class Ear:
    """In the place of a channel."""

    def __init__(self) -> None:
        self.told: list[msgspec.Struct] = []

    def send(self, payload: bytes) -> None:
        self.told.append(m.from_dispatcher(payload))

    tell = send


class Owner:
    """A dispatcher that keeps its balances in `vault`; its clock stands still."""

    def __init__(self, folder: Path, vault: bytearray, text: str = CONFIG) -> None:
        config = parse(text, folder / "config.yaml")
        self.parts: NodeParts = build_node(
            config, b"secret", Vault.open(vault), PAGES, store=lambda _: None, pids=lambda _: [], restarts=dict
        )
        self.lane = self.parts.owner.lanes["small"]
        self.parts.owner.limiter._clock = lambda: 1e6
        [replica] = self.lane.pool.replicas
        replica.up = True

    def connect(self, *held: m.Held, before: "Owner | None" = None, worker: str = WORKER) -> Session:
        """The worker says Hello; it knew the owner `before`. What it is told is in `session.channel.told`."""
        session = self.parts.node.session()
        session.channel = Ear()
        epoch, roster = (before.parts.node.epoch, before.parts.node.roster.everybody()) if before else ("", [])
        say(session, m.Hello(worker, 1, 1, epoch, "", roster, [ACME], list(held)))
        return session

    def left(self) -> tuple[int | None, int | None]:
        """Requests and tokens that the tenant has."""
        standing = self.parts.owner.limiter.standing([SCOPE])
        return standing.request_remaining, standing.token_remaining

    @property
    def idle(self) -> bool:
        account = self.parts.owner.limiter.ledger._accounts.get(SCOPE.id)
        return not (self.lane.scheduler.inflight or self.lane.pool.replicas[0].inflight or (account and account.parallel))


@pytest.fixture
def vault() -> bytearray:
    return bytearray(Vault.size_for(64))


@pytest.fixture
def owner(tmp_path: Path, vault: bytearray) -> Iterator[Owner]:
    return Owner(tmp_path, vault)


def say(session: Session, *messages: msgspec.Struct) -> None:
    """In one read."""
    session._frames([m.encode(message) for message in messages])


def ask(n: int) -> m.Ask:
    work = m.Work("small", RESERVED, False, None, 0, "acme", 1, 100, 1e9, None, 10)
    return m.Ask(n, (1,), m.Look(None, 0, None, False, work))


def held(n: int, ended: int = 0, *, left: bool = False) -> m.Held:
    return m.Held(n, (1,), left, False, None, False, m.HeldWork(0, "small", RESERVED, None, 1, "s1", 0.0, "acme"), ended)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def ticks(count: int = 8) -> None:
    """What is to be done is done."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_request_that_is_taken_back_in_the_same_read_leaves_nothing(owner: Owner) -> None:
    """Asked and ended before it was begun: it was a request, as in one process, nothing is held, and its End may be forgotten."""
    session = owner.connect()
    say(session, ask(1), m.End(1, 1, True, True, False, None, None), ask(2), m.End(2, 2, True, True, False, None, None))
    await ticks()
    assert not session.cases
    assert owner.parts.node.heard(bytes.fromhex(WORKER)) == 2
    assert owner.left() == (598, 60_000)


async def test_an_end_is_heard_while_its_client_still_reads(owner: Owner) -> None:
    """The work is over and settled, the client has not left: the worker need not keep what it said, nor what others say next."""
    session = owner.connect()
    say(session, ask(1), ask(2))
    await ticks()
    say(session, m.End(1, 1, True, False, False, 10, None), m.End(2, 2, True, True, False, 20, None))
    await ticks()
    assert owner.parts.node.heard(bytes.fromhex(WORKER)) == 2
    assert list(session.cases) == [1]
    say(session, m.End(3, 1, False, True, False, None, None))
    await ticks()
    assert owner.parts.node.heard(bytes.fromhex(WORKER)) == 3
    assert owner.idle
    assert owner.left() == (598, 60_000 - 30)


async def test_what_was_settled_before_a_restart_is_not_settled_again(tmp_path: Path, owner: Owner, vault: bytearray) -> None:
    """A client that reads slowly, and a new dispatcher: its request was charged, and is charged no second time."""
    session = owner.connect()
    say(session, ask(1))
    await ticks()
    end = m.End(1, 1, True, False, False, 10, None)
    say(session, end)
    await ticks()
    owner.parts.node.commit()
    after = Owner(tmp_path, vault)
    session = after.connect(held(1, 1), m.Held(1, (1,), False, False, None, False, None, 0), before=owner)
    await ticks()
    for one in (end, m.End(2, 1, False, True, False, None, None)):
        if one.seq > after.parts.node.heard(bytes.fromhex(WORKER)):  # as the worker is told by Welcome
            say(session, one)
    await ticks()
    assert after.idle
    assert after.left() == (599, 60_000 - 10)


async def test_a_worker_that_comes_back_holds_what_it_held_and_no_token_more(owner: Owner) -> None:
    """While it is away nobody knows what it has used, so that stays charged as reserved; coming back takes nothing more."""
    session = owner.connect()
    say(session, ask(1))
    await ticks()
    for _ in range(3):
        assert owner.left() == (599, 60_000 - RESERVED)
        session._closed()
        await ticks()
        assert owner.left() == (599, 60_000 - RESERVED)
        assert owner.idle
        session = owner.connect(held(1), before=owner)
        await ticks()
        assert not owner.idle
    say(session, m.End(1, 1, True, True, False, 10, None))
    await ticks()
    assert owner.idle
    assert owner.left() == (599, 60_000 - 10)


async def test_a_dispatcher_that_ends_leaves_nothing_set_aside_for_who_waits(tmp_path: Path, vault: bytearray) -> None:
    """A reload while one runs and others wait: the one stays charged, and the others, who ask again, are charged once."""
    one_slot = CONFIG.replace("{name: small,", "{name: small, concurrency: {max: 1},")
    owner = Owner(tmp_path, vault, one_slot)
    session = owner.connect()
    say(session, ask(1), ask(2), ask(3))
    await ticks()
    assert owner.left() == (597, 60_000 - 3 * RESERVED)
    await owner.parts.node.hand_over()
    after = Owner(tmp_path, vault, one_slot)
    waiting = [m.Held(n, (1,), False, False, None, False, None, 0) for n in (2, 3)]
    session = after.connect(held(1), *waiting, before=owner)
    await ticks()
    assert after.left() == (597, 60_000 - RESERVED)
    work = m.Work("small", RESERVED, False, None, 0, "acme", 1, 100, 1e9, None, 10)
    say(session, *(m.Begin(n, 0, work, None) for n in (2, 3)))
    await ticks()
    assert after.left() == (597, 60_000 - 3 * RESERVED)
    for seq, n in enumerate((1, 2, 3), 1):
        say(session, m.End(seq, n, True, True, False, 10, None))
        await ticks()
    assert after.idle
    assert after.left() == (597, 60_000 - 30)


async def test_a_former_connection_may_end_after_the_new_one_began(owner: Owner) -> None:
    """Both come to light at once after the process stood still: in either order, what is held is held once."""
    former = owner.connect()
    say(former, ask(1))
    await ticks()
    session = owner.connect(held(1), before=owner)
    former._closed()
    await ticks()
    assert owner.left() == (599, 60_000 - RESERVED)
    assert owner.lane.scheduler.inflight == owner.lane.pool.replicas[0].inflight == 1
    say(session, m.End(1, 1, True, True, False, 10, None))
    await ticks()
    assert owner.idle
    assert owner.left() == (599, 60_000 - 10)


async def test_workers_that_do_not_come_back_are_forgotten(owner: Owner) -> None:
    """What was heard of a worker that has gone is kept for a while, and for the last ones only."""
    names = [f"{number:016x}" for number in range(1, 67)]
    for name in names:
        session = owner.connect(worker=name)
        say(session, ask(1))
        await ticks()
        say(session, m.End(1, 1, True, True, False, 10, None))
        await ticks()
        session._closed()
    owner.parts.node.commit()
    assert [owner.parts.node.heard(bytes.fromhex(name)) for name in names] == [0, 0] + 64 * [1]


async def test_a_worker_knows_of_a_replica_before_it_is_granted_it(owner: Owner) -> None:
    """One that has just joined: it is told ahead of the grant, not when its turn comes."""
    session = owner.connect()
    fleet = owner.parts.owner.fleet
    fleet.drain("small", "s1")
    fleet.add("small", spec_of("s2", "http://127.0.0.1:10/v1"), at_start=True).replica.up = True
    say(session, ask(1))
    await ticks()
    roster, answer = session.channel.told[-2:]
    [known] = [known for known in roster.changed if known.name == "s2"]
    assert answer.grant.serial == known.serial


async def test_what_an_operator_changed_is_told_before_it_is_confirmed(owner: Owner) -> None:
    """A drained replica: every worker knows of it by then, and would tell the next dispatcher."""
    session, other = owner.connect(), owner.connect()
    path = "/admin/models/small/replicas/s1/drain"
    say(session, m.Call(1, "admin", msgspec.msgpack.encode((b"POST", path.encode(), b"", b"", path, b""))))
    await until(lambda: isinstance(session.channel.told[-1], m.Reply))
    for one in (session.channel.told[-2], other.channel.told[-1]):
        assert [(known.name, known.held) for known in one.changed] == [("s1", True)]


async def test_a_dispatcher_that_takes_over_hears_of_everything_first(tmp_path: Path, owner: Owner, vault: bytearray) -> None:
    """No worker is answered before all have told what they hold, or one of them stays away for too long."""
    owner.connect()
    after = Owner(tmp_path, vault)
    after.parts.node.gathering = Gathering(2)
    first = after.connect(held(1), before=owner)
    assert not first.channel.told
    second = after.connect(before=owner, worker="11" * 8)
    assert [type(one.channel.told[-1]) for one in (first, second)] == [m.Welcome, m.Welcome]
    alone = Owner(tmp_path, bytearray(Vault.size_for(64)))
    alone.parts.node.gathering = Gathering(2)
    session = alone.connect(before=owner)
    assert not session.channel.told
    await until(lambda: bool(session.channel.told))
    assert type(alone.connect(worker="22" * 8).channel.told[-1]) is m.Welcome


async def test_when_slots_are_scarce_an_end_is_wanted_at_once(owner: Owner) -> None:
    """Of eight parallel slots six are taken: who has the last ones is told so, the others before were not."""
    session = owner.connect()
    say(session, *(ask(number) for number in range(1, 8)))
    await ticks()
    answers = [told for told in session.channel.told if isinstance(told, m.Answer)]
    assert [answer.soon for answer in answers] == [False] * 5 + [True] * 2


def begun(n: int, priority: int = 2, share: bytes | None = None) -> m.Begin:
    return m.Begin(n, 1, m.Work("small", RESERVED, False, None, priority, "acme", 1, 100, 1e9, None, 10), share)


def over(seq: int, n: int, *, left: bool = True) -> m.End:
    return m.End(seq, n, True, left, False, None, None)


async def full(owner: Owner) -> Session:
    """The one slot is taken by request 1; request 2 is admitted, and has asked for no work yet."""
    owner.lane.scheduler.set_capacity(1)
    session = owner.connect()
    say(session, ask(1), m.Ask(2, (1,), None))
    await ticks()
    return session


async def test_work_that_is_begun_and_given_up_in_one_read_waits_in_no_line(owner: Owner) -> None:
    """Its client has gone: the next free slot is for somebody who is there."""
    session = await full(owner)
    say(session, begun(2), over(1, 2))
    await ticks()
    assert (owner.lane.scheduler.queue.load.requests, list(session.cases)) == (0, [1])


async def test_a_class_that_is_raised_before_its_work_was_begun(owner: Owner) -> None:
    """Begun and raised in one read: it waits in the class that it was raised to."""
    session = await full(owner)
    say(session, begun(2), m.Raise(2, Priority.REALTIME))
    await ticks()
    assert owner.lane.scheduler.depth(Priority.REALTIME) == 1


async def test_work_that_is_given_up_as_its_connection_ends(owner: Owner) -> None:
    """Two reasons to end at once: the second one is not lost."""
    session = await full(owner)
    say(session, begun(2))
    await ticks()
    say(session, over(1, 2, left=False))
    session._closed()
    await ticks()
    assert owner.idle
    assert not session.cases


async def test_who_has_left_makes_no_answer_for_others(owner: Owner) -> None:
    """From the word on that its work is over and its client gone: who asks behind it in the same read makes the answer anew."""
    session = owner.connect()
    said = session.channel.told
    look = m.Look(None, 0, b"key", False, begun(0).work)
    say(session, m.Ask(1, (1,), look), m.Ask(2, (1,), look))
    await ticks()
    assert [answer.place for answer in said if isinstance(answer, m.Answer)] == [0, 1]
    say(session, over(1, 1, left=False))
    await ticks()
    say(session, over(2, 2, left=False), m.End(3, 1, False, True, False, None, None), m.LookUp(2, look))
    await ticks()
    assert isinstance(said[-1], m.Answer)
    assert said[-1].place == 0
    say(session, over(4, 2))
    await ticks()
    assert not owner.parts.node.berths


async def test_a_worker_that_dies_makes_no_answer_for_others(owner: Owner) -> None:
    """The next of the same key, of whichever worker, makes it anew."""
    session = owner.connect()
    say(session, m.Ask(1, (1,), m.Look(None, 0, b"key", False, begun(0).work)))
    await ticks()
    assert owner.parts.node.berths
    session._closed()
    await ticks()
    assert not owner.parts.node.berths


async def test_ends_are_heard_up_to_the_first_that_is_missing(owner: Owner) -> None:
    """Of requests that nobody knows, and not in the order of their numbers: none is left to be repeated."""
    session = owner.connect()
    say(session, over(2, 98))
    assert owner.parts.node.heard(bytes.fromhex(WORKER)) == 0
    say(session, over(1, 99))
    assert owner.parts.node.heard(bytes.fromhex(WORKER)) == 2


async def test_a_replica_that_left_is_told_of_while_it_was_granted(owner: Owner) -> None:
    """The worker may not have asked it yet; when its last lease is over it is gone for the workers as well."""
    session = owner.connect()
    say(session, ask(1))
    await ticks()
    owner.parts.owner.fleet.dismiss("small", "s1")
    assert owner.parts.node.roster.changes() == ([], [])
    say(session, over(1, 1))
    await ticks()
    assert owner.parts.node.roster.changes() == ([], [1])
    await owner.parts.owner.fleet.idle()


async def test_what_a_dispatcher_reads_after_it_stood_still_is_believed_only_if_the_connection_lives(owner: Owner) -> None:
    """A worker that has given it up asks again elsewhere: what it had asked before is no request, and costs nothing."""
    session = owner.connect()
    owner.parts.node._ticked = asyncio.get_running_loop().time() - 10
    say(session, ask(1))
    session.channel.closed = True
    session._closed()
    await asyncio.sleep(0.05)
    assert not session.cases
    assert owner.left() == (600, 60_000)


async def test_a_rosters_config_is_that_of_who_told_it(tmp_path: Path, owner: Owner) -> None:
    """A worker that tells of fewer replicas than the config has was told so by another config: none was taken out by hand."""
    node = owner.parts.node
    node._restored = False
    hello = m.Hello(WORKER, 1, 1, "another", "another config", [], [ACME], [])
    node.welcome(node.session(), hello)
    assert list(owner.parts.owner.fleet.members("small")) == ["s1"]
    assert not owner.parts.owner.fleet.members("small")["s1"].leaving
    node._restored = False
    node.welcome(node.session(), m.Hello(WORKER, 1, 1, "another", node.config, [], [ACME], []))
    assert owner.parts.owner.fleet.members("small")["s1"].leaving
    await owner.parts.owner.fleet.close()


async def test_what_a_predecessor_let_run_counts_on_its_replica_until_it_ends(
    tmp_path: Path, owner: Owner, vault: bytearray
) -> None:
    """A new dispatcher that counts tokens: nobody is let in beside a request that takes them all, until that is over."""
    session = owner.connect()
    say(session, ask(1))
    await ticks()
    after = Owner(tmp_path, vault, CONFIG.replace("{name: small,", "{name: small, concurrency: {tokens: 1000},"))
    session = after.connect(held(1), before=owner)
    await ticks()
    [replica] = after.lane.pool.replicas
    assert (replica.inflight, replica.tokens) == (1, RESERVED)
    say(session, ask(2))
    await ticks()
    assert after.lane.scheduler.queue.load.requests == 1
    say(session, m.End(1, 1, True, True, False, 10, None))
    await ticks()
    assert after.lane.scheduler.queue.load.requests == 0
    assert (replica.inflight, replica.tokens) == (1, 10)
    session._closed()
    await ticks()
    assert (replica.inflight, replica.tokens) == (0, 0)
