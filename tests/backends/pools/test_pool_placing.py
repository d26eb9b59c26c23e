"""Choices that know what of a prompt is cached where."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_fleet import enter, leave, make_pool, make_replica, run_through

from backends.balance import make_balance
from backends.balance.prefix_hash import PrefixHash
from backends.balance.sticky import Sticky
from backends.balance.work_cost import WorkCost
from backends.types import Ask, Outcome


@pytest.fixture
def fleet():
    return lambda count: [make_replica(f"r{number}") for number in range(count)]


@pytest.fixture
def balance():
    return lambda kind, seed=7: make_balance(kind, seed=seed)


def shares(balance, replicas, times, ask):
    chosen = Counter(balance.choose(replicas, ask).name for _ in range(times))
    return [chosen[replica.name] for replica in replicas]


def hold(balance, replicas, asks):
    """Each request stays: how many every replica has in the end."""
    for ask in asks:
        replica = balance.choose(replicas, ask)
        replica.inflight += 1
        replica.pending += ask.uncached(replica.name)
    return [replica.inflight for replica in replicas]


class TestWorkCost:
    def test_it_goes_where_it_is_cached(self, balance, fleet):
        """Of idle replicas the one that holds the most of the prompt."""
        ask = Ask(None, 1000, cached={"r1": 300, "r2": 900})
        assert shares(balance("work_cost"), fleet(4), 20, ask) == [0, 0, 20, 0]

    def test_a_cache_is_left_when_the_queue_before_it_costs_more(self, balance, fleet):
        """900 cached tokens are worth 1,800 tokens that wait there, and no more."""
        replicas, ask = fleet(2), Ask(None, 1000, cached={"r0": 900})
        replicas[0].pending = 1799
        assert shares(balance("work_cost"), replicas, 10, ask) == [10, 0]
        replicas[0].pending = 1801
        assert shares(balance("work_cost"), replicas, 10, ask) == [0, 10]

    def test_running_requests_count(self, balance, fleet):
        """Each is worth 105 tokens of prefill."""
        replicas, ask = fleet(2), Ask(None, 1000, cached={"r0": 525})
        replicas[0].inflight = 9
        assert shares(balance("work_cost"), replicas, 10, ask) == [10, 0]
        replicas[0].inflight = 11
        assert shares(balance("work_cost"), replicas, 10, ask) == [0, 10]

    def test_the_busier_all_are_the_more_a_cache_is_worth(self, balance, fleet):
        """With 8,192 tokens before everybody, 900 cached ones are worth 2,700 that wait there."""
        replicas, ask = fleet(2), Ask(None, 1000, cached={"r0": 900})
        replicas[1].pending = 8192
        replicas[0].pending = 8192 + 2699
        assert shares(balance("work_cost"), replicas, 10, ask) == [10, 0]
        replicas[0].pending = 8192 + 2701
        assert shares(balance("work_cost"), replicas, 10, ask) == [0, 10]

    def test_a_beginning_that_everybody_has_does_not_pile_up(self, balance, fleet):
        """What every prompt shares draws nobody once it is everywhere, and fills nobody while it is not."""
        replicas = fleet(4)
        assert max(hold(balance("work_cost"), replicas, [Ask(None, 1000, cached={"r0": 60})] * 80)) <= 22

    def test_a_long_beginning_that_many_share_spreads(self, balance, fleet):
        """16,000 tokens that one replica has and all ask for: soon the others have them too, and none has much more to do."""
        policy, replicas = balance("work_cost"), fleet(4)
        holders = {"r0"}
        for sent in range(200):
            ask = Ask(None, 16_200, cached=dict.fromkeys(holders, 16_000), crowd=[(16_000, float(sent))] if sent > 1 else [])
            chosen = policy.choose(replicas, ask)
            chosen.inflight += 1
            holders.add(chosen.name)
            assert max(replica.inflight for replica in replicas) <= sent / 4 + 20
        assert max(replica.inflight for replica in replicas) - min(replica.inflight for replica in replicas) <= 2
        assert policy.choose(fleet(4), Ask(None, 16_200, cached={"r2": 16_000}, crowd=[(16_000, 200.0)])).name == "r2"

    def test_one_more_copy_serves_its_part_of_those_who_come(self, balance, fleet):
        """Nine others of late and one copy: a second one would serve five, so each pays a fifth; with three copies 2.5."""
        replicas, crowd = fleet(4), [(10_000, 9.0)]
        policy, one = balance("work_cost"), Ask(None, 10_000, cached={"r0": 10_000}, crowd=crowd)
        assert policy.costs(replicas, one) == pytest.approx([0, 4_000, 4_000, 4_000])
        three = Ask(None, 10_000, cached={"r0": 10_000, "r1": 10_000, "r2": 10_000}, crowd=crowd)
        assert policy.costs(replicas, three) == pytest.approx([0, 0, 0, 8_000])

    def test_only_what_they_share_is_shared_out(self, balance, fleet):
        """A prompt's own part costs what it costs, and a crowd that is smaller than the copies there are changes nothing."""
        replicas, crowd = fleet(3), [(1000, 19.0), (2000, 3.0)]
        ask = Ask(None, 5000, cached={"r0": 4000, "r1": 1000}, crowd=crowd)
        assert balance("work_cost").costs(replicas, ask) == pytest.approx([2000, 7000, 7300])
        few = Ask(None, 5000, cached={"r0": 4000, "r1": 4000}, crowd=[(4000, 2.0)])
        assert balance("work_cost").costs(replicas, few) == pytest.approx([2000, 2000, 10_000])

    @pytest.mark.parametrize("kind", ["work_cost", "sticky"])
    def test_one_saturated_replica_is_nobody_elses_concern(self, balance, fleet, kind):
        """Prompts that are cached on other replicas stay there; only its own look elsewhere, each for itself."""
        policy, replicas = balance(kind), fleet(4)
        replicas[0].pending, replicas[0].inflight = 500_000, 200
        for name in ("r1", "r2", "r3"):
            assert policy.choose(replicas, Ask(None, 4000, cached={name: 3900})).name == name
        assert policy.choose(replicas, Ask(None, 4000, cached={"r0": 3900})).name != "r0"
        replicas[0].pending = replicas[0].inflight = 0
        assert policy.choose(replicas, Ask(None, 4000, cached={"r0": 3900})).name == "r0"

    def test_an_empty_replica_is_not_flooded(self, balance, fleet):
        """One that comes back with nothing gets its share of the work and not all of it."""
        replicas = fleet(4)
        for replica in replicas[:3]:
            replica.inflight, replica.pending = 10, 10_000
        counts = hold(balance("work_cost"), replicas, [Ask(None, 1000)] * 20)
        assert 10 <= counts[3] <= 15
        assert max(replica.pending for replica in replicas) - min(replica.pending for replica in replicas) <= 3000

    def test_a_slow_replica_has_less_before_it(self, balance, fleet):
        """Work is divided by the speed of the prefill."""
        replicas = fleet(2)
        replicas[0].speed = 3.0
        hold(balance("work_cost"), replicas, [Ask(None, 100)] * 200)
        assert 2.5 < replicas[0].pending / replicas[1].pending < 3.5

    def test_ties_are_broken_at_random_by_a_seed(self, balance, fleet):
        """Among equals each gets its share, the same for the same seed."""
        assert all(200 < count < 300 for count in shares(balance("work_cost"), fleet(4), 1000, Ask(None, 50)))
        replicas = fleet(8)
        runs = [[balance("work_cost", seed).choose(replicas, Ask()).name for _ in range(1)] * 3 for seed in (1, 1, 2, 3, 4)]
        assert runs[0] == runs[1]
        assert len({tuple(run) for run in runs}) > 1

    def test_a_session_has_a_home_where_nothing_is_known(self, balance, fleet):
        """Requests of one session go together although the index sees nothing; sessions spread; a busy home is left."""
        policy, replicas = balance("work_cost"), fleet(4)
        homes = {s: shares(policy, replicas, 5, Ask(f"s{s}", 400)).index(5) for s in range(200)}
        assert min(Counter(homes.values()).values()) > 25
        replicas[homes[0]].pending = 10_000
        assert shares(policy, replicas, 5, Ask("s0", 400))[homes[0]] == 0

    def test_a_session_goes_where_its_prompt_really_is(self, balance, fleet):
        """What is cached elsewhere outweighs the home."""
        policy, replicas = balance("work_cost"), fleet(4)
        home = policy.choose(replicas, Ask("s", 400)).name
        away = next(replica.name for replica in replicas if replica.name != home)
        assert policy.choose(replicas, Ask("s", 400, cached={away: 380})).name == away

    @settings(deadline=None)
    @given(
        st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 300), st.integers(0, 4000), st.floats(0.25, 4)), min_size=1,
                 max_size=12),
        st.integers(0, 4000),
    )  # fmt: skip
    def test_the_least_cost_wins(self, states, tokens):
        """Whatever the state, the chosen one costs no more than any other by the rule as it is written down."""
        replicas, cached = [], {}
        for number, (pending, inflight, held, speed) in enumerate(states):
            replica = make_replica(f"r{number}")
            replica.pending, replica.inflight, replica.speed = pending, inflight, speed
            cached[replica.name] = min(held, tokens)
            replicas.append(replica)

        own = 2 + min(replica.pending for replica in replicas) / 8192

        def cost(replica):
            return (replica.pending + own * (tokens - cached[replica.name]) + 105 * replica.inflight) / replica.speed

        chosen = make_balance("work_cost", seed=1).choose(replicas, Ask(None, tokens, cached=cached))
        assert cost(chosen) == min(map(cost, replicas))

    @settings(deadline=None)
    @given(
        st.lists(st.integers(0, 500), min_size=1, max_size=8),
        st.lists(st.tuples(st.integers(1, 500), st.integers(2, 99)), max_size=5),
        st.integers(1, 500),
    )
    def test_a_crowd_only_ever_makes_a_copy_cheaper(self, held, crowd, tokens):
        """Token by token: its part of a copy where many share it, all of it elsewhere; who holds all pays nothing."""
        replicas = [make_replica(f"r{number}") for number in range(len(held))]
        cached = {replica.name: min(has, tokens) for replica, has in zip(replicas, held, strict=True)}
        ends = sorted({end for end, _ in crowd if end <= tokens})
        shared = list(zip(ends, sorted((float(came) for _, came in crowd), reverse=True), strict=False))

        def price(token):
            came = next((came for end, came in shared if token < end), 0.0)
            return min(1.0, (sum(has > token for has in cached.values()) + 1) / (came + 1))

        costs = WorkCost(random.Random(1)).costs(replicas, Ask(None, tokens, cached=cached, crowd=shared))
        for replica, cost in zip(replicas, costs, strict=True):
            assert cost == pytest.approx(2 * sum(map(price, range(cached[replica.name], tokens))), abs=1e-6)

    def test_its_weights_can_be_set(self, fleet):
        """a and c are arguments, for who compares."""
        replicas, ask = fleet(2), Ask(None, 1000, cached={"r0": 900})
        replicas[0].pending = 950
        assert WorkCost(random.Random(1), own=1.0).choose(replicas, ask).name == "r1"


