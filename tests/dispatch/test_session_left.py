"""What a worker asks for work that goes on when its client has left, or its model: each question has an answer."""

from pathlib import Path

import pytest
from test_session import RESERVED, SCOPE, WORKER, Owner, owner, say, ticks, until, vault

from gateway.dispatch import messages as m

__all__ = ["owner", "vault"]


def work(model: str = "small") -> m.Work:
    return m.Work(model, RESERVED, False, None, 0, "acme", 1, 100, 1e9, None, 10)


REPORT = m.Report()


@pytest.mark.parametrize("left", [False, True], ids=["its client waits", "its client has left"])
@pytest.mark.parametrize("model", ["small", "gone"])
@pytest.mark.parametrize("asked", ["begin", "next", "again", "look"])
async def test_whatever_a_worker_asks_of_what_it_holds_is_answered(
    tmp_path: Path, owner: Owner, asked: str, model: str, left: bool
) -> None:
    """Of work that runs, whose model the config may not have any more, whose client may have left: no question is left open."""
    mine = m.HeldWork(1, model, RESERVED, None, 1, "s1", 0.0, "acme")
    session = owner.connect(m.Held(1, (1,), left, False, None, False, None if asked in {"begin", "look"} else mine, 0))
    await ticks()
    told = len(session.channel.told)
    say(
        session,
        {
            "begin": m.Begin(1, 2, work(model), None),
            "next": m.Next(1, 1, REPORT),
            "again": m.Again(1, 2, work(model), None),
            "look": m.LookUp(1, m.Look(None, 0, None, False, None)),
        }[asked],
    )
    await until(lambda: len(session.channel.told) > told)
    heard = [one for one in session.channel.told[told:] if not isinstance(one, (m.Roster, m.Ack))]
    assert [(type(one).__name__, one.n) for one in heard] in (
        [("Granted", 1)], [("Blocked", 1)], [("Another", 1)], [("Answer", 1)],
    )  # fmt: skip
    say(session, m.End(1, 1, True, True, False, None, None))
    await until(lambda: not session.cases)
    assert owner.idle
    assert owner.parts.node.heard(bytes.fromhex(WORKER)) == 1


async def test_a_question_about_what_nobody_holds_is_answered(owner: Owner) -> None:
    """It should not be asked; but nobody waits for ever if it is."""
    session = owner.connect()
    say(session, m.LookUp(1, m.Look(None, 0, None, False, None)), m.Begin(2, 1, work(), None))
    say(session, m.Next(3, 1, REPORT), m.Again(4, 1, work(), None))
    await ticks()
    kinds = [type(one).__name__ for one in session.channel.told if getattr(one, "n", 0)]
    assert kinds == ["Answer", "Blocked", "Another", "Blocked"]
    assert not session.cases


async def test_work_of_one_whose_client_has_left_holds_no_slot_of_its_tenant(owner: Owner) -> None:
    """It is taken up under a new number, granted, settled and over; the request itself is not counted again."""
    session = owner.connect()
    before = owner.left()
    departed = m.Held(7, (1,), True, False, None, False, None, 0)
    say(session, m.Begin(7, 1, work(), b"key", departed))
    await until(lambda: any(isinstance(one, m.Granted) for one in session.channel.told))
    account = owner.parts.owner.limiter.ledger._accounts[SCOPE.id]
    assert account.parallel == 0
    assert owner.parts.node.berths
    assert owner.left() == (before[0], before[1] - RESERVED)
    say(session, m.End(1, 7, True, True, False, 40, None))
    await until(lambda: not session.cases)
    assert owner.left() == (before[0], before[1] - 40)
    assert owner.idle
    assert not owner.parts.node.berths


async def test_such_work_that_is_given_up_in_the_same_read_leaves_nothing(owner: Owner) -> None:
    """Begun anew and over before the owner looked: no slot, no token, and its End is heard."""
    session = owner.connect()
    before = owner.left()
    departed = m.Held(7, (1,), True, False, None, False, None, 0)
    say(session, m.Begin(7, 1, work(), b"key", departed), m.End(1, 7, True, True, False, None, None))
    await until(lambda: not session.cases)
    assert owner.left() == before
    assert owner.idle
    assert owner.parts.node.heard(bytes.fromhex(WORKER)) == 1
