"""A reserved share when the dispatcher is replaced: its successor hears from the workers what runs, and what it then cost."""

from pathlib import Path

import pytest
from test_session import CONFIG, Owner, ask, held, say, ticks, vault  # noqa: F401 - a fixture

from gateway.dispatch import messages as m
from limits.waiting import ReservedStanding

SHARED = CONFIG.replace("rpm: 600", "reserved: {small: {slots: 2, tpm: 50000}}, rpm: 600")


def share(owner: Owner) -> ReservedStanding:
    (found,) = owner.lane.scheduler.reserved()
    return found


async def test_a_successor_counts_what_runs_on_a_share(tmp_path: Path, vault: bytearray) -> None:  # noqa: F811
    """As many of the owner's requests as it has slots are on its share again; at their end their tokens are taken of it."""
    before = Owner(tmp_path, vault, SHARED)
    say(before.connect(), ask(1), ask(2), ask(3))
    await ticks()
    assert share(before).used == 2
    before.parts.node.commit()
    after = Owner(tmp_path, vault, SHARED)
    session = after.connect(held(1), held(2), held(3), before=before)
    await ticks()
    assert (share(after).used, after.lane.scheduler.inflight, share(after).tokens_left) == (2, 3, 50_000)
    for n in (1, 2, 3):
        say(session, m.End(n, n, True, True, False, 10, None, (300, 100, True, None)))
    await ticks()
    assert after.idle
    assert share(after).used == 0
    assert 49_200 <= share(after).tokens_left < 49_300


@pytest.mark.parametrize("text", [CONFIG, SHARED.replace("slots: 2", "slots: 1")])
async def test_a_successor_goes_by_its_own_config(tmp_path: Path, vault: bytearray, text: str) -> None:  # noqa: F811
    """Where nothing is reserved any more, or less, what runs is on no share, or on what there is of it."""
    before = Owner(tmp_path, vault, SHARED)
    say(before.connect(), ask(1), ask(2))
    await ticks()
    before.parts.node.commit()
    after = Owner(tmp_path, vault, text)
    session = after.connect(held(1), held(2), before=before)
    await ticks()
    assert sum(each.used for each in after.lane.scheduler.reserved()) == (text != CONFIG)
    for n in (1, 2):
        say(session, m.End(n, n, True, True, False, 10, None, (300, 100, True, None)))
    await ticks()
    assert after.idle
