"""A limiter on a real server beside one in memory, on the same trace of moments: the same decisions, the same balances."""

import asyncio
import struct
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from limits.bucket import UNIT, Account
from limits.budget import Used, day_of
from limits.memory import MemoryLimiter
from limits.types import LimitExceeded, Scope

VARIANTS = [
    (Scope("key:t/a", "key", rpm=7, tpm=1000, max_parallel=3), Scope("key:t/a", "key", rpm=2, tpm=5000, max_parallel=1)),
    (Scope("tenant:t", "tenant", rpm=60, tpm=333, day=500, month=900), Scope("tenant:t", "tenant", tpm=10, day=0)),
    (Scope("plan:t/p", "plan", tpm=10, max_parallel=2), Scope("plan:t/p", "plan", rpm=1, max_parallel=2)),
    (Scope("plan:t/q", "plan", month=4000), Scope("plan:t/q", "plan", day=3000, month=1 << 51)),
    (Scope("key:t/d", "key"), Scope("key:t/d", "key", rpm=0, tpm=1 << 39)),
    (Scope("key:t/e", "key", rpm=60, tpm=900, burst=1.5), Scope("key:t/e", "key", rpm=60, tpm=900, burst=90.001)),
    (Scope("key:t/g", "key", rpm=7, tpm=(1 << 40) - 1, burst=3600.0), Scope("key:t/g", "key", rpm=1, tpm=7, burst=1.0)),
    (Scope("key:t/f", "key", rpm=2_000_001, tpm=3_000_000_019), Scope("key:t/f", "key", rpm=1, tpm=(1 << 40) - 1)),
]
MODELS = [
    Scope("model:t/m", "model", rpm=3, tpm=600, max_parallel=1),
    Scope("model:t/n", "model", tpm=77),
    Scope("model:t/o", "model", rpm=2, burst=10.0),
]
LARGE = 1 << 45
DAY = 86_400.0


@dataclass
class Open:
    """One request, in both limiters."""

    admissions: list
    scopes: list
    reservations: list | None = None
    model: Scope | None = None
    settled: bool = False


