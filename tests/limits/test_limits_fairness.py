"""What is promised to those who share a queue, whatever comes: bounds that hold between any two moments, in tokens."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from queue_talk import bounds, push, queue

from limits.scheduler import Queue
from limits.waiting import Priority

MOST = 1000  # tokens that a request may cost
MANY = settings(max_examples=80, deadline=None)
COSTS = st.integers(1, MOST)


def gaps(course, one, other):
    """The greatest difference between what two got in any window, given the steps in which they were served."""
    level = least = most = 0.0
    for who, amount in course:
        level += amount if who == one else -amount if who == other else 0.0
        least, most = min(least, level), max(most, level)
    return most - least


@MANY
@given(weights=st.tuples(st.integers(1, 5), st.integers(1, 5)), seed=st.integers(0, 2**32), floods=st.booleans())
def test_two_backlogged_tenants_get_the_same_by_weight(weights, seed, floods):
    """In any window the difference is at most the largest cost of each, by its weight, as long as costs are as predicted."""
    rng, line, course = random.Random(seed), queue(), []
    for _ in range(150):
        for tenant, weight in zip("ab", weights, strict=True):
            while line.load.requests < 400 and sum(1 for _ in line._lines[1].newest_of(tenant)) < 3:
                push(line, tenant, prompt=rng.randint(1, MOST), weight=weight)
            if floods:
                push(line, tenant, prompt=rng.choice([1, MOST]), weight=weight)
        head = line.head(0.0)
        line.dispatch(head, 0.0)
        course.append((head.ask.tenant, head.cost / head.ask.weight))
        if rng.random() < 0.8:
            line.settle(head, head.cost)
    assert gaps(course, "a", "b") <= MOST / weights[0] + MOST / weights[1] + 1e-6


@MANY
@given(seed=st.integers(0, 2**32), slots=st.integers(1, 6), error=st.sampled_from([0, 50, 500]))
def test_a_wrong_prediction_costs_no_more_than_its_error(seed, slots, error):
    """Two backlogged tenants' real service differs by at most two largest costs and the errors of what runs."""
    rng, line, running, real = random.Random(seed), queue(), [], Counter()
    worst = 0
    for _ in range(300):
        for tenant in "ab":
            while sum(1 for _ in line._lines[1].newest_of(tenant)) < 2:
                push(line, tenant, prompt=rng.randint(1, MOST))
        if len(running) == slots:
            entry, cost = running.pop(rng.randrange(slots))
            line.settle(entry, cost)
        head = line.head(0.0)
        line.dispatch(head, 0.0)
        cost = max(0, head.cost + rng.randint(-error, error))
        running.append((head, cost))
        real[head.ask.tenant] += cost
        worst = max(worst, abs(real["a"] - real["b"]))
    assert worst <= 2 * MOST + (2 * slots + 2) * error


@MANY
@given(
    weights=st.tuples(*[st.integers(1, 16)] * 3),
    seed=st.integers(0, 2**32),
    pair=st.permutations(list(Priority)).map(lambda order: order[:2]),
)
def test_every_class_gets_its_share_in_any_window(weights, seed, pair):
    """While two classes wait, what they get by weight differs by at most a largest cost of each, in any window. Batch too."""

    rng, line, course = random.Random(seed), Queue(bounds(weights=weights)), []
    for _ in range(200):
        for priority in Priority:
            while line.depth(priority) < 2 and (priority in pair or rng.random() < 0.5):
                push(line, rng.choice("abc"), priority, prompt=rng.randint(1, MOST))
        head = line.head(0.0)
        line.dispatch(head, 0.0)
        course.append((head.priority, head.cost / weights[head.priority]))
    assert gaps(course, *pair) <= MOST / weights[pair[0]] + MOST / weights[pair[1]] + 1e-6


@MANY
@given(seed=st.integers(0, 2**32), away=st.integers(1, 200))
def test_an_absence_earns_no_credit(seed, away):
    """However long a tenant was away, from its return on it gets no more than a largest cost of each above its share."""
    rng, line, course = random.Random(seed), queue(), []
    push(line, "away", prompt=rng.randint(1, MOST))
    for number in range(away + 150):
        while sum(1 for _ in line._lines[1].newest_of("busy")) < 2:
            push(line, "busy", prompt=rng.randint(1, MOST))
        while number >= away and sum(1 for _ in line._lines[1].newest_of("away")) < 2:
            push(line, "away", prompt=rng.randint(1, MOST))
        head = line.head(0.0)
        line.dispatch(head, 0.0)
        if number >= away:
            course.append((head.ask.tenant, head.cost))
    assert gaps(course, "away", "busy") <= 2 * MOST


@MANY
@given(st.lists(st.tuples(st.integers(0, 2000), st.floats(0, 3)), min_size=2, max_size=60), st.integers(0, 2**32))
def test_overtaking_is_bounded(asks, seed):
    """Of one tenant's requests none overtakes one that came more than `per_token * (cap - its own length)` before it."""
    rng, line, now, course = random.Random(seed), queue(per_token=0.01, cap=500), 0.0, []
    for output, pause in asks:
        now += pause
        push(line, output=output, now=now)
        if rng.random() < 0.4:
            course.append(line.head(now))
            line.dispatch(course[-1], now)
    while (head := line.head(now)) is not None:
        line.dispatch(head, now)
        course.append(head)
    for place, entry in enumerate(course):
        for later in course[place + 1 :]:
            lead = 0.01 * (min(later.ask.output, 500) - min(entry.ask.output, 500))
            assert entry.enqueued - later.enqueued <= max(0.0, lead) + 1e-9


@MANY
@given(st.integers(0, 2**32))
def test_what_is_charged_is_what_was_spent(seed):
    """When all is settled, the class was charged the sum of real costs, and nothing awaits its correction."""
    rng, line, running, spent = random.Random(seed), queue(per_token=0.01), [], 0
    keeper = push(line, "keeper", prompt=1)
    for _ in range(200):
        step = rng.random()
        if step < 0.5:
            push(line, rng.choice("abc"), output=rng.randint(0, 500))
        elif step < 0.75 and len(line) > 1:
            head = line.head(0.0)
            if head is not keeper:
                line.dispatch(head, 0.0)
                running.append(head)
            else:
                line.cancel(keeper, 0.0)
                keeper = push(line, "keeper", prompt=1)
        elif running:
            cost = rng.randint(0, MOST)
            line.settle(running.pop(rng.randrange(len(running))), cost)
            spent += cost
    for entry in running:
        line.settle(entry, 7)
        spent += 7
    account = line._lines[1].account
    assert (account.running, account.lifts) == (0, 0)
    assert account.counter == spent * line._lines[1]._stride
