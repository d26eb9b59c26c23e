"""Limits as callers see them: admit, reserve, settle, refuse."""

import asyncio
import gc
import weakref
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limits.bucket import UNIT, Account
from limits.memory import MemoryLimiter
from limits.types import LimitExceeded, Scope, Standing


def tenant(**limits) -> Scope:
    return Scope("tenant:acme", "tenant", name="acme", **limits)


def key(**limits) -> Scope:
    return Scope("key:k1", "key", name="k1", **limits)


def model(**limits) -> Scope:
    return Scope("tenant:acme/model:big", "model", name="big", **limits)


async def once(limiter, scopes, tokens=0, *, used=None, **more) -> int:
    """One whole request; returns what was reserved."""
    async with limiter.admit(scopes) as admission, admission.reserve(tokens, **more) as reservation:
        reservation.settle(reservation.tokens if used is None else used)
        return reservation.tokens


async def test_concurrent_requests_cannot_pass_together_what_they_could_not_one_by_one(limiter):
    """Tokens are set aside at admission, so five at once through 100 TPM get 100 between them, not 100 each."""
    passed = 0
    inside = asyncio.Event()

    async def request() -> None:
        nonlocal passed
        async with limiter.admit([tenant(tpm=100)]) as admission, admission.reserve(40) as reservation:
            passed += 1
            await inside.wait()
            reservation.settle(40)

    tasks = [asyncio.create_task(request()) for _ in range(5)]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    assert passed == 2
    inside.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results].count(LimitExceeded) == 3
    assert done


async def test_scopes_with_one_id_share_one_balance(limiter):
    """Two front ends with their own Scope objects of the same id do not get the limit twice."""
    for _ in range(2):
        await once(limiter, [tenant(rpm=2)])
    with pytest.raises(LimitExceeded):
        await once(limiter, [tenant(rpm=2)])


async def test_a_scope_that_is_named_twice_is_charged_once(limiter):
    """Equal ids in one request are one scope, in and out."""
    scope = tenant(rpm=10, max_parallel=1)
    async with limiter.admit([scope, tenant(rpm=10, max_parallel=1)]) as admission:
        assert admission.standing().request_remaining == 9
    async with limiter.admit([scope]):
        pass


async def test_model_scope_must_not_repeat_a_scope_of_the_admission(limiter):
    """To name one balance in both steps is a mistake of the caller's and changes nothing."""
    scope = tenant(rpm=10, tpm=10)
    async with limiter.admit([scope]) as admission:
        with pytest.raises(ValueError, match="charged by the admission already"):
            async with admission.reserve(5, model_scope=tenant(rpm=10, tpm=10)):
                pass
        assert (admission.standing().request_remaining, admission.standing().token_remaining) == (9, 10)


@pytest.mark.parametrize("tpm", [1, 100, 1023])
async def test_unnamed_maximum_is_clamped_to_the_burst(limiter, clock, tpm):
    """A default reservation larger than the whole limit takes the whole limit, and so passes."""
    assert await once(limiter, [tenant(tpm=tpm)], 1024, clamp=True) == tpm
    with pytest.raises(LimitExceeded) as refused:
        await once(limiter, [tenant(tpm=tpm)], 1024, clamp=True)
    assert not refused.value.never
    clock.pass_(refused.value.wait)
    await once(limiter, [tenant(tpm=tpm)], 1024, clamp=True)


async def test_clamp_is_to_the_smallest_burst_of_all_scopes(limiter):
    """The smallest burst counts, the model scope's included, and unlimited scopes do not."""
    scopes = [key(), tenant(tpm=500)]
    assert await once(limiter, scopes, 1024, model_scope=model(tpm=300), clamp=True) == 300
    assert await once(limiter, scopes, 100, clamp=True) == 100
    assert await once(limiter, [key()], 1024, clamp=True) == 1024


