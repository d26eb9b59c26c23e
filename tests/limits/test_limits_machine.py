"""Any sequence of admissions, reservations, settlements and clock jumps, against buckets kept in exact fractions."""

from dataclasses import dataclass, field
from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from limits.bucket import UNIT
from limits.memory import MemoryLimiter
from limits.types import LimitExceeded, Scope


def run(step):
    """Drive a coroutine that must not wait."""
    try:
        step.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a local limiter waited")


def refusal_of(step) -> LimitExceeded | None:
    try:
        run(step)
    except LimitExceeded as error:
        return error
    return None


@dataclass
class Bucket:
    """What is left, the plain way: refill first, never above the burst."""

    limit: int | None
    burst: int | None
    left: Fraction = Fraction(0)
    at: Fraction = Fraction(0)
    flow: list[tuple[Fraction, int, bool]] = field(default_factory=list)  # when, net debit, was it an admission

    def refill(self, now: Fraction) -> None:
        if self.limit is not None:
            self.left = min(Fraction(self.burst), self.left + (now - self.at) * self.limit / 60)
        self.at = now

    def fits(self, amount: int) -> bool:
        return self.limit is None or self.left >= amount

    def debit(self, amount: int, *, admission: bool) -> None:
        if self.limit is not None:
            self.left = min(Fraction(self.burst), self.left - amount)
        self.flow.append((self.at, amount, admission))


def whole_burst(limit: int | None, seconds: float) -> int | None:
    """So many seconds of a limit a minute, in whole ones and one at least."""
    return None if limit is None else max(1, int(Fraction(str(seconds)) * limit / 60))


class Oracle:
    def __init__(self, scope: Scope, now: Fraction) -> None:
        requests, tokens = whole_burst(scope.rpm, scope.burst), whole_burst(scope.tpm, scope.burst)
        self.requests = Bucket(scope.rpm, requests, Fraction(requests or 0), now)
        self.tokens = Bucket(scope.tpm, tokens, Fraction(tokens or 0), now)
        self.slots = scope.max_parallel
        self.held = 0

    def refill(self, now: Fraction) -> None:
        self.requests.refill(now)
        self.tokens.refill(now)

    def fits(self, requests: int, tokens: int | None, slots: int) -> bool:
        return (
            (not requests or self.requests.fits(requests))
            and (tokens is None or self.tokens.fits(tokens))
            and (not slots or self.slots is None or self.held + slots <= self.slots)
        )

    def take(self, requests: int, tokens: int | None, slots: int) -> None:
        if requests:
            self.requests.debit(requests, admission=True)
        if tokens is not None:
            self.tokens.debit(tokens, admission=True)
        self.held += slots


@dataclass
class Open:
    """A request under way, as the test sees it."""

    admission: object
    scopes: list[Scope]
    refunded: bool = False
    reservation: object = None
    tokens: int = 0
    model: Scope | None = None
    settled: bool = False


SCOPES = [
    Scope("a", "key", rpm=7, tpm=1000, max_parallel=3),
    Scope("b", "tenant", rpm=60, tpm=333),
    Scope("c", "plan", tpm=10, max_parallel=2),
    Scope("d", "key", rpm=1, burst=1.0),
    Scope("e", "tenant"),
    Scope("f", "key", rpm=2_000_001, tpm=3_000_000_019, burst=3600.0),
    Scope("g", "tenant", rpm=60, tpm=333, burst=7.5),
    Scope("h", "plan", rpm=100, tpm=50, burst=90.001),
]
MODELS = [
    Scope("m", "model", rpm=3, tpm=600, max_parallel=1),
    Scope("n", "model", tpm=77),
    Scope("o", "model", rpm=2, burst=600.0),
    Scope("p", "model", rpm=30, tpm=6000, burst=1.5),
]


