"""The simulated fleet: the product's pool and index before engines; against formulas, and against itself."""

import heapq
import math
import random
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.lab.fleet.costs import Costs, Setting, Shape
from gateway.lab.fleet.fleet import Fleet
from gateway.lab.fleet.job import Job
from gateway.lab.fleet.made import KINDS, RATES
from gateway.lab.fleet.measures import result_of
from gateway.lab.fleet.policies import BY_NAME, POLICIES, policy_of

SMALL = Setting(replicas=3)


def served(policy, jobs, setting=SMALL, seed=1):
    fleet = Fleet(jobs, policy_of(policy), setting, seed)
    fleet.run()
    return fleet


def made(kind, count, replicas=3, seed=1, times=1.0):
    return list(islice(KINDS[kind](random.Random(seed), RATES[kind] * replicas * times, 512), count))


def erlang_wait(servers, load, service):
    """The mean wait in an M/M/k queue."""
    offered = servers * load
    waiting = offered**servers / math.factorial(servers) / (1 - load)
    share = waiting / (sum(offered**i / math.factorial(i) for i in range(servers)) + waiting)
    return share * service / (servers * (1 - load))


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (4, 0.6), (8, 0.7)])
def test_one_slot_servers_are_as_theory_says(servers, load):
    """One slot each, exponential gaps and services: waits are those of one line, their mean is Erlang's."""
    rng, token, at, jobs = random.Random(servers), 1e-4, 0.0, []
    setting = Setting(replicas=servers, slots=1, costs=Costs(0.0, 0.0, 0.0, token, 0.0, 0.0), shape=Shape(block=1 << 20))
    for number in range(15_000):
        at += rng.expovariate(servers * load)
        jobs.append(Job(number, at, 1, 1 + round(rng.expovariate(token))))
    fleet = served("least_requests", jobs, setting)
    waits = [first - job.at for first, job in zip(fleet.first, jobs, strict=True)]
    free = [0.0] * servers
    for job, wait in zip(jobs, waits, strict=True):
        begin = max(job.at, heapq.heappop(free))
        heapq.heappush(free, begin + token * (job.output - 1))
        assert wait == pytest.approx(begin - job.at, abs=1e-6)
    assert sum(waits) / len(waits) == pytest.approx(erlang_wait(servers, load, 1.0), rel=0.15)


