"""Shares of a pool that tenants have for themselves: who goes first, what is charged, and what is promised whatever comes."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_talk import FAR, Nobody, bounds, drain, push, serve

from limits.entry import State
from limits.provisioned import ReservedQueue
from limits.reserved import Reservations, scaled
from limits.scheduler import Queue
from limits.waiting import Order, Priority, QueueFull, ReservedShare, SlotAsk

REALTIME, STANDARD, BATCH = Priority
MANY = settings(max_examples=60, deadline=None)
ANY = Order()


def reserved(*shares, slots=8, order=ANY, **change) -> ReservedQueue:
    line = ReservedQueue(bounds(**change), order, shares)
    line.resize(slots)
    return line


def owner(slots=None, tpm=None, tenant="own") -> ReservedShare:
    return ReservedShare(tenant, slots, tpm)


def names(entries):
    return [entry.ask.tenant for entry in entries]


def ask(tenant, priority=STANDARD, *, prompt=10, output=0, size=1, tokens=1):
    return SlotAsk(priority, tenant, tokens, size, FAR, prompt=prompt, output=output)


def charged(line):
    return sum(each.account.counter for each in line._lines)


def test_an_owner_goes_before_all_classes_and_tenants_while_it_has_slots():
    """Its batch requests get the next slots, as many as are its own, and then it waits for its turn."""
    line = reserved(owner(slots=2))
    for _ in range(3):
        push(line, "rush", REALTIME, prompt=5)
        push(line, "own", BATCH, prompt=5)
    assert names(drain(line)) == ["own", "own", "rush", "rush", "rush", "own"]


def test_what_runs_on_a_share_is_charged_to_nobody():
    """Neither when it begins nor when it ends; what is borrowed is."""
    line = reserved(owner(slots=1))
    first, second = push(line, "own", prompt=5), push(line, "own", prompt=7)
    assert [serve(line), serve(line)] == [first, second]
    assert charged(line) == 7 * line._lines[STANDARD]._stride
    line.settle(first, 500, 500)
    line.settle(second, 9, 9)
    assert charged(line) == 9 * line._lines[STANDARD]._stride
    assert line.reserved(0.0)[0].used == 0


def test_a_free_slot_is_of_the_share_while_there_is_one():
    """Where nobody waits, too, the owner's own slots are used first, and told."""
    line = reserved(owner(slots=2))
    entries = [line.take(ask("own"), 0.0) for _ in range(3)]
    line.take(ask("other"), 0.0)
    (standing,) = line.reserved(0.0)
    assert (standing.slots, standing.used, standing.reserved, standing.borrowed) == (2, 2, 2, 1)
    line.settle(entries[2], 10, 10)
    assert line.reserved(0.0)[0].used == 2
    line.settle(entries[0], 10, 10)
    assert line.reserved(0.0)[0].used == 1


def test_of_several_owners_the_one_that_uses_least_goes_first():
    """By what it has in use of its slots; equals take turns."""
    line = reserved(owner(slots=4, tenant="a"), owner(slots=2, tenant="b"))
    for _ in range(6):
        push(line, "a")
        push(line, "b")
    assert names(serve(line) for _ in range(6)) == ["a", "b", "a", "b", "a", "a"]


def test_within_an_owner_the_usual_order_holds():
    """Its most urgent class first, and within a class those whose answers are short."""
    line = reserved(owner(slots=4), order=Order(0.01, 500))
    long, short, urgent = push(line, "own", output=400), push(line, "own", output=1), push(line, "own", REALTIME)
    assert [serve(line) for _ in range(3)] == [urgent, short, long]


def test_tokens_that_are_used_up_come_back_with_time():
    """A share of tokens is served first as long as it lasts, then in line, and again when it has refilled."""
    line = reserved(owner(tpm=600), slots=100)
    for _ in range(3):
        push(line, "other", prompt=1)
    for _ in range(8):
        push(line, "own", prompt=100)
    assert names(serve(line) for _ in range(7)) == ["own"] * 6 + ["other"]
    assert line.reserved(0.0)[0].tokens_left == 0
    assert serve(line, 9.9).ask.tenant == "own"  # by the line's own order: it was charged nothing so far
    assert (charged(line) > 100, line.reserved(0.0)[0].borrowed) == (True, 1)
    assert serve(line, 9.9).ask.tenant == "other"
    before = charged(line)
    assert serve(line, 10.0).ask.tenant == "own"
    assert charged(line) == before