class Limits(RuleBasedStateMachine):
    @initialize(start=st.sampled_from([0.0, 7.3, 123456.789]))
    def begin(self, start):
        self.clock = start
        self.limiter = MemoryLimiter(lambda: self.clock)
        self.now = Fraction(self.limiter.now(), 10**6)
        self.oracles = {scope.id: Oracle(scope, self.now) for scope in SCOPES + MODELS}
        self.open: list[Open] = []

    def refilled(self, scopes) -> list[Oracle]:
        self.now = max(self.now, Fraction(int(self.clock * 1e6), 10**6))
        found = [self.oracles[scope.id] for scope in scopes]
        for oracle in found:
            oracle.refill(self.now)
        return found

    @rule(seconds=st.sampled_from([0.000001, 0.3, 1.0, 7.77, 61.0]) | st.floats(0, 30))
    def time_passes(self, seconds):
        self.clock += seconds

    @rule(seconds=st.floats(0, 100))
    def clock_goes_back(self, seconds):
        self.clock = max(0.0, self.clock - seconds)

    @rule(scopes=st.lists(st.sampled_from(SCOPES), max_size=3, unique_by=lambda scope: scope.id))
    def admit(self, scopes):
        oracles = self.refilled(scopes)
        fits = all(oracle.fits(1, None, 1) for oracle in oracles)
        admission = self.limiter.admit(scopes)
        error = refusal_of(admission.__aenter__())
        assert (error is None) == fits
        if error is not None:
            assert error.wait > 0
            assert not error.never
            return
        for oracle in oracles:
            oracle.take(1, None, 1)
        self.open.append(Open(admission, scopes))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens=st.integers(0, 50) | st.integers(-5, 3000), clamp=st.booleans())
    def reserve(self, data, tokens, clamp):
        request = data.draw(st.sampled_from(self.open))
        if request.reservation is not None:
            return
        model = data.draw(st.none() | st.sampled_from(MODELS))
        oracles, others = self.refilled(request.scopes), self.refilled([model] if model else [])
        bursts = [oracle.tokens.burst for oracle in oracles + others if oracle.tokens.burst is not None]
        due = min([max(tokens, 0), *(bursts if clamp else [])])
        again = int(request.refunded)
        fits = all(o.fits(again, due, 0) for o in oracles) and all(o.fits(1, due, 1) for o in others)
        reservation = request.admission.reserve(tokens, model_scope=model, clamp=clamp)
        error = refusal_of(reservation.__aenter__())
        assert (error is None) == fits
        if error is not None:
            assert error.never == any(due > burst for burst in bursts)
            assert (error.wait > 0) != error.never
            if not request.refunded:
                self.give_request(request.scopes)
            request.refunded = True
            return
        assert reservation.tokens == due
        for oracle in oracles:
            oracle.take(again, due, 0)
        for oracle in others:
            oracle.take(1, due, 1)
        request.reservation, request.tokens, request.model = reservation, due, model
        request.refunded = request.settled = False

    def give_request(self, scopes):
        for oracle in self.refilled(scopes):
            oracle.requests.debit(-1, admission=False)

    def settle_oracle(self, request, used):
        if not request.settled:
            request.settled = True
            for oracle in self.refilled(request.scopes + ([request.model] if request.model else [])):
                oracle.tokens.debit(used - request.tokens, admission=False)

    @precondition(lambda self: any(request.reservation for request in self.open))
    @rule(data=st.data(), used=st.integers(0, 100) | st.integers(0, 50_000))
    def settle(self, data, used):
        request = data.draw(st.sampled_from([request for request in self.open if request.reservation]))
        self.settle_oracle(request, used)
        request.reservation.settle(used)

    @precondition(lambda self: any(request.reservation for request in self.open))
    @rule(data=st.data())
    def leave_reservation(self, data):
        self.close_reservation(data.draw(st.sampled_from([request for request in self.open if request.reservation])))

    def close_reservation(self, request):
        if request.model:
            (oracle,) = self.refilled([request.model])
            oracle.held -= 1
            if not request.settled:
                oracle.requests.debit(-1, admission=False)
        self.settle_oracle(request, 0)
        run(request.reservation.__aexit__(None, None, None))
        request.reservation.settle(12345)
        request.reservation = None

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def refund(self, data):
        request = data.draw(st.sampled_from(self.open))
        if not request.refunded:
            self.give_request(request.scopes)
        request.refunded = True
        request.admission.refund()

    @precondition(lambda self: any(request.reservation is None for request in self.open))
    @rule(data=st.data(), tokens=st.integers(0, 50) | st.integers(0, 5000), refund=st.booleans())
    def conclude(self, data, tokens, refund):
        request = data.draw(st.sampled_from([request for request in self.open if request.reservation is None]))
        for oracle in self.refilled(request.scopes):
            oracle.tokens.debit(tokens, admission=False)
        if refund and not request.refunded:
            self.give_request(request.scopes)
        request.refunded = request.refunded or refund
        request.admission.conclude(tokens, refund=refund)
        self.close(request)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def leave(self, data):
        self.close(data.draw(st.sampled_from(self.open)))

    def close(self, request):
        if request.reservation is not None:
            self.close_reservation(request)
        run(request.admission.__aexit__(None, None, None))
        for scope in request.scopes:
            self.oracles[scope.id].held -= 1
        self.open.remove(request)

    def balances(self):
        self.limiter.standing(SCOPES + MODELS)  # brings every account up to now
        return {name: (a.requests, a.tokens, a.parallel) for name, a in self.limiter.ledger._accounts.items()}

    @invariant()
    def every_balance_is_exact(self):
        kept = self.balances()
        self.refilled(SCOPES + MODELS)
        for name, oracle in self.oracles.items():
            requests, tokens, held = kept.get(name, (0, 0, 0))
            assert held == oracle.held
            for spent, bucket in ((requests, oracle.requests), (tokens, oracle.tokens)):
                assert Fraction(spent, UNIT) == (0 if bucket.limit is None else bucket.burst - bucket.left)

    def teardown(self):
        if not hasattr(self, "limiter"):
            return
        for request in list(self.open):
            self.close(request)
        self.every_balance_is_exact()
        for oracle in self.oracles.values():
            check_flow(oracle.requests)
            check_flow(oracle.tokens)
        self.everything_comes_back()

    def everything_comes_back(self):
        self.clock = float(self.now) + 1e7
        for scope in SCOPES + MODELS:
            place = self.limiter.standing([scope])
            most = whole_burst(scope.rpm, scope.burst), whole_burst(scope.tpm, scope.burst)
            assert (place.request_remaining, place.token_remaining) == most == (place.request_burst, place.token_burst)
            assert (place.request_limit, place.token_limit) == (scope.rpm, scope.tpm)
        assert all(account.idle() for account in self.limiter.ledger._accounts.values())


def check_flow(bucket: Bucket) -> None:
    """What was let in, net of what was given back, over any span that ends with an admission: burst + rate x time."""
    if bucket.limit is None:
        return
    for last, (end, _, admission) in enumerate(bucket.flow):
        if admission:
            total = 0
            for start, amount, _ in reversed(bucket.flow[: last + 1]):
                total += amount
                assert total <= bucket.burst + (end - start) * bucket.limit / 60


class TestLimits(Limits.TestCase):
    """Balances equal the oracle's after every step, refusals change none, and nothing is left when all have gone."""

    settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
