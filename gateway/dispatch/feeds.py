"""Answers on their way from the worker that makes them to clients of other workers: the owner's part.

    subscriber           owner            maker
    Subscribe      →                →               a flight of the subscriber's is to be fed; said again: a more urgent class
                   ←                ←   FeedHead    once
                   ←                ←   Piece       no more bytes than there is credit for
    Credit         →                →
    Unsubscribe    →                →               nobody there wants it any more
                   ←                ←   FeedEnd     always the last: how it ended, and what the work came to
                                    →               Unsubscribe: the end was passed on
                                    ←   Offer       after the end of a dispatcher: the rest is here

Rules of this file
1. A feed lasts from Subscribe to FeedEnd. The owner says FeedEnd itself where the maker cannot: it is not there, it died.
2. Nothing is kept here but who talks to whom. What is under way of one feed is bounded by its credit (`WINDOW`), what is under
   way to one worker or from one by the number of its feeds: together they stay well below what its connection may hold.
3. The dispatcher's end ends no feed, if the next one is there soon: the maker offers the rest, the subscriber says how much it
   has had, the maker says again what was lost on the way. That is no more than the credit, and the end, so both are kept until
   they are taken: the work may be over by then, and its request forgotten.
4. Who says that it has no such answer to give is not the maker any more: the next request makes it anew, so asking again ends.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.dispatch import messages as m
from gateway.dispatch.fault import encoded
from gateway.errors import ApiError

if TYPE_CHECKING:
    from gateway.dispatch.case import Case
    from gateway.dispatch.node import Node
    from gateway.dispatch.session import Session

WINDOW: Final = 32 * 1024  # bytes of one feed that its subscriber has not taken yet
MOST: Final = 1024  # feeds of one worker in each direction; times WINDOW is half of what a channel may hold
GONE: Final = b"gone"
"""Instead of a fault: there is no such answer here, or what went wrong concerns its leader alone. Ask again."""
LAGGED: Final = b"lagged"
"""Instead of a fault: the subscriber took it so slowly that it could not be kept."""


class Feed(NamedTuple):
    maker: Session
    subscriber: Session
    case: Case | None  # whose work it is; None when it goes on after the end of a dispatcher


class Feeds:
    """Who gets which answer. Feeds are numbered by those who ask for them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._feeds: dict[int, Feed] = {}
        self._offers: dict[Session, set[int]] = {}
        self._made: Counter[Session] = Counter()
        self._taken: Counter[Session] = Counter()

    def __len__(self) -> int:
        return len(self._feeds)

    def room(self, maker: Session, subscriber: Session) -> bool:
        """Whether one more may go from here to there."""
        return not maker.channel.closed and self._made[maker] < MOST and self._taken[subscriber] < MOST

    def said(self, session: Session, message: m.FeedMessage) -> None:
        """A worker's word on a feed. Of one that is over it says nothing any more."""
        feed = self._feeds.get(message.feed)
        if feed is None:
            if isinstance(message, m.Subscribe):
                self._open(session, message)
            elif isinstance(message, m.Offer):
                self._offered(session, message.feed)
        elif session is feed.maker:
            feed.subscriber.send(message)
            if isinstance(message, m.FeedEnd):
                self._close(message.feed, feed)
                session.send(m.Unsubscribe(message.feed))
                if message.fault == GONE and feed.case is not None:
                    self._node.vacate(feed.case)
        elif session is feed.subscriber:
            feed.maker.send(message)

    def left(self, session: Session) -> None:
        """A worker's connection has ended."""
        self._offers.pop(session, None)
        for number, feed in list(self._feeds.items()):
            if feed.maker is session:
                self._close(number, feed)
                feed.subscriber.send(m.FeedEnd(number, b"", _DIED))
            elif feed.subscriber is session:
                self._close(number, feed)
                feed.maker.send(m.Unsubscribe(number))

    def _open(self, session: Session, message: m.Subscribe) -> None:
        if message.had is None:
            case = self._node.berths.get(message.share)
            maker = None if case is None else case.session
        else:
            case, maker = None, self._offerer(message.feed)
        if maker is None or maker is session or not self.room(maker, session):
            session.send(m.FeedEnd(message.feed, b"", GONE))
            return
        self._feeds[message.feed] = Feed(maker, session, case)
        self._made[maker] += 1
        self._taken[session] += 1
        message.n = 0 if case is None else case.n
        maker.send(message)

    def _offered(self, session: Session, number: int) -> None:
        offers = self._offers.setdefault(session, set())
        if len(offers) < MOST:
            offers.add(number)

    def _offerer(self, number: int) -> Session | None:
        """Who has the rest of it. It is not offered a second time: what comes next is a feed like any other."""
        for session, offers in self._offers.items():
            if number in offers:
                offers.remove(number)
                return session
        return None

    def _close(self, number: int, feed: Feed) -> None:
        del self._feeds[number]
        for counter, worker in (self._made, feed.maker), (self._taken, feed.subscriber):
            counter[worker] -= 1
            if not counter[worker]:
                del counter[worker]


def broken(message: str) -> ApiError:
    """What clients hear who were given a part of it."""
    return ApiError(502, "stream_broken", message, outcome="broken_stream")


_DIED = encoded(broken("The worker that made this answer has gone."))
