"""The rules of other routers, each at its thresholds."""

import random
from collections import Counter
from types import SimpleNamespace

import pytest

from backends.types import Ask
from gateway.lab.fleet.rules import CacheAware, Longest, PrefixCache


def fleet(*inflight):
    return [SimpleNamespace(name=f"r{number}", inflight=flying) for number, flying in enumerate(inflight)]


def shares(rule, replicas, ask, times=40):
    chosen = Counter(rule.choose(replicas, ask).name for _ in range(times))
    return [chosen[replica.name] for replica in replicas]


def asked(**cached):
    return Ask(None, 1000, cached=cached)


def rng():
    return random.Random(1)


class TestCacheAware:
    def test_the_longest_match_above_the_threshold(self):
        """Above 30 % of the prompt the longest match, of equal ones the fewest in flight; at 30 % the fewest of all."""
        rule = CacheAware(rng())
        assert shares(rule, fleet(9, 5, 0), asked(r0=301, r1=300)) == [40, 0, 0]
        assert shares(rule, fleet(9, 5, 0), asked(r0=400, r1=400)) == [0, 40, 0]
        assert shares(rule, fleet(9, 5, 0), asked(r0=300)) == [0, 0, 40]

    def test_out_of_balance_it_looks_at_nothing_else(self):
        """Both more than 64 apart and more than 1.5 times as many."""
        rule = CacheAware(rng())
        assert shares(rule, fleet(65, 0), asked(r0=900)) == [0, 40]
        assert shares(rule, fleet(64, 0), asked(r0=900)) == [40, 0]
        assert shares(rule, fleet(290, 200), asked(r0=900)) == [40, 0]

    def test_the_smallest_tree_where_that_is_the_rule(self):
        """Below the threshold, whatever is in flight."""
        rule = CacheAware(rng(), {"r0": 10, "r1": 5}.__getitem__)
        assert shares(rule, fleet(0, 9), asked(r0=100)) == [0, 40]


class TestPrefixCache:
    def test_the_longest_match_that_is_not_far_above_the_mean(self):
        """At most two deviations above it; of equal matches the fewest in flight."""
        rule = PrefixCache(rng())
        assert shares(rule, fleet(4, 3, 2), asked(r0=100, r1=900, r2=500)) == [0, 40, 0]
        assert shares(rule, fleet(4, 3, 2), asked(r1=500, r2=500)) == [0, 0, 40]
        crowded = fleet(*[0] * 9, 15)
        assert shares(rule, crowded, asked(r9=900, r3=100)) == [0, 0, 0, 40, 0, 0, 0, 0, 0, 0]

    def test_without_a_match_or_out_of_balance_the_fewest(self):
        """More than 16 apart is out of balance."""
        rule = PrefixCache(rng())
        assert shares(rule, fleet(3, 2), asked()) == [0, 40]
        assert shares(rule, fleet(17, 0), asked(r0=900)) == [0, 40]
        assert shares(rule, fleet(16, 0), asked(r0=900)) == [40, 0]


@pytest.mark.parametrize("rule", [CacheAware, PrefixCache, Longest])
def test_ties_are_broken_at_random(rule):
    """Among equals everybody gets something."""
    assert min(shares(rule(rng()), fleet(1, 1, 1), asked(r0=500, r1=500, r2=500))) > 5
    assert min(shares(rule(rng()), fleet(1, 1, 1), asked())) > 5
