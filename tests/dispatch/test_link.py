"""A worker's side of the talk, without a socket: when it says that a request is over, and what it makes of answers that meet."""

import asyncio
import time
from collections.abc import Callable

import msgspec
import pytest

from gateway.dispatch import messages as m
from gateway.dispatch.front import Front
from gateway.dispatch.link import Link
from gateway.dispatch.roster import Replicas
from gateway.dispatch.types import Question, WorkAsk
from gateway.errors import ApiError
from limits.types import Scope
from limits.waiting import Priority, QueueFull

SCOPES = [Scope("tenant:acme", "tenant", 600, 60_000, 8, "acme")]


class Mouth:
    """In the place of a channel."""

    def __init__(self) -> None:
        self.said: list[msgspec.Struct] = []
        self.closed = False

    def send(self, payload: bytes) -> None:
        self.said.append(m.from_worker(payload))

    tell = send

    def kinds(self) -> list[str]:
        return [type(message).__name__ for message in self.said]


@pytest.fixture
def link() -> Link:
    one = Link("/nowhere", number=1, replicas=Replicas(_no_replica, {}), front=Front(0), clock=time.monotonic)
    one._channel = Mouth()
    one.away = False
    return one


def _no_replica(model: str, spec: object) -> None:
    raise AssertionError("nobody is told of a replica")


def hear(link: Link, *messages: msgspec.Struct) -> None:
    """In one read."""
    link._frames([m.encode(message) for message in messages])


async def asked(link: Link, enter: Callable[[], object]) -> asyncio.Task[object]:
    task = asyncio.create_task(enter())
    await asyncio.sleep(0)
    return task


async def admitted(link: Link, *, soon: bool) -> None:
    """One request that is admitted and has left."""
    ticket = link.admit(SCOPES)
    task = await asked(link, ticket.__aenter__)
    hear(link, m.Answer(ticket.n, soon=soon))
    await task
    await ticket.__aexit__(None, None, None)


async def test_a_request_that_is_given_back_is_said_at_once(link: Link) -> None:
    """The next answer is to tell of one more; of hits that cost none there may be many, and they wait for company."""
    for give_back, said in ((lambda t: t.refund(), 1), (lambda t: t.conclude(0, refund=True), 0)):
        link._channel = Mouth()
        ticket = link.admit(SCOPES)
        task = await asked(link, ticket.__aenter__)
        hear(link, m.Answer(ticket.n, soon=False))
        await task
        link._channel.said.clear()
        give_back(ticket)
        await ticket.__aexit__(None, None, None)
        assert link._channel.kinds() == ["End"] * said


async def test_an_end_that_others_wait_for_is_said_at_once(link: Link) -> None:
    """The owner has said that what the request holds is scarce."""
    await admitted(link, soon=True)
    assert link._channel.kinds() == ["Scopes", "Ask", "End"]


async def test_an_end_that_nobody_waits_for_goes_with_the_next_question(link: Link) -> None:
    """And before it, so that the next request of the same client finds what this one gave back."""
    await admitted(link, soon=False)
    assert link._channel.kinds() == ["Scopes", "Ask"]
    task = await asked(link, link.admit(SCOPES).__aenter__)
    assert link._channel.kinds() == ["Scopes", "Ask", "End", "Ask"]
    task.cancel()


async def test_an_end_alone_is_said_soon_after_all(link: Link) -> None:
    """Nothing else is asked."""
    await admitted(link, soon=False)
    async with asyncio.timeout(10):
        while link._channel.kinds()[-1] != "End":
            await asyncio.sleep(0.001)


async def test_what_waits_for_company_is_said_when_the_worker_ends(link: Link) -> None:
    """Nothing that was used goes uncharged because the process stops."""
    running = asyncio.create_task(link.run())
    await asyncio.sleep(0)
    mouth = link._channel
    mouth.close = lambda: mouth.said.append(None)
    await admitted(link, soon=False)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert mouth.kinds() == ["Scopes", "Ask", "End", "NoneType"]


async def test_a_refusal_in_one_read_with_the_word_that_it_waits(link: Link) -> None:
    """The queue was full by the time that the request came to it."""
    work = WorkAsk("small", 10, True, None, Priority.STANDARD, "acme", 1, 100, time.monotonic() + 60, None, 5)
    question = Question(lookup=None, share=None, stream=False, first=lambda: work)
    ticket = link.admit(SCOPES, question)
    task = await asked(link, ticket.__aenter__)
    hear(link, m.Answer(ticket.n, pending=True), m.Blocked(ticket.n, 0, m.Refusal("full", wait=2.0), None))
    await task
    with pytest.raises(QueueFull):
        async with asyncio.timeout(5), ticket.work(work):
            pass


@pytest.mark.parametrize("again", [False, True], ids=["the first slot", "another one"])
async def test_who_gives_up_on_a_silent_owner_says_that_its_work_is_over(link: Link, again: bool) -> None:
    """The owner may come to itself and grant it after all: then the slot must not wait for a word that never comes."""
    work = WorkAsk("small", 10, True, None, Priority.BATCH, "acme", 1, 100, time.monotonic() + 60, None, 5)
    ticket = link.admit(SCOPES)
    task = await asked(link, ticket.__aenter__)
    hear(link, m.Answer(ticket.n))
    await task
    scope = ticket.work(work)
    wait = await asked(link, scope.__aenter__)
    if again:
        hear(link, m.Granted(ticket.n, 1, m.Grant(10, 0.0, None, False), None))
        grant = await wait
        wait = await asked(link, grant.again)
    ticket.past(float("inf"))
    with pytest.raises(ApiError, match="does not answer"):
        await wait
    if again:
        await scope.__aexit__(None, None, None)
    await ticket.__aexit__(None, None, None)
    link._say_ends()
    ends = [message for message in link._channel.said if isinstance(message, m.End)]
    assert [end.over for end in ends].count(True) == 1
    assert ends[-1].left
    assert {end.settled for end in ends} == {None}
    assert not link.tickets
