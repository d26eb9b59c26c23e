"""What budgets have used after a crash: what was settled before it, and what those that live take over and settle."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limits.journal import Journal
from limits.memory import MemoryLimiter
from limits.types import Scope
from limits.vault import Vault

NOON = 1_774_872_000.0
SCOPES = (Scope("tenant:a", "tenant", tpm=10_000_000, day=10_000_000), Scope("plan:a/p", "plan", month=20_000_000))

REQUESTS = st.lists(
    st.tuples(st.integers(1, 50_000), st.integers(0, 60_000), st.sampled_from(["settled", "runs", "dies", "is lost", "is back"])),
    min_size=1,
    max_size=6,
)
"""What each reserves and uses, and how far it is at the crash."""


def made(buffer, folder):
    journal = Journal(folder, gather=0.0)
    journal.open()
    return MemoryLimiter(lambda: 1000.0, Vault.open(buffer), wall=lambda: NOON, journal=journal), journal


def used(limiter):
    day, month = limiter.budgets(SCOPES)
    assert day.day_used == day.month_used == month.day_used == month.month_used
    return day.day_used


async def admitted(limiter, tokens):
    admission = limiter.admit(SCOPES)
    await admission.__aenter__()
    reservation = admission.reserve(tokens)
    await reservation.__aenter__()
    return admission, reservation


async def left(admission, reservation):
    await reservation.__aexit__(None, None, None)
    await admission.__aexit__(None, None, None)


async def adopted(limiter, tokens, day, *, lost):
    admission = limiter.adopt(SCOPES)
    await admission.__aenter__()
    reservation = admission.adopt_reservation(tokens, day=day, lost=lost)
    await reservation.__aenter__()
    return admission, reservation


async def scene(requests, crash):
    with tempfile.TemporaryDirectory() as name:
        buffer, folder = bytearray(Vault.size_for(16)), Path(name)
        limiter, journal = made(buffer, folder)
        running = []
        for tokens, spent, state in requests:
            admission, reservation = await admitted(limiter, tokens)
            if state == "settled":
                reservation.settle(spent)
                await left(admission, reservation)
            elif state in ("is lost", "is back"):
                reservation.lose()
                await left(admission, reservation)
                if state == "is back":
                    await adopted(limiter, tokens, reservation.day, lost=True)
            if state in ("runs", "is back"):
                running.append((tokens, spent, reservation.day))
        open_now = sum(tokens for tokens, _, state in requests if state in ("runs", "is back", "dies"))
        settled = sum(spent for _, spent, state in requests if state == "settled")
        assert used(limiter) == settled + open_now
        limiter.commit()
        await limiter.close()
        limiter, journal = made(buffer if crash == "the dispatcher" else bytearray(Vault.size_for(16)), folder)
        assert used(limiter) == settled
        if crash == "the dispatcher":
            held = [(await adopted(limiter, tokens, day, lost=False), spent) for tokens, spent, day in running]
            assert used(limiter) == settled + sum(tokens for tokens, _, _ in running)
            for pair, spent in held:
                pair[1].settle(spent)
                await left(*pair)
            assert used(limiter) == settled + sum(spent for _, spent, _ in running)
        journal.close()


@pytest.mark.parametrize("crash", ["the dispatcher", "the gateway"])
@settings(max_examples=40, deadline=None)
@given(requests=REQUESTS)
def test_what_a_crash_leaves(crash, requests):
    """What was settled stays; what runs on is set aside again and settled as it was used; of all else budgets know nothing."""
    asyncio.run(scene(requests, crash))