@MANY
@given(seed=st.integers(0, 2**32))
def test_an_owner_goes_first_whenever_its_tokens_hold_its_next_request(seed):
    """Whatever comes, goes, ends or is raised meanwhile, and however time passes."""
    rng, line, now, waiting, running = random.Random(seed), reserved(owner(tpm=600), slots=50), 0.0, [], []
    for _ in range(150):
        step = rng.choice(["push", "push", "serve", "serve", "settle", "cancel", "raise", "time"])
        if step == "push":
            tenant = rng.choice(["own", "own", "x"])
            waiting.append(push(line, tenant, rng.choice(list(Priority)), now=now, prompt=rng.choice([5, 50, 300, 700])))
        elif step == "time":
            now += rng.choice([0.5, 3.0, 20.0])
        elif step == "settle" and running:
            entry = running.pop(rng.randrange(len(running)))
            line.settle(entry, 1, rng.choice([0, 10, 900]))
        elif waiting and step == "serve":
            entry = line.head(now)
            line.dispatch(entry, now)
            running.append(entry)
        elif waiting and step == "cancel":
            line.cancel(rng.choice(waiting), now)
        elif waiting and step == "raise":
            line.raise_priority(rng.choice(waiting), rng.choice(list(Priority)), now)
        waiting = [entry for entry in waiting if entry.state is State.WAITING]
        own = [entry for entry in waiting if entry.ask.tenant == "own"]
        if own:
            following = line._first_of(line._owners["own"])
            if line._owners["own"].holds(following.ask.prompt, now):
                assert line.head(now) is following


def test_tokens_are_corrected_to_what_was_used():
    """More makes a debt, less is given back; who says nothing is believed to have used what was thought."""
    line = reserved(owner(tpm=600), slots=100)
    entries = [line.take(ask("own", prompt=50, output=50), 0.0) for _ in range(3)]
    assert line.reserved(0.0)[0].tokens_left == 300
    line.settle(entries[0], 30, 20)
    assert line.reserved(0.0)[0].tokens_left == 380
    line.settle(entries[1], 1000, 700)
    assert line.reserved(0.0)[0].tokens_left == 0
    line.settle(entries[2], 1)
    assert not line._reservations.may(line._owners["own"], 1, 10.0)
    assert line._reservations.may(line._owners["own"], 1, 30.0)
    assert line.reserved(1000.0)[0].tokens_left == 600


def test_a_request_larger_than_a_minutes_tokens_runs_when_all_are_left():
    """It is a debt then, that must be paid back first."""
    line = reserved(owner(tpm=600), slots=100)
    line.take(ask("own", prompt=1200), 0.0)
    assert line.reserved(0.0)[0].reserved == 1
    line.take(ask("own", prompt=1), 60.0)
    assert line.reserved(0.0)[0].borrowed == 1
    line.take(ask("own", prompt=1), 60.2)
    assert line.reserved(0.0)[0].reserved == 2


@MANY
@given(slots=st.lists(st.integers(1, 50), max_size=8), room=st.integers(0, 200))
def test_shares_are_cut_down_in_proportion(slots, room):
    """No share grows or comes to nothing; together they fit if each can have one; of the rest each has its proportion."""
    given_ = scaled(slots, room)
    assert all(each <= whole for each, whole in zip(given_, slots, strict=True))
    if not room:
        assert not any(given_)
        return
    assert all(given_)
    assert sum(given_) == min(sum(slots), max(room, len(slots)))
    if sum(slots) > room >= len(slots):
        part = (room - len(slots)) / (sum(slots) - len(slots))
        assert all(abs(each - 1 - (whole - 1) * part) < 1 for each, whole in zip(given_, slots, strict=True))


@MANY
@given(
    shares=st.lists(st.tuples(st.integers(1, 6) | st.none(), st.integers(1, 9) | st.none()).filter(any), min_size=1, max_size=5),
    capacities=st.lists(st.integers(0, 12), min_size=1, max_size=5),
)
def test_the_others_always_have_a_slot(shares, capacities):
    """Whatever is reserved and however capacity changes, no more begin on shares than all slots but one."""
    owners = Reservations([ReservedShare(str(n), slots, tpm) for n, (slots, tpm) in enumerate(shares)])
    for capacity in capacities:
        owners.resize(capacity)
        while any(owners.may(one, 0, 0.0) for one in owners.owners.values()):
            owners.begin(next(one for one in owners.owners.values() if owners.may(one, 0, 0.0)), 0, 0.0)
            assert owners.running <= max(1, capacity - 1)
        assert all(one.slots or not capacity for one in owners.owners.values())
        if capacity > len(shares):
            assert sum(one.part for one in owners.owners.values()) < 1


