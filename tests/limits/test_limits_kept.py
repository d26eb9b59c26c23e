"""A limiter with a vault is killed and followed by another: balances go on, and requests that run are taken over."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from limits.memory import MemoryLimiter
from limits.types import LimitExceeded, Scope
from limits.vault import Vault, scope_key


def run(step):
    """Drive a coroutine that must not wait."""
    try:
        step.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a local limiter waited")


def outcome(step):
    """What a caller can tell of entering: nothing, or why not."""
    try:
        run(step)
    except LimitExceeded as error:
        return error.args
    return None


def leave(scope):
    run(scope.__aexit__(None, None, None))


def spent_of(limiter, scope):
    """The exact balance of a scope now, and its slots."""
    now, ledger = limiter.now(), limiter.ledger
    known = ledger._accounts.get(scope.id)
    account = known or ledger._blank(scope, now)
    account.advance(now)
    return account.requests, account.tokens, account.parallel


VARIANTS = [
    (Scope("a", "key", rpm=7, tpm=1000, max_parallel=3), Scope("a", "key", rpm=2, tpm=5000, max_parallel=1)),
    (Scope("b", "tenant", rpm=60, tpm=333), Scope("b", "tenant", tpm=10)),
    (Scope("c", "plan", tpm=10, max_parallel=2), Scope("c", "plan", rpm=1)),
    (Scope("d", "key"), Scope("d", "key", rpm=0, tpm=1 << 41)),
    (Scope("e", "key", rpm=60, tpm=900, burst=2.5), Scope("e", "key", rpm=60, tpm=900, burst=90.0)),
]
MODELS = [Scope("m", "model", rpm=3, tpm=600, max_parallel=1), Scope("n", "model", tpm=77, burst=10.0)]


@dataclass
class Open:
    """One request, in the limiter that is never killed and in the one that is."""

    admissions: list
    scopes: list
    reservations: list | None = None
    model: Scope | None = None
    refunded: bool = False
    settled: bool = False


class Restarts(RuleBasedStateMachine):
    @initialize(start=st.sampled_from([0.0, 7.3, 123456.789]), every_step=st.booleans())
    def begin(self, start, every_step):
        self.clock = start
        self.every_step = every_step  # a batch of its own for each decision, or as they come
        self.buffer = bytearray(Vault.size_for(16))
        self.plain = MemoryLimiter(lambda: self.clock)
        self.kept = MemoryLimiter(lambda: self.clock, Vault.open(self.buffer))
        self.open: list[Open] = []

    @property
    def both(self):
        return self.plain, self.kept

    @rule(seconds=st.sampled_from([0.000001, 0.3, 1.0, 7.77, 61.0]) | st.floats(0, 30))
    def time_passes(self, seconds):
        self.clock += seconds

    @rule(seconds=st.floats(0, 100))
    def clock_goes_back(self, seconds):
        self.clock = max(0.0, self.clock - seconds)

    @rule(
        scopes=st.lists(st.tuples(st.sampled_from(VARIANTS), st.integers(0, 1)), max_size=4, unique_by=lambda pair: pair[0][0].id)
    )
    def admit(self, scopes):
        scopes = [variants[which] for variants, which in scopes]
        admissions = [limiter.admit(scopes) for limiter in self.both]
        one, other = [outcome(admission.__aenter__()) for admission in admissions]
        assert one == other
        if one is None:
            self.open.append(Open(admissions, scopes))

    def some(self, data, *, reserved):
        found = [request for request in self.open if (request.reservations is not None) == reserved]
        return data.draw(st.sampled_from(found)) if found else None

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens=st.integers(0, 50) | st.integers(-5, 3000) | st.just(1 << 50), clamp=st.booleans())
    def reserve(self, data, tokens, clamp):
        request = self.some(data, reserved=False)
        if request is None:
            return
        model = data.draw(st.none() | st.sampled_from(MODELS))
        reservations = [one.reserve(tokens, model_scope=model, clamp=clamp) for one in request.admissions]
        one, other = [outcome(reservation.__aenter__()) for reservation in reservations]
        assert one == other
        if one is not None:
            request.refunded = True
        else:
            request.reservations, request.model, request.refunded, request.settled = reservations, model, False, False

    @precondition(lambda self: self.open)
    @rule(data=st.data(), used=st.integers(0, 100) | st.integers(0, 50_000) | st.just(1 << 60))
    def settle(self, data, used):
        request = self.some(data, reserved=True)
        if request is not None:
            request.settled = True
            for reservation in request.reservations:
                reservation.settle(used)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def leave_reservation(self, data):
        request = self.some(data, reserved=True)
        if request is not None:
            self.close_reservation(request)

    def close_reservation(self, request):
        for reservation in request.reservations:
            leave(reservation)
        request.reservations = None

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def refund(self, data):
        request = data.draw(st.sampled_from(self.open))
        request.refunded = True
        for admission in request.admissions:
            admission.refund()

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens=st.integers(0, 5000), refund=st.booleans())
    def conclude(self, data, tokens, refund):
        request = self.some(data, reserved=False)
        if request is not None:
            for admission in request.admissions:
                admission.conclude(tokens, refund=refund)
            self.close(request)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def leave(self, data):
        self.close(data.draw(st.sampled_from(self.open)))

    def close(self, request):
        if request.reservations is not None:
            self.close_reservation(request)
        for admission in request.admissions:
            leave(admission)
        self.open.remove(request)

    @rule()
    def commit(self):
        self.kept.commit()

    @rule()
    def kill(self):
        """At a commit, as a worker sees it. Requests that were given back, or settled, are on their way out and go first."""
        for request in list(self.open):
            if request.refunded or request.settled:
                self.close(request)
        self.kept.commit()
        self.kept = MemoryLimiter(lambda: self.clock, Vault.open(self.buffer))
        for request in self.open:
            self.adopt(request)

    def adopt(self, request):
        accounts = self.plain.ledger._accounts
        scopes = [accounts[scope.id].scope for scope in request.scopes]  # under the limits of today
        before = [spent_of(self.kept, scope)[:2] for scope in scopes]
        admission = request.admissions[1] = run(self.kept.adopt(scopes).__aenter__())
        if request.reservations is not None:
            tokens = request.reservations[1].tokens
            request.reservations[1] = run(admission.adopt_reservation(tokens, request.model).__aenter__())
            assert request.reservations[1].tokens == tokens
        assert [spent_of(self.kept, scope)[:2] for scope in scopes] == before

    @invariant()
    def commit_each_step(self):
        if self.every_step:
            self.kept.commit()

    @invariant()
    def every_balance_is_that_of_the_unkilled(self):
        for usual in [variants[0] for variants in VARIANTS] + MODELS:
            known = self.plain.ledger._accounts.get(usual.id)
            scope = known.scope if known else usual
            assert spent_of(self.plain, scope) == spent_of(self.kept, scope)
            assert self.plain.standing([scope]) == self.kept.standing([scope])

    def teardown(self):
        if hasattr(self, "kept"):
            for request in list(self.open):
                self.close(request)
            self.every_balance_is_that_of_the_unkilled()
            assert not any(account.parallel for account in self.kept.ledger._accounts.values())


class TestRestarts(Restarts.TestCase):
    """After any decisions and kills, every balance is what it would be without the kills, and no slot is left over."""

    settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def make(clock, buffer) -> MemoryLimiter:
    return MemoryLimiter(clock, Vault.open(buffer))


@pytest.fixture
def buffer() -> bytearray:
    return bytearray(Vault.size_for(16))


async def test_what_was_decided_after_the_last_commit_is_as_if_it_never_was(clock, buffer):
    """A worker that was not told of an admission asks again, and is not charged for both."""
    limiter, scope = make(clock, buffer), Scope("k", "key", rpm=10)
    async with limiter.admit([scope]):
        limiter.commit()
    async with limiter.admit([scope]):
        assert make(clock, buffer).standing([scope]).request_remaining == 9


async def test_each_step_of_a_request_is_in_the_vault_once_it_is_committed(clock, buffer):
    """Admission, reservation, settlement up or down, refund: each reaches the vault in a batch of its own."""
    limiter, scopes = make(clock, buffer), [Scope("k", "key", rpm=10, tpm=1000), Scope("m", "model", rpm=10, tpm=1000)]

    def check():
        limiter.commit()
        again = make(clock, buffer)
        assert [spent_of(again, scope)[:2] for scope in scopes] == [spent_of(limiter, scope)[:2] for scope in scopes]

    for used in (0, 90, 200):
        async with limiter.admit(scopes[:1]) as admission:
            check()
            async with admission.reserve(100, model_scope=scopes[1]) as reservation:
                check()
                reservation.settle(used)
                check()
            admission.refund()
            check()
        async with limiter.admit(scopes[:1]) as admission, admission.reserve(100, model_scope=scopes[1]):
            check()
        check()
    assert spent_of(limiter, scopes[0])[1] == 290 * 60_000_000


async def test_a_commit_without_a_decision_writes_nothing(clock, buffer):
    """What was written is not written again."""
    limiter = make(clock, buffer)
    async with limiter.admit([Scope("k", "key", rpm=10)]):
        limiter.commit()
    before = bytes(buffer)
    limiter.commit()
    assert buffer == before


async def test_a_restart_does_not_refill(clock, buffer):
    """Restarting over and over while no time passes gives nobody a request more."""
    scope, passed = Scope("k", "key", rpm=5), 0
    for _ in range(10):
        limiter = make(clock, buffer)
        try:
            async with limiter.admit([scope]):
                passed += 1
        except LimitExceeded:
            pass
        limiter.commit()
    assert passed == 5
    clock.pass_(12)
    assert make(clock, buffer).standing([scope]).request_remaining == 1


async def test_the_vault_is_asked_once_for_each_scope(clock, buffer):
    """A balance that was forgotten here since it came to rest does not come back from what the vault held at opening."""
    scope = Scope("k", "key", rpm=60)
    first = make(clock, buffer)
    async with first.admit([scope]):
        first.commit()
    second = make(clock, buffer)
    assert set(second.ledger._vault.past) == {scope_key("k")}
    async with second.admit([scope]):
        second.commit()
    clock.pass_(60)
    for number in range(100):
        async with second.admit([Scope(f"o{number}", "key", rpm=60)]):
            pass
    assert "k" not in second.ledger._accounts
    assert not second.ledger._vault.past
    assert second.standing([scope]).request_remaining == 60


async def test_refilling_goes_on_while_nobody_is_there(clock, buffer):
    """The time between the kill and the successor counts, whether the scope is seen at once or later."""
    scope = Scope("k", "key", tpm=60)
    limiter = make(clock, buffer)
    async with limiter.admit([scope]) as admission, admission.reserve(60) as reservation:
        reservation.settle(60)
    limiter.commit()
    clock.pass_(10)
    limiter = make(clock, buffer)
    clock.pass_(10)
    assert limiter.standing([scope]).token_remaining == 20


@given(st.floats(0, 1e6))
async def test_a_clock_behind_the_vault_stands_still(seconds):
    """A successor whose clock seems to have gone back neither refills nor fails: it waits until the clock has caught up."""
    now = [1_000_000.0]
    buffer, scope = bytearray(Vault.size_for(4)), Scope("k", "key", rpm=60)
    first = make(lambda: now[0], buffer)
    async with first.admit([scope]), first.admit([scope]):
        first.commit()
    now[0] -= seconds
    second = make(lambda: now[0], buffer)
    async with second.admit([scope]):
        assert second.standing([scope]).request_remaining == 57
        second.commit()
    now[0] = 1_000_001.0
    assert second.standing([scope]).request_remaining == 58
    assert make(lambda: now[0], buffer).standing([scope]).request_remaining == 58


async def test_a_record_of_the_future_stands_still(clock, buffer):
    """A balance whose own moment is ahead of the clock stays as it is until then."""
    vault, scope = Vault.open(buffer), Scope("k", "key", rpm=60)
    vault.put(scope_key("k"), int((clock.now + 30) * 1e6), 10 * 60_000_000, 0, 60, None)
    vault.commit(0)
    limiter = make(clock, buffer)
    for remaining in (50, 50, 50, 60):
        assert limiter.standing([scope]).request_remaining == remaining
        clock.pass_(15)


async def test_a_lower_limit_at_a_restart_makes_no_debt(clock, buffer):
    """Limits that changed with the restart are taken over as they are at run time."""
    limiter = make(clock, buffer)
    async with limiter.admit([Scope("k", "key", tpm=6000)]) as admission, admission.reserve(6000) as reservation:
        reservation.settle(6000)
    limiter.commit()
    scope = Scope("k", "key", tpm=60)
    limiter = make(clock, buffer)
    assert limiter.standing([scope]).token_reset == 60.0


async def test_a_shorter_burst_at_a_restart_makes_no_debt(clock, buffer):
    """What was no debt under the burst of then is none under that of now; what was one stays."""
    limiter = make(clock, buffer)
    for name, used in (("k", 6000), ("debtor", 6300)):
        async with limiter.admit([Scope(name, "key", tpm=6000)]) as admission, admission.reserve(6000) as reservation:
            reservation.settle(used)
    limiter.commit()
    limiter = make(clock, buffer)
    assert limiter.standing([Scope("k", "key", tpm=6000, burst=2.0)]).token_reset == 2.0
    assert limiter.standing([Scope("debtor", "key", tpm=6000, burst=2.0)]).token_reset == 5.0


async def test_adopted_requests_take_slots_beyond_the_limit(clock, buffer):
    """What runs, runs: it is counted even above the limit, and nobody new comes in until enough have left."""
    scope, model = Scope("k", "key", max_parallel=1), Scope("m", "model", max_parallel=1)
    limiter = make(clock, buffer)
    async with limiter.adopt([scope, scope]) as one, one.adopt_reservation(5, model):
        async with limiter.adopt([scope]) as two, two.adopt_reservation(5, model):
            assert (spent_of(limiter, scope), spent_of(limiter, model)) == ((0, 0, 2), (0, 0, 2))
        with pytest.raises(LimitExceeded):
            await limiter.admit([scope]).__aenter__()
    async with limiter.admit([scope]) as admission, admission.reserve(1, model_scope=model):
        pass
    assert (spent_of(limiter, scope), spent_of(limiter, model)) == ((0, 0, 0), (0, 0, 0))


@pytest.mark.parametrize(("used", "tokens", "requests"), [(None, 100, 1), (30, 70, 1), (130, -30, 1)])
async def test_an_adopted_reservation_ends_like_any_other(clock, buffer, used, tokens, requests):
    """Settled, it is corrected to what was used; unsettled, it charges nothing and gives the model's request back."""
    scope, model = Scope("k", "key", rpm=10, tpm=100), Scope("m", "model", rpm=10, tpm=1000)
    limiter = make(clock, buffer)
    admission = await limiter.admit([scope]).__aenter__()
    await admission.reserve(100, model_scope=model).__aenter__()
    limiter.commit()
    limiter = make(clock, buffer)
    async with limiter.adopt([scope]) as adopted, adopted.adopt_reservation(100, model) as reservation:
        assert adopted.standing().token_remaining == 0
        if used is not None:
            reservation.settle(used)
    unit = 60_000_000
    assert spent_of(limiter, scope) == (requests * unit, (100 - tokens) * unit, 0)
    assert spent_of(limiter, model) == (0 if used is None else unit, (100 - tokens) * unit, 0)
    limiter.commit()
    again = make(clock, buffer)
    assert [spent_of(again, one) for one in (scope, model)] == [spent_of(limiter, one) for one in (scope, model)]


async def test_an_adopted_admission_is_refunded_once(clock, buffer):
    """A request that is refused later gives back what the predecessor had debited."""
    scope = Scope("k", "key", rpm=10)
    limiter = make(clock, buffer)
    await limiter.admit([scope]).__aenter__()
    limiter.commit()
    limiter = make(clock, buffer)
    async with limiter.adopt([scope]) as adopted:
        assert adopted.standing().request_remaining == 9
        adopted.refund()
        adopted.refund()
        assert adopted.standing().request_remaining == 10


async def test_a_limiter_without_a_vault_commits_nothing(clock):
    """The same calls work in one process."""
    limiter = MemoryLimiter(clock)
    async with limiter.adopt([Scope("k", "key", rpm=1)]):
        limiter.commit()
    assert limiter.ledger.since == 0
