"""Any sequence of requests, days, wrong clocks, kills and restarts, against a plain list of everything that was charged."""

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from limits.journal import Journal
from limits.memory import MemoryLimiter
from limits.types import LimitExceeded, Scope
from limits.vault import Vault

DAY = 86_400
SCOPES = [
    Scope("tenant:a", "tenant", tpm=3000, day=1000, month=2500),
    Scope("plan:a/p", "plan", day=700),
    Scope("tenant:b", "tenant", month=5000),
    Scope("key:a/k", "key", rpm=50),
    Scope("plan:b/0", "plan", day=0, month=100),
]


def run(step):
    """Drive a coroutine that must not wait."""
    try:
        step.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a local limiter waited")


def refusal_of(step):
    try:
        run(step)
    except LimitExceeded as error:
        return error
    return None


@dataclass
class Open:
    """A request under way."""

    scopes: list
    admission: object
    reservation: object = None
    reserved: int = 0
    day: int = 0
    settled: bool = False
    lost: bool = False  # its worker does not answer


@dataclass
class Charge:
    """What a request was charged on a day: first what it reserved, then what it used."""

    scope: str
    day: int
    tokens: int
    reserved: int


def month_of(day):
    moment = datetime.fromtimestamp(day * DAY, UTC)
    return moment.year, moment.month