@MANY
@given(seed=st.integers(0, 2**32), own=st.integers(1, 6), extra=st.integers(1, 6), waiting=st.integers(1, 12))
def test_the_kth_request_of_an_owner_that_returns_starts_with_the_kth_slot(seed, own, extra, waiting):
    """Others hold every slot and fill the line, in every class: as many as are the owner's own wait for no more than that."""
    rng, slots = random.Random(seed), own + extra
    line = reserved(owner(slots=own), slots=slots)
    running = [
        line.take(ask(rng.choice("xyz"), rng.choice(list(Priority)), prompt=rng.randint(1, 999)), 0.0) for _ in range(slots)
    ]
    for _ in range(60):
        push(line, rng.choice("xyz"), rng.choice(list(Priority)), prompt=rng.randint(1, 999), weight=rng.randint(1, 9))
    mine = [push(line, "own", rng.choice(list(Priority)), prompt=rng.randint(1, 9999)) for _ in range(waiting)]
    for k in range(1, slots + 1):
        line.settle(running.pop(rng.randrange(len(running))), 1, 1)
        running.append(serve(line))
        assert sum(entry.state is State.DISPATCHED for entry in mine) >= min(k, own, waiting)


@MANY
@given(seed=st.integers(0, 2**32), own=st.integers(1, 4), extra=st.integers(1, 8))
def test_an_owner_that_floods_gets_its_share_and_a_fair_part_of_the_rest(seed, own, extra):
    """What is borrowed is shared with another who wants as much: they differ by a largest request of each, in tokens."""
    rng, line, running = random.Random(seed), reserved(owner(slots=own), slots=own + extra), []
    borrowed = {"own": 0, "other": 0}
    for _ in range(200):
        for tenant in borrowed:
            while sum(1 for _ in line._lines[STANDARD].newest_of(tenant)) < 2:
                push(line, tenant, prompt=rng.randint(1, 1000))
        if len(running) == own + extra:
            done = running.pop(rng.randrange(len(running)))
            line.settle(done, done.cost, done.cost)
        used = line.reserved(0.0)[0].used
        entry = serve(line)
        running.append(entry)
        assert line.reserved(0.0)[0].used in (used, used + 1)
        if line.reserved(0.0)[0].used == used:
            assert used == own
            borrowed[entry.ask.tenant] += entry.cost
    assert abs(borrowed["own"] - borrowed["other"]) <= 2000


@MANY
@given(
    tpm=st.integers(1, 5000),
    steps=st.lists(st.tuples(st.floats(0, 30), st.integers(0, 3000), st.integers(0, 3000)), max_size=60),
    running=st.integers(1, 4),
)
def test_reserved_tokens_over_any_interval(tpm, steps, running):
    """What is served before others is at most a minute's tokens, the rate, and what single requests took unforeseen."""
    line, now, held, began = reserved(owner(tpm=tpm), slots=100), 0.0, [], []
    for pause, thought, really in steps:
        now += pause
        if len(held) == running:
            entry, cost = held.pop(0)
            line.settle(entry, cost, cost)
        before = line.reserved(0.0)[0].reserved
        entry = line.take(ask("own", prompt=thought), now)
        held.append((entry, really))
        if line.reserved(0.0)[0].reserved > before:
            began.append((now, really, max(thought, really)))
    slack = sum(sorted((most for _, _, most in began), reverse=True)[: running + 1])
    for start in range(len(began)):
        for end in range(start, len(began)):
            used = sum(real for _, real, _ in began[start : end + 1])
            assert used <= tpm + tpm * (began[end][0] - began[start][0]) / 60 + slack + 1


# -- room in the queue


def test_a_full_queue_has_room_for_an_owner():
    """Up to its part of the queue it pushes out the newest of the least urgent class, also of its own and of more urgent ones."""
    line = reserved(owner(slots=2), slots=8, max_requests=8, tenant_share=1.0)
    old = [push(line, "x", REALTIME) for _ in range(8)]
    _, (victim,) = line.push(ask("own", BATCH), Nobody(), 0.0)
    assert victim is old[-1]
    _, (victim,) = line.push(ask("own", BATCH), Nobody(), 0.0)
    assert victim is old[-2]
    assert not victim.failure.tenant
    with pytest.raises(QueueFull):
        line.push(ask("own", BATCH), Nobody(), 0.0)


