"""What a worker works out of where a caller stands, beside the balances themselves."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from gateway.dispatch.aging import give_request_back, give_tokens_back, refill
from limits.memory import MemoryLimiter
from limits.types import Scope

STEPS = st.lists(st.tuples(st.sampled_from(["pass", "settle", "refund"]), st.floats(0, 30), st.integers(0, 3000)), max_size=5)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


async def scene(rpm, tpm, burst, reserved, steps):
    clock = Clock()
    limiter = MemoryLimiter(clock)
    scope = Scope("tenant:a", "tenant", rpm=rpm, tpm=tpm, burst=burst)
    async with limiter.admit([scope]) as admission:
        reservation = admission.reserve(reserved, clamp=True)
        await reservation.__aenter__()
        told = limiter.standing([scope])
        settled = refunded = False
        for verb, seconds, used in steps:
            clock.now += seconds
            refill(told, seconds)
            if verb == "settle" and not settled:
                settled = True
                reservation.settle(used)
                give_tokens_back(told, reservation.tokens - used)
            elif verb == "refund" and not refunded:
                refunded = True
                admission.refund()
                give_request_back(told)
            real = limiter.standing([scope])
            assert abs(told.request_remaining - real.request_remaining) <= (seconds > 0)
            assert abs(told.token_remaining - real.token_remaining) <= (seconds > 0)
            assert abs(told.request_reset - real.request_reset) < 1e-4
            assert abs(told.token_reset - real.token_reset) < 1e-4


@given(
    rpm=st.integers(1, 6000),
    tpm=st.integers(60, 1_000_000),
    burst=st.sampled_from([1.0, 10.0, 60.0, 600.0]),
    reserved=st.integers(1, 2000),
    steps=STEPS,
)
def test_it_is_what_the_owner_would_tell(rpm, tpm, burst, reserved, steps):
    """Refilled, settled, given back, also out of a debt: the same as the balance says, but for a microsecond's rounding."""
    asyncio.run(scene(rpm, tpm, burst, reserved, steps))
