"""Who is next: classes by tokens or strictly, tenants by what they were served, requests by their places."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_talk import FAR, bounds, drain, push, queue, serve

from limits.scheduler import Queue
from limits.waiting import Order, Priority, QueueTimeout, SlotAsk

REALTIME, STANDARD, BATCH = Priority


def names(entries):
    return [entry.ask.tenant for entry in entries]


def test_tenants_share_tokens_not_turns():
    """Who asks for four times as much gets a turn a fourth as often."""
    line = queue()
    for _ in range(40):
        push(line, "large", prompt=400)
        push(line, "small", prompt=100)
    assert names(drain(line))[:50].count("large") == 10


def test_output_costs_twice_the_input():
    """A token of the answer is charged as two of the prompt."""
    line = queue()
    for _ in range(30):
        push(line, "reads", prompt=100)
        push(line, "writes", output=100)
    assert names(drain(line))[:30].count("reads") == 20


def test_weight_divides_what_is_charged():
    """A tenant of weight 3 is served three times the tokens."""
    line = queue()
    for _ in range(40):
        push(line, "heavy", prompt=90, weight=3)
        push(line, "light", prompt=90)
    assert names(drain(line))[:40].count("heavy") == 30


def test_the_real_cost_is_charged_in_the_end():
    """Who was thought to cost little and cost much waits for the other to catch up."""
    line = queue()
    for _ in range(10):
        push(line, "liar", prompt=10)
        push(line, "other", prompt=10)
    first = serve(line)
    assert first.ask.tenant == "liar"
    line.settle(first, 60)
    assert names(drain(line))[:7] == ["other"] * 6 + ["liar"]


def test_what_was_charged_too_much_is_given_back():
    """Who was thought to cost much and cost little is served next."""
    line = queue()
    for _ in range(3):
        push(line, "brief", output=500)
        push(line, "other", prompt=10)
    first = serve(line)
    line.settle(first, 4)
    assert names([serve(line) for _ in range(2)]) == ["other", "brief"]


def test_an_idle_hour_earns_no_credit():
    """A tenant that comes back after others were served much takes turns with them, and no more."""
    line = queue()
    push(line, "away", prompt=10)
    serve(line)
    for _ in range(1000):
        push(line, "busy", prompt=10)
    for _ in range(500):
        serve(line)
    for _ in range(50):
        push(line, "away", prompt=10)
    assert names(drain(line))[:20].count("away") == 10


def test_a_refund_after_coming_back_is_no_credit():
    """What was charged too much before a tenant went away is not given back once it was lifted to the others."""
    line = queue()
    push(line, "away", output=500)
    first = serve(line)
    for _ in range(1000):
        push(line, "busy", prompt=10)
    for _ in range(500):
        serve(line)
    for _ in range(50):
        push(line, "away", prompt=10)
    line.settle(first, 0)
    assert names(drain(line))[:20].count("away") == 10


def test_leaving_does_not_wipe_out_a_debt():
    """A tenant that waits for nothing for a moment is still behind those that it was served more than."""
    line = queue()
    for _ in range(20):
        push(line, "other", prompt=10)
    push(line, "greedy", prompt=100)
    while line.depth(STANDARD) and serve(line).ask.tenant != "greedy":
        pass
    push(line, "greedy", prompt=100)
    assert "greedy" not in names([serve(line) for _ in range(8)])


def test_what_runs_at_once_counts_too():
    """Who was served while slots were free is not favoured, nor made to pay, when they no longer are."""
    line = queue()
    for _ in range(5):
        line.take(SlotAsk(STANDARD, "early", 1, 1, FAR, prompt=10), 0.0)
    for _ in range(20):
        push(line, "late", prompt=10)
        push(line, "early", prompt=10)
    assert 9 <= names(drain(line))[:20].count("late") <= 15


def test_short_answers_go_first_within_a_tenant():
    """A request is put back by each output token that it is thought to make, so a short one overtakes a long one."""
    line = queue(per_token=0.01)
    long, short = push(line, output=1000), push(line, output=10, now=1.0)
    assert drain(line, 1.0) == [short, long]


def test_a_long_request_is_overtaken_for_so_long_only():
    """Who came `per_token * (cap - least)` seconds later does not overtake, however short it is."""
    line = queue(per_token=0.01, cap=500)
    long = push(line, output=10**6)
    before, after = push(line, now=4.9), push(line, now=5.1)
    assert drain(line, 6.0) == [before, long, after]


def test_much_per_token_is_shortest_first():
    """With a large `per_token` the shortest of all goes first, whenever it came."""
    line = queue(per_token=1e6, cap=10**6)
    entries = [push(line, output=output, now=float(now)) for now, output in enumerate((50, 20, 90, 10))]
    assert drain(line, 9.0) == [entries[place] for place in (3, 1, 0, 2)]


def test_named_deadlines_go_earliest_first():
    """Of a tenant's requests with deadlines of their clients' own the one whose deadline comes first is next."""
    line = queue()
    entries = [push(line, within=within) for within in (30.0, 10.0, 20.0)]
    assert drain(line) == [entries[1], entries[2], entries[0]]


def test_deadlines_take_nobody_elses_place():
    """Those without a deadline are served when they would be, had nobody named one."""
    line = queue()
    entries = [push(line, within=within) for within in (30.0, None, 10.0, None, 20.0)]
    assert drain(line) == [entries[place] for place in (2, 1, 4, 3, 0)]


@given(st.lists(st.tuples(st.sampled_from("adc"), st.integers(1, 50)), max_size=40), st.sampled_from([0.0, 0.1]))
@settings(max_examples=60, deadline=None)
def test_deadlines_never_move_the_others(steps, per_token):
    """Whatever comes, goes and is cancelled: the times at which those without a deadline are served are the same without any."""
    with_deadlines, without = queue(per_token=per_token), queue(per_token=per_token)
    pairs, served = [], []
    for now, (step, number) in enumerate(steps):
        if step == "a":
            within = None if number % 2 else 100.0 + number
            one = push(with_deadlines, output=number, now=float(now), within=within)
            pairs.append((one, push(without, output=number, now=float(now))))
        elif step == "d" and len(without):
            served.append((serve(with_deadlines, float(now)), serve(without, float(now))))
    served += zip(drain(with_deadlines, 50.0), drain(without, 50.0), strict=True)
    place = {id(entry): index for index, (entry, _) in enumerate(served)}
    plain = {id(entry): index for index, (_, entry) in enumerate(served)}
    assert all(place[id(one)] == plain[id(other)] for one, other in pairs if not one.ask.hasty)


def test_strict_serves_the_urgent_first():
    """Under strict no batch request is served while a realtime one waits."""
    line = queue(promote_after=30.0)
    batch = [push(line, priority=BATCH) for _ in range(3)]
    urgent = [push(line, priority=REALTIME) for _ in range(50)]
    assert drain(line, 1.0) == [*urgent, *batch]


def test_strict_promotes_by_age():
    """A batch request counts as standard after `promote_after`, as realtime after twice that, and then nobody overtakes it."""
    line = queue(promote_after=30.0)
    old = push(line, priority=BATCH)
    push(line, priority=STANDARD, now=31.0)
    assert line.head(29.0).priority is STANDARD
    assert line.head(31.0) is old
    push(line, priority=REALTIME, now=59.0)
    assert line.head(59.5).priority is REALTIME
    assert line.head(60.0) is old


@given(st.integers(0, 2**32), st.sampled_from([None, 5.0]))
@settings(max_examples=40, deadline=None)
def test_every_request_is_served_in_the_end(seed, promote_after):
    """With endless urgent and short work coming in, a long batch request of a poor tenant is served all the same."""
    rng = random.Random(seed)
    line = queue(per_token=0.01, cap=500, promote_after=promote_after)
    lonely = push(line, "poor", BATCH, output=1000)
    now = 0.0
    for _ in range(5000):
        now += 0.1
        for _ in range(2):
            push(line, rng.choice("abc"), rng.choice((REALTIME, STANDARD, BATCH)), output=rng.randrange(20), now=now, weight=4)
        if serve(line, now) is lonely:
            return
    raise AssertionError("it starved")


@pytest.mark.parametrize("order", [{"per_token": -1.0}, {"per_token": float("inf")}, {"cap": -1}, {"promote_after": 0.0}])
def test_senseless_order_is_refused(order):
    """An order that would not be one cannot be made."""
    with pytest.raises(ValueError, match="must"):
        Order(**order)


def test_expired_requests_leave_the_order_as_it_was():
    """Who has named a deadline and missed it is gone from its places too."""
    line = queue()
    late, rest = push(line, within=5.0), push(line)
    assert line.expire(5.0) == [late]
    assert isinstance(late.failure, QueueTimeout)
    assert drain(line, 6.0) == [rest]


def test_what_is_remembered_of_those_who_left_is_bounded():
    """However many tenants come and go, few accounts, places and leftovers stay."""
    line = queue(per_token=0.01)
    for number in range(5000):
        entry = push(line, f"t{number}", Priority(number % 3), output=number % 50, within=None if number % 2 else 1e6)
        if number % 3:
            line.settle(serve(line), 7)
        else:
            line.cancel(entry, 0.0)
    drain(line)
    for one in line._lines:
        assert len(one._away) <= 200
        assert len(one._heap) <= 64


def test_a_class_that_was_away_is_lifted_to_the_last_that_waited():
    """Coming first to an empty queue earns a class no credit over the one that was served all the time before."""
    line = queue()
    for _ in range(500):
        push(line, priority=STANDARD)
        serve(line)
    for _ in range(40):
        push(line, priority=BATCH)
        push(line, priority=STANDARD)
    assert [entry.priority for entry in drain(line)][:10].count(BATCH) == 2


def test_a_tenant_that_found_free_slots_is_lifted_too():
    """Who takes a free slot after others took hundreds is even with them, not ahead by all that they had."""
    line = queue()
    for tenant in [*["busy"] * 500, "other"]:
        line.settle(line.take(SlotAsk(STANDARD, tenant, 1, 1, FAR, prompt=10), 0.0), 10)
    for _ in range(30):
        push(line, "other", prompt=10)
        push(line, "busy", prompt=10)
    assert 9 <= names(drain(line))[:20].count("other") <= 11


def test_a_cheap_request_goes_before_a_dear_one_of_a_class_with_the_same_share():
    """Of two classes that were served the same for their weight, the one goes whose next request leaves it behind the other."""

    line = Queue(bounds(weights=(1, 1, 1)))
    dear, cheap = push(line, priority=REALTIME, prompt=1000), push(line, priority=BATCH, prompt=10)
    assert drain(line) == [cheap, dear]