@pytest.mark.parametrize("where", ["tenant", "model"])
async def test_explicit_need_beyond_the_burst_can_never_fit(limiter, where):
    """A request that names more than the whole limit is told that no waiting helps, and costs nothing."""
    scope = tenant(rpm=5, tpm=10_000 if where == "model" else 100)
    other = model(rpm=5, tpm=100)
    with pytest.raises(LimitExceeded) as refused:
        await once(limiter, [scope], 101, model_scope=other)
    error = refused.value
    assert (error.never, error.wait, error.resource, error.limit, error.used, error.requested) == (
        True, 0.0, "tokens", 100, 0, 101,
    )  # fmt: skip
    assert error.scope is (other if where == "model" else scope)
    assert limiter.standing([scope]).request_remaining == 5
    assert limiter.standing([other]) == Standing(5, 5, 0.0, 100, 100, 0.0, 5, 100)


async def test_never_is_told_before_a_wait(limiter):
    """Where one scope says later and another says never, never is the answer."""
    await once(limiter, [tenant(tpm=1000)], 1000)
    with pytest.raises(LimitExceeded) as refused:
        await once(limiter, [tenant(tpm=1000), key(tpm=50)], 60)
    assert refused.value.never
    assert refused.value.scope.kind == "key"


@pytest.mark.parametrize(
    ("limits", "resource"), [({"rpm": 0}, "requests"), ({"tpm": 0}, "tokens"), ({"max_parallel": 0}, "parallel")]
)
async def test_a_limit_of_zero_is_a_closed_door(limiter, limits, resource):
    """0 is not unlimited: nothing passes, not even clamped, and no waiting helps."""
    with pytest.raises(LimitExceeded) as refused:
        await once(limiter, [tenant(**limits)], 10, clamp=True)
    assert (refused.value.resource, refused.value.never, refused.value.limit) == (resource, True, 0)
    zero = limiter.standing([key(rpm=0, tpm=0)])
    assert (zero.request_remaining, zero.token_remaining, zero.token_reset) == (0, 0, 0.0)


async def test_rejection_by_a_parallel_limit_burns_no_request(limiter):
    """One request a minute, one slot: who was refused for the slot still has the request when the slot is free."""
    scopes = [key(rpm=1, max_parallel=None), tenant(max_parallel=1)]
    async with limiter.admit([tenant(max_parallel=1)]):
        with pytest.raises(LimitExceeded) as refused:
            async with limiter.admit(scopes):
                pass
        assert (refused.value.resource, refused.value.wait, refused.value.used) == ("parallel", 1.0, 1)
    async with limiter.admit(scopes):
        pass


@pytest.mark.parametrize("tight", range(3))
@pytest.mark.parametrize("resource", ["rpm", "max_parallel", "tpm"])
async def test_refusal_by_any_scope_changes_no_scope(limiter, tight, resource):
    """Whichever scope lacks whatever resource, all scopes stand afterwards where they stood before."""
    scopes = [
        Scope(f"s{i}", "key", **({"rpm": 9, "tpm": 90, "max_parallel": 9} | ({resource: 1} if i == tight else {})))
        for i in range(3)
    ]
    async with limiter.admit(scopes) as admission, admission.reserve(1) as reservation:
        before = [limiter.standing([scope]) for scope in scopes]
        with pytest.raises(LimitExceeded) as refused:
            await once(limiter, scopes, 1)
        assert refused.value.scope is scopes[tight]
        assert [limiter.standing([scope]) for scope in scopes] == before
        reservation.settle(1)
    for held in limiter.ledger._accounts.values():
        assert held.parallel == 0


async def test_refusal_in_step_two_gives_the_request_back_once(limiter):
    """No tokens: the request of step 1 is given back, and neither a refund nor leaving gives it twice."""
    scope = tenant(rpm=5, tpm=100)
    await once(limiter, [scope], 100)
    async with limiter.admit([scope]) as admission:
        assert admission.standing().request_remaining == 3
        with pytest.raises(LimitExceeded):
            async with admission.reserve(50):
                pass
        assert admission.standing().request_remaining == 4
        admission.refund()
        with pytest.raises(LimitExceeded):
            async with admission.reserve(50):
                pass
        assert admission.standing().request_remaining == 4
    assert limiter.standing([scope]).request_remaining == 4


async def test_refusal_by_the_model_scope_takes_nothing_from_it(limiter):
    """A model's request limit refuses step 2 and neither tokens nor requests of anyone are spent."""
    scopes, big = [tenant(rpm=5, tpm=100)], model(rpm=1, tpm=100, max_parallel=5)
    await once(limiter, scopes, 10, model_scope=big)
    with pytest.raises(LimitExceeded) as refused:
        await once(limiter, scopes, 10, model_scope=big)
    assert (refused.value.scope, refused.value.resource) == (big, "requests")
    assert (limiter.standing(scopes).request_remaining, limiter.standing(scopes).token_remaining) == (4, 90)
    assert limiter.standing([big]).token_remaining == 90


