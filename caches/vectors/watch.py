"""What stands between a cache and its vector store: a deadline and a breaker for each call, one log line a change, a status."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from caches.breaker import Breaker, BreakerOpen, BreakerRules
from caches.vectors.faults import Declined
from caches.vectors.types import StoreAway

log = logging.getLogger("tiergate.caches")

T = TypeVar("T")

_RULES = BreakerRules()

_MOST_TOLD = 300  # characters of an error's text; it may come from another machine


class Watch:
    """`status` is `ok`, or what is wrong, for people: for the body of /ready and for `doctor`."""

    def __init__(self, what: str, steady: Callable[[], float], rng: random.Random, rules: BreakerRules = _RULES) -> None:
        self._what = what
        self._breaker = Breaker(steady, rng, rules, self._changed)
        self._mentioned = ""
        self._declined: str | None = None
        self._status = "not open yet"

    @property
    def status(self) -> str:
        return self._status if self._declined is None or self._status != "ok" else f"keeps nothing new: {self._declined}"

    async def run(self, work: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Raises StoreAway, and nothing else. What is declined is none of the breaker's business."""
        try:
            with self._breaker.attempt():
                async with asyncio.timeout(seconds):
                    answer = await _answer(work)
        except BreakerOpen:
            raise StoreAway("breaker") from None
        except TimeoutError:
            raise StoreAway("timeout") from None
        except StoreAway:
            raise
        except Exception as error:  # whatever a client of a database or a broken answer of one may raise: a miss, not a failure
            raise StoreAway("failed") from error
        if isinstance(answer, Declined):
            raise StoreAway(answer.reason)
        return answer

    def writes(self, declined: str | None) -> None:
        """Whether what is to be kept is kept; else why not."""
        if declined == self._declined:
            return
        self._declined = declined
        if declined is None:
            log.info("%s keeps new answers again", self._what)
        else:
            log.warning("%s keeps nothing new for now, and is read from as before: %s", self._what, declined)

    def opened(self, how: str) -> None:
        self._status = "ok"
        log.info("%s is open: %s", self._what, how)

    def refused(self, error: BaseException) -> None:
        told = said(error)
        if told != self._status:  # not at every further try
            log.warning("%s cannot be opened: %s", self._what, told)
        self._status = told

    def mention(self, error: BaseException) -> None:
        """Something in the background went wrong. Said once, until it is another thing."""
        told = said(error)
        if told != self._mentioned:
            log.warning("%s could not be tended: %s", self._what, told)
        self._mentioned = told

    def _changed(self, error: BaseException | None) -> None:
        if error is None:
            self._status = "ok"
            log.info("%s answers again", self._what)
        else:
            self._status = said(error)
            log.warning("%s does not answer, and is left alone for a while: %s", self._what, self._status)


async def _answer(work: Callable[[], Awaitable[T]]) -> T | Declined:
    try:
        return await work()
    except Declined as declined:
        return declined


def said(error: BaseException) -> str:
    """One line that fits a log: what a server of somebody's wrote may be long, or of many lines."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = " ".join(str(error).split())[:_MOST_TOLD]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