@pytest.mark.parametrize("policy", list(BY_NAME))
def test_a_seed_decides_everything_and_nobody_is_lost(policy):
    """The same seed gives the same places and times; every request has a first and a last token, every lease is given back."""
    jobs = made("shared", 300)
    one, again = served(policy, jobs), served(policy, jobs)
    assert (one.place, one.first, one.last) == (again.place, again.first, again.last)
    assert all(job.at < first <= last for job, first, last in zip(jobs, one.first, one.last, strict=True))
    assert set(one.place) <= {0, 1, 2}
    assert [(replica.inflight, replica.pending) for replica in one.fronts[0].pool.replicas] == [(0, 0)] * 3
    assert sum(tokens for _, tokens in one.gaps) == sum(job.output - 1 for job in jobs)
    computed = sum(engine.computed for engine in one.engines.values())
    assert computed + sum(one.cached) == sum(job.prompt for job in jobs)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 3000), st.integers(1, 60), st.integers(0, 5)), min_size=1, max_size=40),
    st.sampled_from([policy.name for policy in POLICIES]),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.5]),
)
def test_slots_and_memory_are_bounds_under_any_load(rows, policy, slots, error):
    """However many come at once, no replica has more than its slots; a request that fits into no engine is refused, alone."""
    setting = Setting(replicas=2, slots=slots, shape=Shape(chunk=512, blocks=30, block=64), error=error)
    jobs = [Job(number, at, prompt, output, tuple(family << 20 | depth for depth in range(prompt // 64)))
            for number, (at, prompt, output, family) in enumerate(sorted(rows))]  # fmt: skip
    fleet = served(policy, jobs, setting)
    too_large = [job.number for job in jobs if -(-(job.prompt + job.output) // 64) > 30]
    assert fleet.refused == too_large
    assert [number for number, first in enumerate(fleet.first) if math.isnan(first)] == too_large
    for place in range(2):
        mine = [job.number for job in jobs if fleet.place[job.number] == place]
        for number in mine:
            begin = fleet.first[number]
            assert sum(fleet.first[other] <= begin < fleet.last[other] for other in mine) <= slots


def test_conversations_find_their_own_history_and_round_robin_does_not():
    """Work cost keeps conversations where they are cached; in turn they meet the cache by chance."""
    jobs = made("shared", 900)
    work, turns = (result_of(served(policy, jobs), 2.0) for policy in ("work_cost", "round_robin"))
    assert work.hit > turns.hit + 0.15
    assert work.ttft_mean < 0.8 * turns.ttft_mean


def test_a_session_that_is_named_keeps_a_conversation_in_its_place():
    """By session alone, conversations find their history; nobody names one unless he is told to."""
    jobs = made("shared", 900)
    named, unnamed = (served("consistent_hash", jobs, Setting(replicas=3, sessions=told)) for told in (True, False))
    assert result_of(named, 2.0).hit > result_of(unnamed, 2.0).hit + 0.1


def test_what_all_share_drowns_nobody_but_under_the_longest_match():
    """With one common beginning the longest match sends all to one replica, up to its slots, and work cost to all alike."""
    jobs = made("common", 400)
    work, longest = served("work_cost", jobs), served("longest", jobs)
    assert max(Counter(work.place).values()) < 0.5 * len(jobs)
    assert max(Counter(longest.place).values()) > 0.75 * len(jobs)
    assert result_of(work, 2.0).ttft_mean < 0.2 * result_of(longest, 2.0).ttft_mean


def test_the_long_beginnings_of_a_few_agents_are_copied_to_where_there_is_room():
    """The load of each is spread, as without caches, and still next to nothing of a beginning is read twice at one place."""
    jobs = made("agents", 900, 6)
    new, own, fewest = (served(policy, jobs, Setting(replicas=6)) for policy in ("work_cost", "work_cost_own", "least_requests"))
    counts = Counter(new.place)
    assert max(counts.values()) < 1.4 * min(counts.values())
    assert max(Counter(own.place).values()) > 2 * max(counts.values()) - len(jobs) / 6
    assert result_of(new, 2.0).ttft_mean < 0.5 * result_of(own, 2.0).ttft_mean
    assert result_of(new, 2.0).ttft_mean < 1.02 * result_of(fewest, 2.0).ttft_mean
    assert result_of(new, 2.0).hit > 0.9


def test_gateways_that_hear_each_other_place_as_one_would():
    """Three that share do nearly as well as one, three that know nothing of each other much worse, the floor is between them."""
    jobs, setting = made("shared", 900, 6), Setting(replicas=6, gateways=3)
    ways = ("one", "shared", "floor", "apart")
    fleets = {way: served(f"work_cost@{way}", jobs, setting) for way in ways}
    one, shared, floor, apart = (result_of(fleets[way], 2.0) for way in ways)
    assert [len(fleets[way].fronts) for way in ways] == [1, 3, 3, 3]
    assert shared.ttft_mean < 1.15 * one.ttft_mean
    assert apart.ttft_mean > 1.4 * one.ttft_mean
    assert floor.ttft_mean < 0.95 * apart.ttft_mean
    for replica in (replica for front in fleets["shared"].fronts for replica in front.pool.replicas):
        assert (replica.inflight, replica.pending, replica.others_inflight, replica.others_pending) == (0, 0, 0, 0)


def test_with_nothing_shared_those_who_look_for_matches_do_as_those_who_do_not():
    """Rules that fall back on the fewest in flight are then that rule: the same choices but for ties."""
    jobs = made("none", 600)
    fewest = result_of(served("least_requests", jobs), 2.0)
    for policy in ("aibrix", "cache_aware", "longest"):
        assert result_of(served(policy, jobs), 2.0).ttft_mean == pytest.approx(fewest.ttft_mean, rel=0.1)


def test_an_error_of_the_estimate_and_a_small_index_change_choices_not_work():
    """The engine computes what it must, whatever the pool believes."""
    jobs = made("shared", 400)
    exact = served("work_cost", jobs)
    for setting in (Setting(replicas=3, error=0.5), Setting(replicas=3, index=0.1)):
        other = served("work_cost", jobs, setting)
        assert other.place != exact.place
        assert sum(engine.computed for engine in other.engines.values()) + sum(other.cached) == sum(job.prompt for job in jobs)


@pytest.mark.parametrize(
    "text", ["", "nobody", "work_cost:", "work_cost:1", "work_cost:a:b", "work_cost:-1:5", "work_cost:nan:1"]
)
def test_a_policy_that_is_not_there_is_named(text):
    """The message says which there are."""
    with pytest.raises(ValueError, match="round_robin"):
        policy_of(text)