async def test_model_scope_holds_a_slot_while_the_reservation_lasts(limiter):
    """The model's parallel limit counts reservations, and leaving one frees its slot."""
    scopes, big = [tenant()], model(max_parallel=1)
    async with limiter.admit(scopes) as admission:
        async with admission.reserve(1, model_scope=big) as reservation:
            reservation.settle(1)
            with pytest.raises(LimitExceeded) as refused:
                await once(limiter, scopes, 1, model_scope=big)
            assert (refused.value.resource, refused.value.scope) == ("parallel", big)
        await once(limiter, scopes, 1, model_scope=big)


async def test_a_second_try_on_another_model_pays_the_request_again(limiter):
    """After a refusal on one model, a reservation on another takes the request that was given back."""
    scopes = [tenant(rpm=5)]
    async with limiter.admit(scopes) as admission:
        with pytest.raises(LimitExceeded):
            async with admission.reserve(1, model_scope=Scope("m1", "model", rpm=0)):
                pass
        assert limiter.standing(scopes).request_remaining == 5
        assert admission.standing().request_remaining == 0  # of the model that refused
        async with admission.reserve(1, model_scope=Scope("m2", "model", rpm=1)) as reservation:
            reservation.settle(1)
            assert limiter.standing(scopes).request_remaining == 4


async def test_a_second_try_is_refused_when_the_request_is_gone_meanwhile(limiter):
    """What was given back may be spent by another; then the second try has no request to take."""
    scopes = [tenant(rpm=1)]
    async with limiter.admit(scopes) as admission:
        admission.refund()
        await once(limiter, scopes)
        with pytest.raises(LimitExceeded) as refused:
            async with admission.reserve(1):
                pass
        assert refused.value.resource == "requests"


async def test_refund_gives_the_request_back_once(limiter):
    """A request that a later stage refused costs nothing, however often that is said."""
    async with limiter.admit([tenant(rpm=5)]) as admission:
        admission.refund()
        admission.refund()
        assert admission.standing().request_remaining == 5
    assert limiter.standing([tenant(rpm=5)]).request_remaining == 5


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt])
async def test_leaving_frees_everything_whatever_ended_the_request(limiter, error):
    """With one slot only, a request that ended in any way leaves it for the next, and tokens unsettled cost nothing."""
    scopes, big = [key(max_parallel=1), tenant(max_parallel=1, tpm=100)], model(rpm=1, max_parallel=1)
    with pytest.raises(error):
        async with limiter.admit(scopes) as admission, admission.reserve(100, model_scope=big):
            raise error
    await once(limiter, scopes, 100, model_scope=big)


async def test_cancelled_requests_leave_their_slots(limiter):
    """A client that goes away in the middle frees the slot: the next one gets in."""
    scopes = [tenant(max_parallel=1, tpm=100)]
    for _ in range(50):
        inside = asyncio.Event()

        async def stream(inside=inside) -> None:
            async with limiter.admit(scopes) as admission, admission.reserve(60):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(stream())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await once(limiter, scopes, 100) == 100


async def test_overshoot_is_a_debt_that_must_refill(limiter, clock):
    """Ten times the limit used: nothing passes until the debt and the new need have refilled, and then it does."""
    scopes = [tenant(tpm=100)]
    await once(limiter, scopes, 100, used=1000)
    standing = limiter.standing(scopes)
    assert (standing.token_remaining, standing.token_reset) == (0, 600.0)
    for tokens, seconds in ((0, 540), (10, 546), (100, 600)):
        with pytest.raises(LimitExceeded) as refused:
            await once(limiter, scopes, tokens)
        assert refused.value.wait == pytest.approx(seconds, abs=1e-5)
        assert (refused.value.used, refused.value.limit, refused.value.never) == (1000, 100, False)
    clock.pass_(539.9)
    with pytest.raises(LimitExceeded):
        await once(limiter, scopes, 0)
    clock.pass_(60.2)
    assert await once(limiter, scopes, 100) == 100