class TestSticky:
    def test_most_of_the_prompt_is_enough(self, balance, fleet):
        """Whoever holds four fifths is a candidate, and the least prefill among the candidates wins."""
        replicas, ask = fleet(3), Ask(None, 1000, cached={"r0": 800, "r1": 990})
        replicas[1].pending = 500
        assert shares(balance("sticky"), replicas, 10, ask) == [10, 0, 0]
        assert shares(balance("sticky"), replicas, 10, Ask(None, 1000, cached={"r1": 990}))[1] == 10

    def test_less_than_that_is_only_less_work(self, balance, fleet):
        """A smaller part makes nobody a candidate; it still counts as less to do."""
        replicas, ask = fleet(2), Ask(None, 1000, cached={"r0": 700})
        assert shares(balance("sticky"), replicas, 10, ask) == [10, 0]
        replicas[0].pending = 701
        assert shares(balance("sticky"), replicas, 10, ask) == [0, 10]

    def test_a_saturated_replica_lets_go(self, fleet):
        """Past the penalty all are candidates."""
        replicas, ask = fleet(2), Ask(None, 1000, cached={"r0": 1000})
        policy = Sticky(random.Random(1), patience=5000)
        replicas[0].pending = 5000
        assert policy.choose(replicas, ask).name == "r0"
        replicas[0].pending = 7001
        assert policy.choose(replicas, ask).name == "r1"


