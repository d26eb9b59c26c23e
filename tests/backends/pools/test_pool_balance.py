from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_fleet import Clock, make_replica

from backends.balance import KINDS, PREFIXED, make_balance
from backends.types import Ask

ASK = Ask()


@pytest.fixture
def balance(clock):
    return lambda kind, seed=7: make_balance(kind, seed=seed, clock=clock)


@pytest.fixture
def fleet():
    return lambda count: [make_replica(f"r{number}") for number in range(count)]


def spread(balance, replicas, times, ask=ASK):
    """Choose and hold that many times: how many each got."""
    for replica in replicas:
        replica.inflight = 0
    for _ in range(times):
        balance.choose(replicas, ask).inflight += 1
    return [replica.inflight for replica in replicas]


def shares(balance, replicas, times, ask=ASK):
    """Choose and give back at once: how many each got."""
    chosen = Counter(balance.choose(replicas, ask).name for _ in range(times))
    return [chosen[replica.name] for replica in replicas]


STATES = st.lists(
    st.tuples(
        st.integers(0, 40), st.booleans(), st.none() | st.floats(0, 1e6), st.none() | st.floats(0, 1e12), st.integers(0, 40)
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(STATES, st.lists(st.none() | st.text(max_size=8), min_size=1, max_size=8), st.integers(0, 10_000), st.integers(0, 99))
def test_it_chooses_only_from_what_is_given(kind, states, sessions, age, seed):
    """Whatever the state of the replicas, the choice is one of those given, also when the list changes between choices."""
    clock = Clock()
    balance = make_balance(kind, seed=seed, clock=clock)
    replicas = []
    for number, (inflight, offered, latency, waiting, then) in enumerate(states):
        replica = make_replica(f"r{number}")
        replica.inflight = then
        if latency is not None:
            replica.observe_latency(latency, clock.now)
        if waiting is not None:
            replica.observe_waiting(waiting, clock.now)
        replica.inflight = inflight
        replicas.append((replica, offered))
    clock.now += age
    offered = [replica for replica, on_offer in replicas if on_offer] or [replicas[0][0]]
    for session in sessions:
        assert balance.choose(offered, Ask(session=session)) in offered
        offered = offered[1:] or [replicas[-1][0]]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sticky"])  # which counts tokens alone
def test_equal_replicas_get_equal_shares_of_what_is_in_flight(balance, fleet, kind):
    """Requests without a session are spread evenly over replicas that do not differ."""
    counts = spread(balance(kind), fleet(5), 500)
    assert max(counts) - min(counts) <= 12


def test_an_unknown_kind_names_the_known_ones():
    """A kind that does not exist is one clear error."""
    with pytest.raises(ValueError, match="'longest_match'; there are round_robin, least_requests"):
        make_balance("longest_match")


def test_only_queue_depth_wants_the_gauges(balance):
    """Nobody is scraped for a policy that would not read it."""
    assert [kind for kind in KINDS if balance(kind).wants_waiting] == ["queue_depth"]


def test_who_wants_first_bytes_at_once(balance):
    """Every other policy chooses the same whether it hears of a first byte when it comes or when the answer has ended."""
    assert [kind for kind in KINDS if balance(kind).wants_first_byte] == ["least_latency"]
    assert [kind for kind in KINDS if balance(kind).wants_pending] == ["sticky", "work_cost"]


def test_who_wants_to_know_the_prompt(balance):
    """For every other policy nobody works out what a prompt begins with."""
    assert [kind for kind in KINDS if balance(kind).wants_prefix] == list(PREFIXED)


class TestRoundRobin:
    def test_each_in_turn(self, balance, fleet):
        """The choices go round."""
        rota, replicas = balance("round_robin"), fleet(3)
        assert [rota.choose(replicas, ASK).name for _ in range(7)] == ["r0", "r1", "r2", "r0", "r1", "r2", "r0"]

    def test_a_list_that_changes_does_not_skew_the_turns(self, balance, fleet):
        """With lists of changing length in between, every replica still gets its share."""
        rota, replicas = balance("round_robin"), fleet(4)
        chosen = Counter()
        for _ in range(400):
            chosen[rota.choose(replicas, ASK).name] += 1
            chosen[rota.choose(replicas[:1], ASK).name] += 1
        assert chosen["r1"] == chosen["r2"] == chosen["r3"]

    def test_one_that_comes_back_is_not_flooded(self, balance, fleet):
        """A replica that was away for long gets one turn, and then no more than the others."""
        rota, replicas = balance("round_robin"), fleet(3)
        for _ in range(300):
            rota.choose(replicas[:2], ASK)
        assert shares(rota, replicas, 30) == [10, 10, 10]

    def test_names_that_come_and_go_do_not_add_up(self, balance):
        """The memory of turns is bounded, and forgetting keeps the newest."""
        rota = balance("round_robin")
        for number in range(5000):
            rota.choose([make_replica(f"pod-{number}"), make_replica(f"pod-{number + 1}")], ASK)
        assert len(rota._turns) < 100


class TestLeastRequests:
    def test_the_one_with_the_fewest(self, balance, fleet):
        """The smallest number in flight wins."""
        replicas = fleet(4)
        for replica, inflight in zip(replicas, [3, 1, 2, 5], strict=True):
            replica.inflight = inflight
        assert shares(balance("least_requests"), replicas, 10) == [0, 10, 0, 0]

    def test_ties_are_broken_at_random(self, balance, fleet):
        """Among equals each gets its share, and two gateways do not choose alike."""
        counts = shares(balance("least_requests"), fleet(4), 4000)
        assert all(850 < count < 1150 for count in counts)
        replicas = fleet(8)
        one, other = balance("least_requests", 1), balance("least_requests", 2)
        assert [one.choose(replicas, ASK) for _ in range(20)] != [other.choose(replicas, ASK) for _ in range(20)]

    def test_the_same_seed_gives_the_same_choices(self, balance, fleet):
        """Randomness is the seed's alone."""
        replicas = fleet(8)
        one, other = balance("least_requests", 5), balance("least_requests", 5)
        assert [one.choose(replicas, ASK) for _ in range(50)] == [other.choose(replicas, ASK) for _ in range(50)]


class TestLeastLatency:
    def test_work_is_shared_by_speed(self, balance, fleet, clock):
        """A replica that is twice as fast holds about twice as much."""
        fast, slow = replicas = fleet(2)
        fast.observe_latency(0.1, clock.now)
        slow.observe_latency(0.2, clock.now)
        counts = spread(balance("least_latency"), replicas, 300)
        assert 1.8 < counts[0] / counts[1] < 2.2

    def test_one_never_measured_is_taken_for_average(self, balance, fleet, clock):
        """A new replica gets a share and is not buried under the herd."""
        replicas = fleet(4)
        for replica in replicas[:3]:
            replica.observe_latency(0.2, clock.now)
        counts = spread(balance("least_latency"), replicas, 400)
        assert all(85 < count < 115 for count in counts)

    def test_a_bad_one_is_tried_again(self, balance, fleet, clock):
        """A replica that was slow is avoided while that is news, and gets its share when it is long ago."""
        good, bad = replicas = fleet(2)
        good.observe_latency(0.1, clock.now)
        bad.observe_failure(60.0, clock.now)
        policy = balance("least_latency")
        assert shares(policy, replicas, 100) == [100, 0]
        clock.now += 120
        good.observe_latency(0.1, clock.now)
        assert min(shares(policy, replicas, 1000)) > 400

    def test_a_stale_best_is_not_believed_for_ever(self, balance, fleet, clock):
        """A replica that was fast an hour ago has no advantage over one that is known to be good now."""
        former, current = replicas = fleet(2)
        former.observe_latency(0.001, clock.now)
        clock.now += 3600
        current.observe_latency(0.2, clock.now)
        assert min(shares(balance("least_latency"), replicas, 1000)) > 400

    def test_a_quiet_pool_keeps_measuring_all(self, balance, fleet, clock):
        """A difference of next to nothing does not starve the other replica."""
        replicas = fleet(2)
        replicas[0].observe_latency(0.100, clock.now)
        replicas[1].observe_latency(0.105, clock.now)
        assert min(shares(balance("least_latency"), replicas, 1000)) > 400

    def test_one_that_hangs_does_not_collect_the_traffic(self, balance, fleet, clock):
        """The fastest replica stops answering: what it holds speaks against it at once, without any new sample."""
        hanging, working = replicas = fleet(2)
        hanging.observe_latency(0.05, clock.now)
        working.observe_latency(0.1, clock.now)
        policy = balance("least_latency")
        for _ in range(1000):
            clock.now += 0.1
            if policy.choose(replicas, ASK) is hanging:
                hanging.inflight += 1
            else:
                working.observe_latency(0.1, clock.now)
        assert hanging.inflight < 10

    def test_latencies_of_nothing_still_count_requests(self, balance, fleet, clock):
        """Where all latencies are zero the requests in flight decide."""
        replicas = fleet(3)
        for replica in replicas:
            replica.observe_latency(0.0, clock.now)
        assert max(spread(balance("least_latency"), replicas, 30)) <= 11


class TestQueueDepth:
    def test_a_queue_there_turns_requests_away(self, balance, fleet, clock):
        """A server that says it is behind gets less until the others are as deep."""
        behind, idle = replicas = fleet(2)
        behind.observe_waiting(10.0, clock.now)
        assert spread(balance("queue_depth"), replicas, 10) == [0, 10]
        assert spread(balance("queue_depth"), replicas, 110) in ([50, 60], [49, 61], [51, 59])
        assert idle.waiting == 0.0

    def test_own_requests_decide_between_two_scrapes(self, balance, fleet, clock):
        """A hundred choices on gauges that do not move are spread, and herd nowhere."""
        replicas = fleet(4)
        for replica in replicas:
            replica.observe_waiting(2.0, clock.now)
        assert spread(balance("queue_depth"), replicas, 100) == [25, 25, 25, 25]

    def test_old_advice_is_ignored(self, balance, fleet, clock):
        """After ten seconds without a scrape only our own count is left."""
        behind, _ = replicas = fleet(2)
        behind.observe_waiting(50.0, clock.now)
        clock.now += 10.0
        assert shares(balance("queue_depth"), replicas, 10) == [0, 10]
        clock.now += 0.5
        assert min(shares(balance("queue_depth"), replicas, 200)) > 60

    def test_what_came_back_since_is_taken_off(self, balance, fleet, clock):
        """Answers since the scrape have drained the queue that it saw."""
        drained, other = replicas = fleet(2)
        drained.inflight = 10
        drained.observe_waiting(5.0, clock.now)
        drained.inflight = 4
        other.inflight = 5
        assert shares(balance("queue_depth"), replicas, 10) == [10, 0]

    def test_the_cost_is_never_below_what_is_in_flight(self, balance, fleet, clock):
        """More answers back than were waiting do not make a replica look emptier than it is."""
        drained, other = replicas = fleet(2)
        drained.inflight = 10
        drained.observe_waiting(1.0, clock.now)
        drained.inflight, other.inflight = 2, 1
        assert shares(balance("queue_depth"), replicas, 10) == [0, 10]

    def test_a_lie_makes_a_replica_look_full_and_no_more(self, balance, fleet, clock):
        """A gauge of a billion costs a replica its own slots' worth of requests, not all traffic for ever."""
        liar, honest = replicas = fleet(2)
        liar.max_inflight = honest.max_inflight = 8
        liar.observe_waiting(1e9, clock.now)
        assert spread(balance("queue_depth"), replicas, 28) == [10, 18]


class TestConsistentHash:
    def homes(self, policy, replicas, sessions=2000):
        return [policy.choose(replicas, Ask(session=f"session-{number}")).name for number in range(sessions)]

    def test_a_session_stays(self, balance, fleet):
        """The same session goes to the same replica, in every process and whatever the order of the list."""
        replicas = fleet(8)
        assert self.homes(balance("consistent_hash", 1), replicas) == self.homes(balance("consistent_hash", 2), replicas[::-1])

    @pytest.mark.parametrize("count", [2, 3, 7, 16])
    def test_sessions_spread_evenly(self, balance, fleet, count):
        """Each replica is home to its share of the sessions."""
        homes = Counter(self.homes(balance("consistent_hash"), fleet(count), 8000))
        assert len(homes) == count
        assert all(0.85 < homes[name] * count / 8000 < 1.15 for name in homes)

    def test_one_that_goes_moves_only_its_own(self, balance, fleet):
        """Without a replica, its sessions spread over all others, everybody else's stay, and all return with it."""
        policy, replicas = balance("consistent_hash"), fleet(6)
        before = self.homes(policy, replicas)
        after = self.homes(policy, replicas[:2] + replicas[3:])
        moved = [new for old, new in zip(before, after, strict=True) if old != new]
        assert {old for old, new in zip(before, after, strict=True) if old != new} == {"r2"}
        assert set(moved) == {"r0", "r1", "r3", "r4", "r5"}
        assert self.homes(policy, replicas) == before

    def test_ids_that_begin_alike_have_nothing_in_common(self, balance, fleet):
        """The whole id counts: a long common beginning does not bind sessions together."""
        policy, replicas = balance("consistent_hash"), fleet(4)
        homes = Counter(policy.choose(replicas, Ask(session="x" * 500 + str(number))).name for number in range(1000))
        assert min(homes.values()) > 180

    def test_a_saturated_home_is_passed_over_for_that_request_alone(self, balance, fleet):
        """A session of a busy replica goes elsewhere while it is busy, sessions of others do not notice, and it returns."""
        policy, replicas = balance("consistent_hash"), fleet(4)
        before = self.homes(policy, replicas)
        replicas[0].inflight = 50
        during = self.homes(policy, replicas)
        assert "r0" not in during
        assert all(old == new for old, new in zip(before, during, strict=True) if old != "r0")
        assert len({new for old, new in zip(before, during, strict=True) if old == "r0"}) == 3
        replicas[0].inflight = 0
        assert self.homes(policy, replicas) == before

    def test_a_pool_that_is_busy_throughout_keeps_its_sessions(self, balance, fleet):
        """Load that is high but even moves nobody: the bound is relative to the mean."""
        policy, replicas = balance("consistent_hash"), fleet(4)
        before = self.homes(policy, replicas)
        for replica in replicas:
            replica.inflight = 200
        assert self.homes(policy, replicas) == before

    def test_one_hot_session_cannot_drown_its_replica(self, balance, fleet):
        """However many requests one session sends, no replica holds more than the bound."""
        policy, replicas = balance("consistent_hash"), fleet(4)
        for sent in range(1, 400):
            policy.choose(replicas, Ask(session="hot")).inflight += 1
            assert max(replica.inflight for replica in replicas) <= 1.25 * sent / 4 + 2

    @settings(deadline=None)
    @given(st.lists(st.integers(0, 1000), min_size=1, max_size=20), st.text(max_size=20))
    def test_the_chosen_is_never_over_the_bound(self, loads, session):
        """For any load there is a choice, and it is at most 1.25 × the mean + 1."""
        replicas = [make_replica(f"r{number}") for number in range(len(loads))]
        for replica, load in zip(replicas, loads, strict=True):
            replica.inflight = load
        chosen = make_balance("consistent_hash", seed=1).choose(replicas, Ask(session=session))
        assert chosen.inflight <= 1.25 * sum(loads) / len(loads) + 1

    def test_without_a_session_the_fewest_requests(self, balance, fleet):
        """A request that belongs to no session goes where there is least; the empty id is a session like any other."""
        policy, replicas = balance("consistent_hash"), fleet(3)
        replicas[0].inflight = replicas[1].inflight = 1
        assert shares(policy, replicas, 10) == [0, 0, 10]
        assert max(shares(policy, replicas, 10, Ask(session=""))) == 10

    def test_any_text_is_a_session(self, balance, fleet):
        """Ids that cannot be encoded as UTF-8 are hashed too."""
        policy, replicas = balance("consistent_hash"), fleet(3)
        assert policy.choose(replicas, Ask(session="\udcff")) in replicas

    def test_names_that_come_and_go_do_not_add_up(self, balance):
        """The memory of names is bounded."""
        policy = balance("consistent_hash")
        for number in range(5000):
            policy.choose([make_replica(f"pod-{number}")], Ask(session="s"))
        assert len(policy._ranks._keys) <= 4096