@pytest.mark.parametrize(("used", "remaining"), [(None, 100), (0, 100), (30, 70), (60, 40), (100, 0), (250, 0)])
async def test_what_was_used_is_charged(limiter, used, remaining):
    """Nothing delivered costs nothing, a part costs that part, more than was set aside costs more."""
    scopes = [tenant(tpm=100)]
    async with limiter.admit(scopes) as admission, admission.reserve(60) as reservation:
        assert limiter.standing(scopes).token_remaining == 40
        if used is not None:
            reservation.settle(used)
    assert limiter.standing(scopes).token_remaining == remaining


async def test_unknown_usage_can_keep_what_was_set_aside(limiter):
    """A caller that cannot know what was used settles to the reservation itself."""
    scopes = [tenant(tpm=100)]
    async with limiter.admit(scopes) as admission, admission.reserve(500, clamp=True) as reservation:
        reservation.settle(reservation.tokens)
    assert limiter.standing(scopes).token_remaining == 0


async def test_late_overshoot_is_not_forgiven(limiter, clock):
    """What is charged beyond the reservation after a long run counts from now, whatever refilled meanwhile."""
    scopes = [tenant(tpm=100)]
    async with limiter.admit(scopes) as admission, admission.reserve(100) as reservation:
        clock.pass_(600)
        reservation.settle(150)
    assert limiter.standing(scopes).token_remaining == 50


async def test_refund_after_leaving_finds_what_is_left(limiter, clock):
    """Given back late, a request counts where its balance is still known, and is not needed where it was forgotten."""
    scopes = [key(rpm=10), tenant(rpm=10)]
    async with limiter.admit(scopes) as admission:
        pass
    admission.refund()
    assert limiter.standing(scopes).request_remaining == 10
    async with limiter.admit(scopes) as admission:
        pass
    clock.pass_(600)
    for i in range(100):
        await once(limiter, [Scope(f"new{i}", "key", rpm=1)])
    assert key().id not in limiter.ledger._accounts
    admission.refund()
    assert limiter.standing(scopes).request_remaining == 10


async def test_first_settlement_counts(limiter):
    """To settle again, or after leaving, changes nothing."""
    scopes = [tenant(tpm=100)]
    async with limiter.admit(scopes) as admission:
        async with admission.reserve(60) as reservation:
            reservation.settle(10)
            reservation.settle(50)
        reservation.settle(0)
    reservation.settle(60)
    assert limiter.standing(scopes).token_remaining == 90


async def test_unsettled_reservation_gives_the_models_request_back(limiter):
    """A model that was never reached is charged neither tokens nor the request; one that answered is."""
    scopes, big = [tenant(rpm=5, tpm=100)], model(rpm=5, tpm=100)
    async with limiter.admit(scopes) as admission:
        async with admission.reserve(10, model_scope=big):
            assert admission.standing().request_remaining == 4
        assert limiter.standing([big]) == Standing(5, 5, 0.0, 100, 100, 0.0, 5, 100)
        async with admission.reserve(10, model_scope=big) as reservation:
            reservation.settle(0)
        assert limiter.standing([big]).request_remaining == 4
    assert limiter.standing(scopes).request_remaining == 4


@pytest.mark.parametrize("tokens", [-1, -(10**30)])
async def test_negative_amounts_are_no_credit(limiter, tokens):
    """A negative reservation or settlement counts as none."""
    scopes = [tenant(tpm=100)]
    assert await once(limiter, scopes, tokens) == 0
    await once(limiter, scopes, 50)
    await once(limiter, scopes, 10, used=tokens)
    assert limiter.standing(scopes).token_remaining == 50


async def test_absurd_amounts_are_cut(limiter):
    """Numbers with thousands of digits neither break a message nor block for ever beyond reason."""
    scopes = [tenant(tpm=100)]
    with pytest.raises(LimitExceeded) as refused:
        await once(limiter, scopes, 10**6000)
    assert refused.value.never
    assert len(str(refused.value)) < 200
    await once(limiter, scopes, 10, used=10**6000)
    with pytest.raises(LimitExceeded) as refused:
        await once(limiter, scopes, 10)
    assert len(str(refused.value)) < 200