class Spending(RuleBasedStateMachine):
    @initialize(start=st.sampled_from(["2026-02-27T23:59:59", "2027-12-31T12:00:00", "2028-02-28T00:00:00"]))
    def begin(self, start):
        self.wall = datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp()
        self.clock = 1000.0
        self.folder = tempfile.TemporaryDirectory()
        self.days: dict[str, int] = {}
        self.charges: list[Charge] = []
        self.open: list[tuple[Open, list[Charge]]] = []
        self.buffer = bytearray(Vault.size_for(16))
        self.make()

    def make(self):
        self.journal = Journal(Path(self.folder.name), gather=0.0)
        self.journal.open()
        self.limiter = MemoryLimiter(lambda: self.clock, Vault.open(self.buffer), wall=lambda: self.wall, journal=self.journal)

    # -- the plain way

    def day(self, scopes):
        """Of a request of these scopes: never before the day that one of them has seen."""
        found = max([int(self.wall // DAY), *(self.days.get(scope.id, 0) for scope in scopes)])
        self.days.update({scope.id: found for scope in scopes})
        return found

    def used(self, scope, day):
        mine = [charge for charge in self.charges if charge.scope == scope.id]
        today = sum(charge.tokens for charge in mine if charge.day == day)
        return today, sum(charge.tokens for charge in mine if month_of(charge.day) == month_of(day))

    def left(self, scope, day):
        today, month = self.used(scope, day)
        rooms = [limit - used for limit, used in ((scope.day, today), (scope.month, month)) if limit is not None]
        return max(0, min(rooms))

    # -- what happens

    @rule(seconds=st.sampled_from([1, 3600, DAY, 5 * DAY, 31 * DAY]))
    def time_passes(self, seconds):
        self.wall += seconds
        self.clock += seconds

    @rule(seconds=st.sampled_from([10, DAY, 3 * DAY, 40 * DAY]))
    def the_clock_goes_back(self, seconds):
        self.wall -= seconds

    @rule(scopes=st.lists(st.sampled_from(SCOPES), min_size=1, max_size=3, unique_by=lambda scope: scope.id))
    def admit(self, scopes):
        admission = self.limiter.admit(scopes)
        run(admission.__aenter__())
        self.open.append((Open(scopes, admission), []))

    def some(self, data, *, reserved):
        found = [pair for pair in self.open if (pair[0].reservation is not None) == reserved and not pair[0].lost]
        return data.draw(st.sampled_from(found)) if found else None

    @precondition(lambda self: self.open)
    @rule(data=st.data(), tokens=st.integers(-5, 900), clamp=st.booleans(), least=st.integers(0, 300))
    def reserve(self, data, tokens, clamp, least):
        pair = self.some(data, reserved=False)
        if pair is None:
            return
        request, charges = pair
        limited = [scope for scope in request.scopes if scope.day is not None or scope.month is not None]
        day, wanted = self.day(limited), max(0, tokens)
        room = min([wanted, *(self.left(scope, day) for scope in limited)])
        need = min(wanted, max(1, least)) if clamp else wanted
        reservation = request.admission.reserve(tokens, clamp=clamp, least=least)
        error = refusal_of(reservation.__aenter__())
        if error is not None:
            if error.budget:
                assert need > room
                assert error.used + error.requested > error.limit
                assert error.never or error.wait > 0
            return
        assert need <= room
        assert reservation.tokens == room
        request.reservation, request.reserved, request.day, request.settled = reservation, room, day, False
        charges[:] = [Charge(scope.id, day, room, room) for scope in limited]
        self.charges += charges

    def charge(self, request, charges, used):
        if not request.settled:
            request.settled = True
            for charge in charges:
                charge.tokens = used

    @precondition(lambda self: self.open)
    @rule(data=st.data(), used=st.integers(0, 1500))
    def settle(self, data, used):
        pair = self.some(data, reserved=True)
        if pair is not None:
            self.charge(*pair, used)
            pair[0].reservation.settle(used)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def leave(self, data):
        self.close(data.draw(st.sampled_from(self.open)))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def a_worker_is_lost(self, data):
        """What it ran is charged to no budget, if it does not come back."""
        pair = self.some(data, reserved=True)
        if pair is not None and not pair[0].settled:
            request, charges = pair
            request.lost = True
            for charge in charges:
                charge.tokens = 0
            request.reservation.lose()
            run(request.reservation.__aexit__(None, None, None))
            run(request.admission.__aexit__(None, None, None))

    @rule()
    def the_worker_is_back(self):
        """And tells of what it has: that was reserved, and is settled as it ends."""
        for request, charges in self.open:
            if request.lost:
                request.lost = False
                self.adopt(request, lost=True)
                for charge in charges:
                    charge.tokens = charge.reserved

    def adopt(self, request, *, lost):
        request.admission = self.limiter.adopt(request.scopes)
        run(request.admission.__aenter__())
        if request.reservation is not None and request.settled:
            request.reservation = None
        elif request.reservation is not None:
            request.reservation = request.admission.adopt_reservation(request.reserved, day=request.day, lost=lost)
            run(request.reservation.__aenter__())

    def close(self, pair):
        request, charges = pair
        if request.lost:
            self.open.remove(pair)
            return
        if request.reservation is not None:
            self.charge(request, charges, 0)
            run(request.reservation.__aexit__(None, None, None))
        run(request.admission.__aexit__(None, None, None))
        self.open.remove(pair)

    @rule(data=st.data())
    def the_process_is_killed(self, data):
        """What was settled and committed is in the vault; its successor takes over what runs, if that was not killed as well."""
        self.limiter.commit()
        self.journal.close()
        self.make()
        for pair in list(self.open):
            if data.draw(st.booleans()):
                self.gone(pair)
            elif not pair[0].lost:
                self.adopt(pair[0], lost=False)

    @rule()
    def the_gateway_is_killed(self):
        """There is nothing but the journal, and nobody knows what was used by what ran."""
        self.journal.close()
        self.buffer = bytearray(Vault.size_for(16))
        self.make()
        for pair in list(self.open):
            self.gone(pair)

    def gone(self, pair):
        request, charges = pair
        if request.reservation is not None and not request.lost:
            self.charge(request, charges, 0)
        self.open.remove(pair)

    @invariant()
    def what_is_used_is_what_was_charged(self):
        for scope in SCOPES:
            for one in self.limiter.budgets([scope]) if hasattr(self, "limiter") else []:
                assert (one.day_used, one.month_used) == self.used(scope, self.day([scope]))

    @invariant()
    def nobody_used_more_than_a_budget_and_what_settling_added(self):
        if not hasattr(self, "limiter"):
            return
        for scope in SCOPES:
            for limit, period in ((scope.day, lambda day: day), (scope.month, month_of)):
                spent: dict[object, int] = {}
                for charge in self.charges:
                    if charge.scope == scope.id and limit is not None:
                        spent[period(charge.day)] = spent.get(period(charge.day), 0) + min(charge.tokens, charge.reserved)
                assert all(tokens <= limit for tokens in spent.values())

    def teardown(self):
        if hasattr(self, "limiter"):
            for pair in list(self.open):
                self.close(pair)
            self.what_is_used_is_what_was_charged()
            self.journal.close()
            self.folder.cleanup()


class TestSpending(Spending.TestCase):
    """Every decision, every reservation and every count is as the list has it, whatever the clock does and whoever dies."""

    settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