class TestPrefixHash:
    def home(self, policy, replicas, *prefix):
        return policy.choose(replicas, Ask(None, 100, prefix=prefix)).name

    def test_prompts_that_begin_alike_stay_together(self, balance, fleet):
        """What stands beyond the first eight blocks says nothing, and what stands there decides, in every process."""
        policy, other, replicas = balance("prefix_hash", 1), balance("prefix_hash", 2), fleet(6)
        for number in range(50):
            start = [number * 97 + depth for depth in range(8)]
            assert self.home(policy, replicas, *start) == self.home(other, replicas[::-1], *start, 1, 2)
        homes = Counter(self.home(policy, replicas, number * 7919) for number in range(3000))
        assert min(homes.values()) > 400

    def test_a_beginning_that_everybody_shares_fills_one_after_the_other(self, balance, fleet):
        """The bound holds: no replica has more than a quarter above the mean, and one."""
        policy, replicas = balance("prefix_hash"), fleet(4)
        for sent in range(1, 300):
            policy.choose(replicas, Ask(None, 100, prefix=(5, 6))).inflight += 1
            assert max(replica.inflight for replica in replicas) <= 1.25 * sent / 4 + 2

    def test_the_number_of_blocks_can_be_set(self, fleet):
        """With one block all that begins with it is together."""
        policy, replicas = PrefixHash(random.Random(1), blocks=1), fleet(6)
        assert len({self.home(policy, replicas, 5, number) for number in range(50)}) == 1

    def test_a_prompt_without_a_block_goes_to_the_emptiest(self, balance, fleet):
        """There is nothing to hash."""
        replicas = fleet(3)
        replicas[0].inflight = replicas[2].inflight = 1
        assert shares(balance("prefix_hash"), replicas, 9, Ask(None, 10)) == [0, 9, 0]