async def test_standing_is_of_the_tightest_scope_for_each_resource(limiter):
    """For each resource the scope with the least left, with its own limit and its own reset."""
    scopes = [key(rpm=10, tpm=1000), tenant(rpm=100, tpm=500), Scope("plan", "plan")]
    async with limiter.admit(scopes) as admission:
        assert admission.standing() == Standing(10, 9, 6.0, 500, 500, 0.0, 10, 500)
        async with admission.reserve(250, model_scope=model(rpm=4, tpm=2000)) as reservation:
            assert admission.standing() == Standing(4, 3, 15.0, 500, 250, 30.0, 4, 500)
            reservation.settle(50)
            assert admission.standing() == Standing(4, 3, 15.0, 500, 450, 6.0, 4, 500)
    assert limiter.standing(scopes) == Standing(10, 9, 6.0, 500, 450, 6.0, 10, 500)


async def test_standing_of_the_unlimited_is_nothing(limiter):
    """Without limits there is nothing to report, and without spending nothing is remembered."""
    assert limiter.standing([key(), tenant()]) == Standing()
    assert limiter.standing([]) == Standing()
    assert len(limiter.ledger) == 0


async def test_standing_tells_when_the_bucket_is_full_again(limiter, clock):
    """After the reset that was told all is there again, and just before it is not."""
    scopes = [tenant(rpm=7, tpm=1000)]
    await once(limiter, scopes, 999)
    reset = limiter.standing(scopes).token_reset
    clock.pass_(reset - 0.001)
    assert limiter.standing(scopes).token_remaining == 999
    clock.pass_(0.002)
    standing = limiter.standing(scopes)
    assert (standing.token_remaining, standing.token_reset) == (1000, 0.0)


async def test_every_unit_of_the_burst_can_be_spent(limiter):
    """A limit of 7 lets 7 through at once, not 6: no rounding eats into the burst."""
    for limit in (1, 3, 7, 59, 61, 997):
        scope = Scope(f"k{limit}", "key", rpm=limit)
        for left in reversed(range(limit)):
            async with limiter.admit([scope]) as admission:
                assert admission.standing().request_remaining == left
        with pytest.raises(LimitExceeded) as refused:
            await once(limiter, [scope])
        assert (refused.value.used, refused.value.limit, refused.value.requested) == (limit, limit, 1)


async def test_clock_that_goes_back_refills_nothing(limiter, clock):
    """An hour back and an hour forth is no time at all."""
    scopes = [tenant(rpm=60)]
    for _ in range(60):
        await once(limiter, scopes)
    for jump in (-3600, 3600, -10, 10):
        clock.pass_(jump)
        assert limiter.standing(scopes).request_remaining == 0
    clock.pass_(1)
    assert limiter.standing(scopes).request_remaining == 1


def test_a_refusal_leaves_no_garbage_cycle(limiter):
    """A flood of refusals is freed as it goes, without the collector."""

    def refused(scope: Scope, tokens: int) -> weakref.ref:
        try:
            once(limiter, [scope], tokens).send(None)
        except LimitExceeded as error:
            return weakref.ref(error)
        raise AssertionError("not refused")

    gc.disable()
    try:
        assert refused(tenant(rpm=0), 1)() is None
        assert refused(key(tpm=0), 1)() is None
    finally:
        gc.enable()


def test_account_at_an_earlier_time_stays_as_it_is():
    """Time that goes back neither refills nor takes, and is not lived through twice."""
    account = Account(tenant(rpm=60, tpm=60), 1_000_000)
    account.take(10, 10, 0)
    for now in (0, 999_999, 1_000_000):
        account.advance(now)
        assert (account.requests, account.tokens, account.at) == (10 * UNIT, 10 * UNIT, 1_000_000)
    account.advance(2_000_000)
    assert (account.requests, account.tokens) == (9 * UNIT, 9 * UNIT)


@pytest.mark.parametrize("start", [0.1, 12345.678901, 987654.3210987, 1.79e9])
def test_sums_of_floats_lose_no_microsecond(start):
    """Clocks are floats: at thousands of odd moments, now plus the told wait is always late enough."""
    now = start
    limiter = MemoryLimiter(lambda: now)
    scope = [Scope("k", "key", rpm=61)]
    waits = 0
    for i in range(3000):
        try:
            once(limiter, scope).send(None)
        except StopIteration:
            now += (i % 7) * 0.0137
        except LimitExceeded as error:
            now += error.wait
            waits += 1
            with pytest.raises(StopIteration):
                once(limiter, scope).send(None)
    assert waits > 1000


