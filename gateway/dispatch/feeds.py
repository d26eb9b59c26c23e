"""Answers on their way from the worker that makes them to clients of other workers: the owner's part.

    subscriber           owner            maker
    Subscribe      →                →               a flight of the subscriber's is to be fed; said again: a more urgent class
                   ←                ←   FeedHead    once
                   ←                ←   Piece       no more bytes than there is credit for
    Credit         →                →
    Unsubscribe    →                →               nobody there wants it any more
                   ←                ←   FeedEnd     always the last: how it ended, and what the work came to

Rules of this file
1. A feed lasts from Subscribe to FeedEnd. The owner says FeedEnd itself where the maker cannot: it is not there, it died.
2. Nothing is kept here but who talks to whom. What is under way of one feed is bounded by its credit (`WINDOW`), what is under
   way to one worker or from one by the number of its feeds: together they stay well below what its connection may hold.
3. The dispatcher's end ends no feed, if the next one is there soon: the subscriber says how much it has had, the maker says
   again what was lost on the way. That is no more than the credit, so it is kept until it is taken.
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
    maker: Case
    subscriber: Session


class Feeds:
    """Who gets which answer. Feeds are numbered by those who ask for them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._feeds: dict[int, Feed] = {}
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
        elif session is feed.maker.session:
            if isinstance(message, m.FeedEnd):
                self._close(message.feed, feed)
                if message.fault == GONE:
                    self._node.vacate(feed.maker)
            feed.subscriber.send(message)
        elif session is feed.subscriber:
            feed.maker.session.send(message)

    def left(self, session: Session) -> None:
        """A worker's connection has ended."""
        for number, feed in list(self._feeds.items()):
            if feed.maker.session is session:
                self._close(number, feed)
                feed.subscriber.send(m.FeedEnd(number, b"", _DIED))
            elif feed.subscriber is session:
                self._close(number, feed)
                feed.maker.session.send(m.Unsubscribe(number))

    def _open(self, session: Session, message: m.Subscribe) -> None:
        maker = self._node.berths.get(message.share)
        if maker is None or maker.session is session or not self.room(maker.session, session):
            session.send(m.FeedEnd(message.feed, b"", GONE))
            return
        self._feeds[message.feed] = Feed(maker, session)
        self._made[maker.session] += 1
        self._taken[session] += 1
        message.n = maker.n
        maker.session.send(message)

    def _close(self, number: int, feed: Feed) -> None:
        del self._feeds[number]
        for counter, worker in (self._made, feed.maker.session), (self._taken, feed.subscriber):
            counter[worker] -= 1
            if not counter[worker]:
                del counter[worker]


def broken(message: str) -> ApiError:
    """What clients hear who were given a part of it."""
    return ApiError(502, "stream_broken", message, outcome="broken_stream")


_DIED = encoded(broken("The worker that made this answer has gone."))