class TestPowerOfTwo:
    def test_the_busiest_is_never_chosen(self, balance, fleet):
        """Of any two the emptier: who has more than all others gets nothing, and the emptiest the most."""
        replicas = fleet(4)
        for replica, inflight in zip(replicas, [9, 5, 3, 1], strict=True):
            replica.inflight = inflight
        counts = shares(balance("power_of_two"), replicas, 6000, Ask())
        assert counts[0] == 0
        assert 900 < counts[1] < 1100
        assert 1900 < counts[2] < 2100
        assert 2850 < counts[3] < 3150


class TestPending:
    """Tokens whose first answer byte has not come."""

    async def test_they_count_until_the_first_byte(self, clock):
        """Up on entering, down at the first byte and not again on leaving."""
        pool = make_pool(clock, 1)
        replica = pool.replicas[0]
        async with pool.lease(replica, ask=Ask(None, 700)) as lease:
            async with pool.lease(replica, ask=Ask(None, 150)):
                assert (replica.pending, replica.inflight) == (850, 2)
            assert replica.pending == 700
            lease.first_byte()
            lease.first_byte()
            assert (replica.pending, replica.inflight) == (0, 1)
        assert (replica.pending, replica.inflight) == (0, 0)

    async def test_a_failure_gives_them_back_with_the_lease(self, clock):
        """Failed attempts leave nothing behind, and no health check in between touches the count."""
        pool = make_pool(clock, 1)
        replica = pool.replicas[0]
        for _ in range(8):
            async with pool.lease(replica, ask=Ask(None, 300)) as lease:
                replica.up = False
                replica.up = True
                pool.refresh()
                assert replica.pending == 300
                lease.settle(Outcome.FAILED)
        assert replica.pending == 0

    @settings(deadline=None, max_examples=60)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["enter", "first", "settle", "leave", "down", "up"]), st.integers(0, 10), st.integers(0, 999)
            ),
            max_size=60,
        )
    )
    def test_they_are_the_sum_over_what_runs(self, steps):
        """Whatever happens in whatever order: those of the leases that are held and had no first byte, and in the end none."""
        pool = make_pool(lambda: 0.0, 2)
        truth = {}
        for what, index, tokens in steps:
            replica = pool.replicas[index % 2]
            lease = list(truth)[index % len(truth)] if truth else None
            if what == "enter":
                lease = run_through(pool.lease(replica, ask=Ask(None, tokens)).__aenter__())
                truth[lease] = tokens if tokens >= 128 else 0
            elif what in ("up", "down"):
                replica.up = what == "up"
            elif lease is not None and what == "first":
                lease.first_byte()
                truth[lease] = 0 if truth[lease] is not None else None
            elif lease is not None and what == "settle":
                lease.first_byte()
                lease.settle(Outcome.OK)
                truth[lease] = 0
            elif lease is not None and what == "leave":
                leave(lease)
                leave(lease)
                del truth[lease]
            for one in pool.replicas:
                assert one.pending == sum(tokens for held, tokens in truth.items() if held.replica is one)
        for lease in truth:
            leave(lease)
        assert [replica.pending for replica in pool.replicas] == [0, 0]

    async def test_they_are_nothing_where_nobody_says(self, clock):
        """A lease that is not told what it costs counts as a request alone, as one whose prompt is next to nothing."""
        pool = make_pool(clock, 1)
        lease = enter(pool, pool.replicas[0])
        assert (pool.replicas[0].pending, pool.replicas[0].inflight) == (0, 1)
        leave(lease)
        async with pool.lease(pool.replicas[0], ask=Ask(None, 127)) as short:
            assert (pool.replicas[0].pending, short.owes) == (0, False)