async def test_longest_reason_is_told(limiter, clock):
    """Of several scopes that refuse, the one that takes longest is told, so that its wait is enough for all."""
    scopes = [key(rpm=60), tenant(rpm=10), Scope("plan", "plan", rpm=30)]
    for scope in scopes:
        for _ in range(scope.rpm):
            await once(limiter, [scope])
    with pytest.raises(LimitExceeded) as refused:
        await once(limiter, scopes)
    assert refused.value.scope.kind == "tenant"
    clock.pass_(refused.value.wait)
    await once(limiter, scopes)


limits = st.none() | st.integers(1, 10) | st.integers(1, 10**7)
bursts = st.just(60.0) | st.floats(1.0, 3600.0)


@given(
    start=st.sampled_from([0.0, 1.1, 12345.678901, 987654.3210987, 1.79e9]) | st.floats(0, 2e9),
    shapes=st.lists(st.tuples(limits, limits, bursts), min_size=1, max_size=3),
    other=st.none() | st.tuples(limits, limits, bursts),
    spends=st.lists(st.tuples(st.floats(0, 100), st.integers(0, 2000), st.integers(0, 20_000)), max_size=8),
    need=st.integers(0, 1000),
)
def test_waiting_as_long_as_told_is_enough_and_not_too_long(start, shapes, other, spends, need):
    """Alone, after exactly the told wait, the same demand always passes, whatever the bursts; three microseconds earlier not."""
    now = start
    limiter = MemoryLimiter(lambda: now)
    scopes = [Scope(f"s{i}", "key", rpm=rpm, tpm=tpm, burst=burst) for i, (rpm, tpm, burst) in enumerate(shapes)]
    extra = None if other is None else Scope("m", "model", rpm=other[0], tpm=other[1], burst=other[2])

    def attempt(tokens, used=None) -> LimitExceeded | None:
        try:
            once(limiter, scopes, tokens, used=used, model_scope=extra).send(None)
        except StopIteration:
            return None
        except LimitExceeded as error:
            return error

    for pause, tokens, used in spends:
        now += pause
        attempt(tokens, used)
    for _ in range(2):
        # Step 1 may ask for a wait of its own before step 2 is reached and asks for another.
        refused = attempt(need)
        if refused is None or refused.never:
            return
        arrived, wait = now, refused.wait
        now = arrived + wait - 3e-6 - now * 1e-15
        if now > arrived and start < 1e6:
            assert attempt(need) is not None
        now = arrived + wait
    assert attempt(need) is None


@pytest.mark.parametrize(
    ("seconds", "requests", "tokens"),
    [(1.0, 1, 100), (10.0, 5, 1000), (59.999, 29, 5999), (60.0, 30, 6000), (3600.0, 1800, 360_000)],
)
async def test_a_burst_is_what_may_be_spent_at_once(limiter, clock, seconds, requests, tokens):
    """So many seconds of the limits, one request at least; what comes after it comes at the pace of the limit."""
    scopes = [tenant(rpm=30, tpm=6000, burst=seconds)]
    for _ in range(requests):
        await once(limiter, scopes)
    with pytest.raises(LimitExceeded) as refused:
        await once(limiter, scopes)
    assert (refused.value.limit, refused.value.used, refused.value.never) == (30, requests, False)
    clock.pass_(2.001)
    async with limiter.admit(scopes) as admission:
        with pytest.raises(LimitExceeded) as refused:
            await admission.reserve(tokens + 1).__aenter__()
        assert refused.value.never
        async with admission.reserve(10 * tokens, clamp=True) as reservation:
            assert reservation.tokens == tokens


async def test_new_bursts_apply_at_once_and_make_no_debt(limiter, clock):
    """A shorter burst leaves at most nothing, a longer one gives room, and a real debt stays."""
    await once(limiter, [tenant(tpm=600)], 600)
    async with limiter.admit([tenant(tpm=600, burst=1.0)]) as admission:
        assert admission.standing() == Standing(None, None, None, 600, 0, 1.0, None, 10)
    await once(limiter, [tenant(tpm=600, burst=120.0)], 1190, used=1210)
    async with limiter.admit([tenant(tpm=600, burst=1.0)]) as admission:
        assert admission.standing().token_reset == pytest.approx(3.0)


