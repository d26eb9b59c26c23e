"""Before a limit refuses: what requests of any worker have given back, and what was not told yet, counts."""

from pathlib import Path
from typing import Any

import pytest
from test_session import CONFIG, Owner, say, ticks, until, vault  # noqa: F401 - a fixture

from gateway.dispatch import messages as m
from limits.types import LimitExceeded

TIGHT = {
    "tokens": (CONFIG.replace("tpm: 60000", "tpm: 1500"), m.ScopeTerms(1, "tenant:acme", "tenant", 600, 1500, 8, "acme")),
    "slots": (CONFIG, m.ScopeTerms(1, "tenant:acme", "tenant", 600, 60_000, 1, "acme")),
    "requests": (CONFIG, m.ScopeTerms(1, "tenant:acme", "tenant", 1, 60_000, 8, "acme")),
    "a model's slots": (CONFIG, m.ScopeTerms(1, "tenant:acme", "tenant", 600, 60_000, 8, "acme")),
}
MODEL = m.ScopeTerms(2, "acme:small", "model", None, None, 1, "acme small")
OTHER = "11" * 8


def ask(n: int) -> m.Ask:
    work = m.Work("small", 1000, False, 2, 0, "acme", 1, 100, 1e9, None, 10)
    return m.Ask(n, (1,), m.Look(None, 0, None, False, work))


class Two:
    """An owner and two workers."""

    def __init__(self, folder: Path, vault: bytearray, text: str, terms: m.ScopeTerms) -> None:  # noqa: F811
        self.owner = Owner(folder, vault, text)
        self.a, self.b = self.owner.connect(), self.owner.connect(worker=OTHER)
        for session in (self.a, self.b):
            say(session, m.Scopes([terms, MODEL]))

    def polled(self) -> list[m.Poll]:
        """What the first worker was asked to tell, and has not told."""
        polls = [each for each in self.a.channel.told if isinstance(each, m.Poll)]
        self.a.channel.told.clear()
        return polls

    def answered(self) -> m.Answer | None:
        return next((each for each in self.b.channel.told if isinstance(each, m.Answer)), None)


@pytest.fixture(params=TIGHT)
async def two(request: pytest.FixtureRequest, tmp_path: Path, vault: bytearray) -> Two:  # noqa: F811
    both = Two(tmp_path, vault, *TIGHT[request.param])
    say(both.a, ask(1))
    await ticks()
    assert both.polled() == []
    return both


async def test_who_is_the_next_is_not_refused_for_an_end_that_was_not_told(two: Two) -> None:
    """The first worker has it still in hand: it is asked for it, and the second one's request fits."""
    say(two.b, ask(1))
    await ticks()
    (poll,) = two.polled()
    assert (poll.verb, two.answered()) == ("ends", None)
    say(two.a, m.End(1, 1, True, True, True, 30, None), m.Return(poll.id))
    await until(lambda: two.answered() is not None)
    answer = two.answered()
    assert answer is not None
    assert answer.refusal is None
    assert answer.blocked is None
    assert answer.grant is not None


async def test_what_is_really_held_refuses(two: Two) -> None:
    """Also where the first worker says nothing: no refusal waits for it for long. Nothing of it is left."""
    say(two.b, ask(1), ask(2), ask(3))
    await ticks()
    (poll,) = two.polled()  # one question for all three
    say(two.a, m.Return(poll.id))
    await until(lambda: len([each for each in two.b.channel.told if isinstance(each, m.Answer)]) == 3)
    say(two.b, ask(4))
    await until(lambda: len([each for each in two.b.channel.told if isinstance(each, m.Answer)]) == 4)
    answers = [each for each in two.b.channel.told if isinstance(each, m.Answer)]
    assert all((each.refusal or each.blocked).kind == "limit" for each in answers)
    say(two.a, m.End(1, 1, True, True, False, 30, None))
    say(two.b, *[m.End(seq, seq, True, True, False, None, None) for seq in (1, 2, 3, 4)])
    await ticks()
    assert not two.a.cases
    assert not two.b.cases
    assert two.owner.idle


async def test_a_request_that_leaves_while_others_are_asked_leaves_nothing(two: Two) -> None:
    """Its client goes, or its worker, before it is decided."""
    say(two.b, ask(1), ask(2))
    await ticks()
    say(two.b, m.End(1, 1, True, True, False, None, None))
    two.b._closed()
    two.a._closed()
    await ticks()
    assert not two.b.cases
    assert two.owner.idle


async def test_who_is_alone_is_refused_at_once(tmp_path: Path, vault: bytearray) -> None:  # noqa: F811
    """Nobody has anything that could be given back, and what can never fit is not helped by it."""
    two = Two(tmp_path, vault, *TIGHT["requests"])
    say(two.b, ask(1))
    await ticks()
    say(two.b, m.End(1, 1, True, True, False, 30, None))
    await ticks()
    two.b.channel.told.clear()
    say(two.b, ask(2))
    await ticks()
    answer = two.answered()
    assert answer is not None
    assert answer.refusal is not None
    assert two.polled() == []


async def test_a_question_that_began_before_does_not_count(tmp_path: Path, vault: bytearray) -> None:  # noqa: F811
    """Who is refused while the workers are asked already has them asked again, for an End may have come between."""
    two = Two(tmp_path, vault, *TIGHT["slots"])
    say(two.a, ask(1))
    await ticks()
    two.polled()
    say(two.b, ask(1))
    await ticks()
    (first,) = two.polled()
    say(two.b, ask(2))
    say(two.a, m.Return(first.id))
    await until(lambda: two.answered() is not None)
    await ticks()
    (second,) = two.polled()
    two.b.channel.told.clear()
    say(two.a, m.End(1, 1, True, True, False, 30, None), m.Return(second.id))
    await until(lambda: two.answered() is not None)
    answer = two.answered()
    assert answer is not None
    assert (answer.n, answer.refusal) == (2, None)


class Far:
    """A store elsewhere: what it decides when it is asked is heard some ticks later."""

    def __init__(self, limiter: Any) -> None:
        self.limiter = limiter

    def __getattr__(self, name: str) -> Any:
        return getattr(self.limiter, name)

    def admit(self, scopes: Any) -> Any:
        return _Asked(self.limiter.admit(scopes))


class _Asked:
    def __init__(self, admission: Any) -> None:
        self.admission = admission

    async def __aenter__(self) -> Any:
        try:
            return await self.admission.__aenter__()
        except LimitExceeded:
            await ticks()
            raise

    async def __aexit__(self, *exc: object) -> None:
        await self.admission.__aexit__(*exc)


async def test_what_ends_while_a_store_is_asked_counts(tmp_path: Path, vault: bytearray) -> None:  # noqa: F811
    """Nobody is left to be asked when the refusal comes, but it was decided before the other request ended."""
    two = Two(tmp_path, vault, *TIGHT["slots"])
    two.owner.parts.node.local.limiter = Far(two.owner.parts.node.local.limiter)
    say(two.a, ask(1))
    await ticks()
    say(two.b, ask(1))
    await ticks(3)
    say(two.a, m.End(1, 1, True, True, False, 30, None))
    await until(lambda: two.answered() is not None)
    answer = two.answered()
    assert answer is not None
    assert answer.refusal is None
    assert two.polled() == []