class Same(RuleBasedStateMachine):
    server = None

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()

    @initialize(start=st.sampled_from([86_400.0, 86_407.3, 1_790_000_000.789]))
    def begin(self, start):
        from limits.redis.limiter import RedisLimiter

        self.server.command(b"FLUSHALL")
        self.clock = start
        self.memory = MemoryLimiter(lambda: self.clock, wall=self.wall)
        self.redis = RedisLimiter(self.server.url, deadline=5.0, clock=self.now, wall=self.wall, moment=self.memory.now)
        self.runner.run(self.redis.start())
        self.open: list[Open] = []
        self.which = [0] * len(VARIANTS)

    def now(self):
        return (self.memory.now() + 0.5) / 1e6  # so that the product with 1e6 is cut to the same microsecond

    def wall(self):
        return self.memory.now() / 1e6

    @property
    def both(self):
        return self.memory, self.redis

    def outcomes(self, steps):
        """What a caller can tell of entering each: nothing, or why not."""

        async def outcome(step):
            try:
                await step
            except LimitExceeded as error:
                return error.args
            return None

        async def all_of_them():
            return [await outcome(step) for step in steps]

        one, other = self.runner.run(all_of_them())
        assert one == other
        return one

    def leave(self, scopes):
        self.outcomes([scope.__aexit__(None, None, None) for scope in scopes])

    @rule(seconds=st.sampled_from([0.000001, 0.3, 1.0, 7.77]) | st.floats(0, 30) | st.sampled_from([61.0, DAY, 28 * DAY]))
    def time_passes(self, seconds):
        self.clock += seconds
        self.runner.run(self.renew())

    async def renew(self):
        self.redis.held.renew()

    @rule(seconds=st.floats(0, 100))
    def clock_goes_back(self, seconds):
        self.clock = max(0.0, self.clock - seconds)

    @precondition(lambda self: not self.open)
    @rule(which=st.lists(st.integers(0, 1), min_size=len(VARIANTS), max_size=len(VARIANTS)))
    def limits_change(self, which):
        self.which = which

    @rule(scopes=st.lists(st.integers(0, len(VARIANTS) - 1), max_size=4))
    def admit(self, scopes):
        scopes = [VARIANTS[number][self.which[number]] for number in scopes]
        admissions = [limiter.admit(scopes) for limiter in self.both]
        if self.outcomes([admission.__aenter__() for admission in admissions]) is None:
            self.open.append(Open(admissions, scopes))

    def some(self, data, *, reserved):
        found = [request for request in self.open if (request.reservations is not None) == reserved]
        return data.draw(st.sampled_from(found)) if found else None

    @precondition(lambda self: self.open)
    @rule(
        data=st.data(),
        tokens=st.integers(0, 50) | st.integers(-5, 3000) | st.just(LARGE),
        clamp=st.booleans(),
        least=st.integers(0, 200),
    )
    def reserve(self, data, tokens, clamp, least):
        request = self.some(data, reserved=False)
        if request is None:
            return
        model = data.draw(st.none() | st.sampled_from(MODELS))
        reservations = [one.reserve(tokens, model_scope=model, clamp=clamp, least=least) for one in request.admissions]
        if self.outcomes([reservation.__aenter__() for reservation in reservations]) is None:
            request.reservations, request.model, request.settled = reservations, model, False
            one, other = [(reservation.tokens, reservation.day) for reservation in reservations]
            assert one == other

    @rule(
        scopes=st.lists(st.integers(0, len(VARIANTS) - 1), max_size=4, unique=True),
        model=st.none() | st.sampled_from(MODELS),
        tokens=st.none() | st.integers(0, 3000) | st.just(LARGE),
        clamp=st.booleans(),
        least=st.integers(0, 200),
    )
    def foresee(self, scopes, model, tokens, clamp, least):
        """What is foreseen, by both, is what then happens."""
        scopes = [VARIANTS[number][self.which[number]] for number in scopes]
        if self.changed(scopes):
            return

        async def ask():
            everyone = scopes if model is None else [*scopes, model]
            await self.redis.refresh(everyone)
            await self.redis.ask_budgets(everyone)

        self.runner.run(ask())
        told = [limiter.foresee(scopes, model, tokens, clamp=clamp, least=least) for limiter in self.both]
        told = [None if one is None else one.args for one in told]
        admissions = [limiter.admit(scopes) for limiter in self.both]
        happens = self.outcomes([admission.__aenter__() for admission in admissions])
        if happens is None:
            if tokens is not None:
                reservations = [one.reserve(tokens, model_scope=model, clamp=clamp, least=least) for one in admissions]
                happens = self.outcomes([reservation.__aenter__() for reservation in reservations])
                if happens is None:
                    self.leave(reservations)
            self.leave(admissions)
        assert told == [happens, happens]

    def changed(self, scopes):
        """Some have other limits, of which the server hears with the next request."""
        known = [self.memory.ledger._accounts.get(scope.id) for scope in scopes]
        return any(one is not None and one.scope is not scope for one, scope in zip(known, scopes, strict=True))

    @rule()
    def budgets_are_set_back(self):
        scopes = [variants[which] for variants, which in zip(VARIANTS, self.which, strict=True)]
        if self.changed(scopes):
            return

        async def set_back():
            for limiter in self.both:
                await limiter.set_back_budgets(scopes)

        self.runner.run(set_back())

    @precondition(lambda self: self.open)
    @rule(data=st.data(), used=st.integers(0, 100) | st.integers(0, 50_000) | st.just(LARGE))
    def settle(self, data, used):
        request = self.some(data, reserved=True)
        if request is not None:

            async def settle():
                for reservation in request.reservations:
                    reservation.settle(used)

            self.runner.run(settle())
            request.settled = True

    @precondition(lambda self: self.open)
    @rule(data=st.data(), used=st.none() | st.integers(0, 5000) | st.just(LARGE))
    def lose(self, data, used):
        """Its worker does not answer. If it comes back it still has the request, and ends it."""
        request = self.some(data, reserved=True)
        if request is None or request.settled:
            return

        async def said(verb, *words):
            for reservation in request.reservations:
                getattr(reservation, verb)(*words)

        self.runner.run(said("lose"))
        held = request.reservations[0]
        self.leave(request.reservations)
        self.leave(request.admissions)
        request.reservations = None
        self.open.remove(request)
        if used is not None:
            request.admissions = [limiter.adopt(request.scopes) for limiter in self.both]
            self.outcomes([admission.__aenter__() for admission in request.admissions])
            request.reservations = [
                admission.adopt_reservation(held.tokens, request.model, day=held.day, lost=True)
                for admission in request.admissions
            ]
            self.outcomes([reservation.__aenter__() for reservation in request.reservations])
            self.runner.run(said("settle", used))
            self.leave(request.reservations)
            self.leave(request.admissions)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def leave_reservation(self, data):
        request = self.some(data, reserved=True)
        if request is not None:
            self.leave(request.reservations)
            request.reservations = None

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def refund(self, data):
        request = data.draw(st.sampled_from(self.open))

        async def refund():
            for admission in request.admissions:
                admission.refund()

        self.runner.run(refund())

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens=st.integers(0, 50) | st.integers(0, 5000) | st.just(LARGE), refund=st.booleans())
    def conclude(self, data, tokens, refund):
        request = self.some(data, reserved=False)
        if request is None or any(admission.refunded for admission in request.admissions):
            return

        async def conclude():
            for admission in request.admissions:
                admission.conclude(tokens, refund=refund)

        self.runner.run(conclude())
        self.close(request)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def leave_admission(self, data):
        self.close(data.draw(st.sampled_from(self.open)))

    def close(self, request):
        if request.reservations is not None:
            self.leave(request.reservations)
        self.leave(request.admissions)
        self.open.remove(request)

    @invariant()
    def every_balance_is_the_same(self):
        if not hasattr(self, "redis"):
            return
        self.runner.run(self.redis.held.beat())  # behind everything that was said
        scopes = [variants[which] for variants, which in zip(VARIANTS, self.which, strict=True)] + MODELS
        self.memory.standing(scopes)
        for one in self.memory.budgets(scopes):
            assert self.used(one.scope) == (one.day_used, one.month_used)
        for scope in scopes:
            kept = self.memory.ledger._accounts.get(scope.id)
            mine = (kept.requests, kept.tokens, kept.parallel) if kept else (0, 0, 0)
            assert (*self.spent(scope), self.held(scope) if scope.max_parallel else mine[2]) == mine
            known = self.redis._names._known.get(scope.id)
            if kept is not None and known is not None and kept.scope is known.scope is scope:  # else they have changed since
                assert self.redis.standing([scope]) == self.memory.standing([scope])

    def value(self, *words):
        head, _, rest = self.server.command(*words).partition(b"\r\n")
        return rest[: int(head[1:])] if head[:1] == b"$" and head != b"$-1" else head

    def key(self, scope):
        from limits.redis.names import Known

        return Known(scope, Account(scope, 0)).balance

    def spent(self, scope):
        value = self.value(b"GET", self.key(scope))
        if value == b"$-1":
            return 0, 0
        at, *numbers = map(int, struct.unpack(">9q", value))
        rpm, tpm = [None if limit < 0 else limit for limit in numbers[4::2]]
        account = Account(Scope(scope.id, scope.kind, rpm, tpm), at)
        account.requests, account.tokens = numbers[0] * UNIT + numbers[1], numbers[2] * UNIT + numbers[3]
        account.advance(self.memory.now())
        return account.requests, account.tokens

    def used(self, scope):
        value = self.value(b"GET", self.key(scope) + b":budget")
        return (0, 0) if value == b"$-1" else self.as_of_now(Used(*struct.unpack(">5q", value)[:3]))

    def as_of_now(self, used):
        used.advance(day_of(self.wall()))
        return used.today, used.month

    def held(self, scope):
        return int(self.value(b"ZCARD", self.key(scope) + b":slots")[1:])

    def teardown(self):
        if not hasattr(self, "redis"):
            return
        try:
            for request in list(self.open):
                self.close(request)
            self.every_balance_is_the_same()
            assert b":open:" not in self.server.command(b"KEYS", b"*:open:*")
            assert b":slots" not in self.server.command(b"KEYS", b"*:slots")
        finally:
            self.runner.run(self.redis.close())
            self.runner.close()


@pytest.mark.parametrize("machine", [Same])
def test_memory_and_a_server_decide_identically(one_redis, machine):
    """Refusals with their figures, what is reserved, and every balance to the sixty-millionth, after every step."""
    machine.server = one_redis
    checks = [HealthCheck.too_slow]
    run_state_machine_as_test(
        machine, settings=settings(max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=checks)
    )