@pytest.mark.parametrize("seconds", [0.0, 0.999, 3600.001, -1.0, float("nan"), float("inf")])
def test_a_burst_is_from_a_second_to_an_hour(seconds):
    """Anything else is no scope."""
    with pytest.raises(ValueError, match="from 1 s to an hour"):
        tenant(rpm=1, burst=seconds)


async def test_new_limits_apply_at_once_and_make_no_debt(limiter, clock):
    """Lower limits leave at most nothing; higher ones give room at once; a real debt stays."""
    await once(limiter, [tenant(rpm=600, tpm=1000)], 1000, used=1500)
    for _ in range(299):
        await once(limiter, [tenant(rpm=600)])
    assert limiter.standing([tenant(rpm=600)]).request_remaining == 300
    async with limiter.admit([tenant(rpm=301, tpm=None)]) as admission:
        assert admission.standing() == Standing(301, 0, 60.0, request_burst=301)
    with pytest.raises(LimitExceeded) as refused:
        await once(limiter, [tenant(rpm=6)])
    assert refused.value.wait == pytest.approx(10, abs=1e-5)
    async with limiter.admit([tenant(rpm=60)]) as admission:
        assert admission.standing().request_remaining == 53


async def test_debt_outlives_a_change_of_limits(limiter):
    """What was beyond the old burst is still beyond the new one."""
    await once(limiter, [tenant(tpm=100)], 100, used=150)
    async with limiter.admit([tenant(tpm=10)]) as admission:
        assert admission.standing().token_reset == pytest.approx(60 * 60 / 10)


async def test_running_request_does_not_bring_old_limits_back(limiter):
    """A request that came under old limits settles and leaves without undoing the new ones."""
    async with limiter.admit([tenant(rpm=5, tpm=100)]) as old:
        async with limiter.admit([tenant(rpm=50, tpm=1000)]):
            pass
        async with old.reserve(500) as reservation:
            reservation.settle(500)
            assert old.standing().token_limit == 1000


async def test_idle_scopes_are_forgotten(limiter, clock):
    """A flood of scopes that come once is dropped again as others come, and who still has a balance is kept."""
    debtor = tenant(tpm=100)
    await once(limiter, [debtor], 100, used=100_000_000)
    async with limiter.admit([key(max_parallel=1)]):
        for i in range(20_000):
            await once(limiter, [Scope(f"flood{i}", "key", rpm=60)])
            clock.pass_(0.01)
        # One a second refills: 100 come in that time, twice as many may linger until they are looked at.
        assert len(limiter.ledger) < 500
        assert limiter.standing([debtor]).token_remaining == 0
        with pytest.raises(LimitExceeded):
            await once(limiter, [key(max_parallel=1)])


async def test_forgetting_in_the_middle_of_a_decision_loses_no_debit(limiter, clock):
    """Scopes that are new together, and seen idle, are all charged."""
    for round_ in range(50):
        scopes = [Scope(f"{round_}/{i}", "key", rpm=10, tpm=100, max_parallel=1) for i in range(4)]
        async with limiter.admit(scopes) as admission, admission.reserve(50, model_scope=Scope(f"{round_}/m", "model", rpm=2)):
            assert [limiter.standing([scope]).request_remaining for scope in scopes] == [9] * 4
            with pytest.raises(LimitExceeded):
                await once(limiter, scopes)
        clock.pass_(60)


@pytest.mark.parametrize(("held", "crowded"), [(2, False), (3, True), (4, True)])
async def test_a_scope_is_crowded_when_most_of_its_slots_are_in_use(limiter, held, crowded):
    """Three of four, in any of the scopes; one without a limit never is, nor one that nobody has used."""
    scopes = [key(), tenant(max_parallel=4)]
    assert not limiter.crowded(scopes)
    async with AsyncExitStack() as stack:
        for _ in range(held):
            await stack.enter_async_context(limiter.admit(scopes))
        assert limiter.crowded(scopes) is crowded
        assert not limiter.crowded([key()])
