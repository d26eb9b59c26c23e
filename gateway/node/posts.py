"""What the supervisor keeps filled, and the one who may be about to take over."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.node.backoff import Backoff
from gateway.node.child import Process, Run
from gateway.node.pulse import Vigil


@dataclass(eq=False)
class Post:
    """A place that one process holds at a time: the dispatcher's, or that of a worker."""

    name: str
    number: int  # the dispatcher is 0
    run: Run
    vigil: Vigil
    holder: Process | None = None
    due: float = 0.0  # not filled before
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def serving(self) -> bool:
        """Its holder does its work, and has not been told to go."""
        return self.holder is not None and self.holder.ready and not self.holder.retiring

    def vacate(self, now: float, lived: float, *, served: bool) -> float:
        """Its holder died, or could not be started; how long it stays empty."""
        self.holder = None
        pause = self.backoff.after(lived, served=served)
        self.due = now + pause
        return pause


class Reload:
    """The workers replaced one by one. A request that comes amid it makes it run once more, from the start."""

    def __init__(self) -> None:
        self._left: deque[Post] = deque()
        self._again: Sequence[Post] = ()
        self.heir: Process | None = None  # about to take over from the holder of `post`

    @property
    def post(self) -> Post | None:
        """The one whose holder is to go."""
        return self._left[0] if self._left else None

    def ask(self, posts: Sequence[Post]) -> None:
        if self._left:
            self._again = posts
        else:
            self._left.extend(posts)

    def succeed(self) -> Process | None:
        """The heir is ready: it holds the post from now on. Who held it before, if anyone did."""
        post = self._left.popleft()
        before, post.holder = post.holder, self.heir
        self.heir = None
        if not self._left:
            self._left.extend(self._again)
            self._again = ()
        return before

    def end(self) -> None:
        self._left.clear()
        self._again = ()
        self.heir = None