def test_nobody_pushes_out_what_waits_within_a_share():
    """A realtime flood takes the place of a batch owner's requests beyond its part only; owners leave one another alone."""
    line = reserved(owner(slots=2), owner(slots=2, tenant="two"), slots=8, max_requests=8, tenant_share=1.0)
    mine = [push(line, "own", BATCH) for _ in range(4)]
    theirs = [push(line, "two", BATCH) for _ in range(4)]
    out = [victim for _ in range(3) for victim in line.push(ask("x", REALTIME), Nobody(), 0.0)[1]]
    assert set(out) < {*mine[2:], *theirs[2:]}
    assert len(out) == 3, "one is of what the batch class has for itself"
    for tenant, priority in (("own", BATCH), ("x", REALTIME), ("y", REALTIME)):
        with pytest.raises(QueueFull):
            line.push(ask(tenant, priority), Nobody(), 0.0)


def test_a_large_request_pushes_out_all_that_an_owner_has_beyond_its_part():
    """What it borrowed first, which is not counted twice."""
    line = reserved(owner(slots=2), slots=8, max_bytes=8, tenant_share=0.5)
    push(line, "y", REALTIME)
    push(line, "y", REALTIME)
    mine = [push(line, "own", BATCH) for _ in range(6)]
    _, victims = line.push(ask("x", REALTIME, size=3), Nobody(), 0.0)
    assert set(victims) == set(mine[3:]), "the third is its class's last"


def test_an_owner_takes_borrowed_room_first():
    """Who is within its share loses nothing while a flood holds more than its own, in whatever class."""
    line = reserved(owner(slots=2), slots=8, max_requests=8)
    flood = [push(line, "flood", REALTIME) for _ in range(6)]
    innocent = [push(line, "x", BATCH) for _ in range(2)]
    for _ in range(2):
        line.push(ask("own", BATCH), Nobody(), 0.0)
    assert {entry.state for entry in innocent} == {State.WAITING}
    assert [entry.state for entry in flood] == [State.WAITING] * 4 + [State.PUSHED_OUT] * 2


def test_one_request_of_an_owner_always_has_room():
    """However small its part is, and however large the request, unless the queue could not hold it at all."""
    line = reserved(owner(slots=1), slots=1000, max_requests=10, max_bytes=100, tenant_share=1.0)
    for _ in range(10):
        push(line, "x", REALTIME)
    line.push(ask("own", BATCH, size=100), Nobody(), 0.0)
    assert names(drain(line)) == ["own"]
    with pytest.raises(QueueFull):
        line.push(ask("own", BATCH, size=101), Nobody(), 0.0)


def test_a_queue_without_slots_keeps_what_waits():
    """Capacity that is gone for a while takes no room from owners; nobody is served by a share then."""
    line = reserved(owner(slots=4), slots=8, max_requests=4, tenant_share=1.0)
    mine = [push(line, "own", BATCH) for _ in range(2)]
    line.resize(0)
    assert line.reserved(0.0)[0].slots == 0
    for _ in range(2):
        push(line, "x", REALTIME)
    with pytest.raises(QueueFull):
        line.push(ask("x", REALTIME), Nobody(), 0.0)
    line.resize(8)
    assert [serve(line), serve(line)] == mine


def test_a_request_that_another_process_began_is_on_the_share():
    """As many as there are slots of it; the rest, and those of others, are nothing to be settled."""
    line = reserved(owner(slots=1))
    entry = line.adopt("own", 0.0)
    assert (line.adopt("own", 0.0), line.adopt("x", 0.0)) == (None, None)
    push(line, "x")
    push(line, "own")
    assert serve(line).ask.tenant == "x"
    line.settle(entry, 100, 100)
    push(line, "x")
    assert serve(line).ask.tenant == "own"


def test_a_pool_without_shares_has_none():
    """The plain line knows of nothing to adopt and nothing reserved."""
    line = Queue(bounds())
    line.resize(4)
    assert (line.adopt("x", 0.0), list(line.reserved(0.0))) == (None, [])


@pytest.mark.parametrize("wrong", [{}, {"slots": 0}, {"tpm": 0}])
def test_a_share_is_of_something(wrong):
    """Of slots, of tokens or of both, and at least of one."""
    with pytest.raises(ValueError, match="share"):
        ReservedShare("own", **wrong)