class TestSpeed:
    """Prefill rates of replicas, from the first bytes of requests that were alone."""

    @pytest.fixture
    def pool(self, clock):
        return make_pool(clock, 3, "work_cost")

    async def read(self, pool, replica, clock, tokens, seconds):
        async with pool.lease(replica, ask=Ask(None, tokens, stream=True)) as lease:
            clock.now += seconds
            lease.first_byte()

    async def test_a_replica_that_reads_twice_as_fast_is_worth_more(self, pool, clock):
        """One sample says nothing; its speed grows with what is known, towards the distance from the mean; others' falls."""
        fast, *others = pool.replicas
        for count in range(20):
            await self.read(pool, fast, clock, 4000, 0.25)
            for replica in others:
                await self.read(pool, replica, clock, 4000, 1.0)
            if not count:
                assert fast.speed == 1.0
        assert 1.6 < fast.speed < 2.3
        assert all(0.6 < replica.speed < 0.95 for replica in others)
        pool.remove(fast)
        assert [replica.speed for replica in others] == [1.0, 1.0]

    async def test_in_a_large_pool_too(self, clock):
        """Of fifty the one that reads three times as fast is found to, and chosen while all are alike else."""
        pool = make_pool(clock, 50, "work_cost")
        fast, *others = pool.replicas
        for _ in range(20):
            await self.read(pool, fast, clock, 4000, 0.3)
            for replica in others:
                await self.read(pool, replica, clock, 4000, 0.9)
        assert 1.8 < fast.speed < 3.1
        assert {pool.pick(Ask(None, 4000)) for _ in range(20)} == {fast}

    @pytest.mark.parametrize("count", [2, 3, 8])
    async def test_one_that_was_slow_once_is_tried_again(self, clock, count):
        """One request at a time: while the others are asked what it was ages, and when it is well it has its share again."""
        pool = make_pool(clock, count, "work_cost")
        slow, asked = pool.replicas[0], []

        async def ask(times, seconds):
            asked.clear()
            for _ in range(times):
                ask = Ask(None, 4000, stream=True)
                replica = pool.pick(ask)
                asked.append(replica)
                await self.read(pool, replica, clock, 4000, seconds if replica is slow else 0.03)

        await ask(60 * count, 0.03)
        assert asked.count(slow) > 20
        await ask(200 * count, 0.3)
        assert 1 <= asked.count(slow) < 50
        await ask(60 * count, 0.03)
        await ask(60 * count, 0.03)
        assert asked.count(slow) > 20

    async def test_noise_starves_nobody(self, pool, clock):
        """Equal engines of which the times of single requests differ: whoever looks slow by chance is asked again."""
        rng, counts = random.Random(5), dict.fromkeys(pool.replicas, 0)
        for _ in range(900):
            replica = pool.pick(Ask(None, 4000, stream=True))
            counts[replica] += 1
            await self.read(pool, replica, clock, 4000, 0.03 * rng.lognormvariate(0, 0.5))
        assert min(counts.values()) > 150

    async def test_what_was_measured_stays_while_nobody_is_alone(self, pool, clock):
        """Time alone takes nothing away: under load there are no samples, and it is then that speeds matter."""
        fast, *others = pool.replicas
        for _ in range(20):
            await self.read(pool, fast, clock, 4000, 0.25)
            for replica in others:
                await self.read(pool, replica, clock, 4000, 1.0)
        before = [replica.speed for replica in pool.replicas]
        clock.now += 3600
        pool.refresh()
        assert [replica.speed for replica in pool.replicas] == before

    async def test_alike_is_alike(self, pool, clock):
        """Engines that differ by a tenth from prompt to prompt are equal."""
        rng = random.Random(3)
        for _ in range(60):
            for replica in pool.replicas:
                tokens = rng.randrange(1024, 8000)
                await self.read(pool, replica, clock, tokens, tokens / 8000 * rng.uniform(0.9, 1.1))
        assert [replica.speed for replica in pool.replicas] == [1.0, 1.0, 1.0]

    async def test_wrong_estimates_of_tokens_make_nobody_faster(self, pool, clock):
        """With lognormal errors of 0.5 equal engines stay equal, at each moment."""
        rng = random.Random(4)
        for _ in range(300):
            tokens = rng.randrange(2000, 20_000)
            await self.read(
                pool, pool.replicas[rng.randrange(3)], clock, round(tokens * rng.lognormvariate(0, 0.5)), tokens / 8000
            )
            assert {replica.speed for replica in pool.replicas} <= {1.0}

    async def test_who_gets_the_long_prompts_is_not_slow_for_that(self, pool, clock):
        """Prompts of other lengths are read at other rates; replicas are compared by what each took for its lengths."""
        rng = random.Random(2)
        for _ in range(300):
            number = rng.randrange(3)
            tokens = round(1500 * 4 ** (number * rng.random() + rng.random()))
            seconds = 0.066 + 0.057e-3 * tokens + 0.0044e-6 * tokens**2
            await self.read(pool, pool.replicas[number], clock, tokens, seconds)
        assert [replica.speed for replica in pool.replicas] == [1.0, 1.0, 1.0]

    async def test_only_who_was_alone_says_something(self, pool, clock):
        """Company before or behind it, a short prompt, an answer that is no stream: none is a measurement."""
        slow, other, _ = pool.replicas
        await self.read(pool, other, clock, 4000, 0.1)
        async with pool.lease(slow, ask=Ask(None, 4000, stream=True)) as first:
            clock.now += 1
            async with pool.lease(slow, ask=Ask(None, 4000, stream=True)) as second:
                clock.now += 9
                first.first_byte()
                second.first_byte()
        await self.read(pool, slow, clock, 1000, 50.0)
        async with pool.lease(slow, ask=Ask(None, 4000)) as whole:
            clock.now += 50
            whole.first_byte()
        assert [replica.speed for replica in pool.replicas] == [1.0, 1.0, 1.0]

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 10**9), st.floats(0, 1e9)), max_size=40))
    def test_a_speed_is_bounded(self, samples):
        """Whatever was measured, no replica counts for more than four, or less than a quarter."""
        pool = make_pool(lambda: 0.0, 3)
        for number, tokens, seconds in samples:
            pool.prefilled(pool.replicas[number], tokens, seconds)
        assert all(0.249 < replica.speed < 4.001 for replica in pool.replicas)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2000), st.integers(0, 2000), st.sampled_from([0.5, 1.0])),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 3000),
    st.integers(0, 9),
)
def test_the_least_cost_wins_and_equals_take_turns_by_chance(states, tokens, seed):
    """Whatever runs, waits and is cached: the formula's least, and among equals the one that the draw names."""
    replicas = [make_replica(f"r{number}") for number in range(len(states))]
    for replica, (inflight, pending, _, speed) in zip(replicas, states, strict=True):
        replica.inflight, replica.pending, replica.speed = inflight, pending, speed
    cached = {replica.name: min(held, tokens) for replica, (_, _, held, _) in zip(replicas, states, strict=True) if held % 2}
    own = 2.0 + min(replica.pending for replica in replicas) / 8192.0
    costs = [(one.pending + own * (tokens - cached.get(one.name, 0)) + 105.0 * one.inflight) / one.speed for one in replicas]
    ties = [one for one, cost in zip(replicas, costs, strict=True) if cost == min(costs)]
    draw = random.Random(seed)
    wanted = ties[0] if len(ties) == 1 else ties[int(draw.random() * len(ties))]
    balance, ask = WorkCost(random.Random(seed)), Ask(None, tokens, cached=cached)
    assert balance.costs(replicas, ask) == costs
    assert balance.choose(replicas, ask) is wanted
