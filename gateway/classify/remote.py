"""An HTTP classifier: it is sent the newest ask, and answers with a number from 0 (easy) to 1 (hard), somewhere in its JSON.

vLLM's `/classify` and `/pooling` are such, and what an operator writes in an afternoon. Whatever it does but answer in time with
such a number is a failure: the classifier `instead` judges, and several in a row leave it alone for a while. What it is asked,
what it says and its key are in no log and no error.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from backends.client import Client, Deadlines
from backends.errors import UpstreamError, UpstreamTimeout
from caches.breaker import Breaker, BreakerOpen, BreakerRules
from gateway.metrics import Metrics
from routing.types import Classifier, Verdict
from routing.words import words

_BREAKER = BreakerRules(failures=5, open_seconds=1.0, max_open_seconds=15.0)
_MOST_ANSWER = 64 * 1024
_MOST_AT_ONCE = 256
_RESOLVED = 30.0  # seconds between look-ups of its name
_log = logging.getLogger("tiergate.routing")


@dataclass(frozen=True, slots=True)
class Form:
    """What is sent (`field` of a JSON object, beside `model`), and where the number is (`score`: names and places)."""

    field: str
    model: str
    score: str
    most: int  # characters of the ask

    def body(self, text: str) -> bytes:
        asked: dict[str, str] = {"model": self.model} if self.model else {}
        return msgspec.json.encode({**asked, self.field: text})

    def read(self, answer: bytes) -> float:
        """Raises BadAnswer."""
        try:
            found = msgspec.json.decode(answer)
            for step in self.score.split("."):
                found = found[int(step)] if isinstance(found, list) else found[step]
        except (msgspec.MsgspecError, RecursionError, UnicodeError, LookupError, TypeError, ValueError):
            raise BadAnswer from None
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
            raise BadAnswer
        return float(found)


class BadAnswer(Exception):  # noqa: N818 - names what came
    """No number from 0 to 1 is where it should be."""


class Remote:
    """`seconds`: for all of it, from the first byte sent to the number."""

    def __init__(
        self,
        client: Client,
        form: Form,
        api_key: str,
        *,
        seconds: float,
        instead: Classifier,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        origin = client.origin
        authorization = f"authorization: Bearer {api_key}\r\n" if api_key else ""
        self._head = (
            f"POST {origin.base_path or '/'} HTTP/1.1\r\nhost: {origin.authority}\r\n{authorization}"
            "content-type: application/json\r\naccept-encoding: identity\r\ncontent-length: "
        ).encode("ascii")
        self._client, self._form, self._seconds, self._instead = client, form, seconds, instead
        self._metrics, self._clock = metrics, clock
        self._breaker = Breaker(clock, random.Random(), _BREAKER, _told)
        self._running = 0

    async def judge(self, body: Mapping[str, Any], endpoint: str, tenant: str) -> Verdict:  # noqa: ARG002 - nothing is kept
        text = words(body, endpoint, self._form.most)
        if not text:
            return replace(self._instead.classify(body, endpoint), instead="no_text")
        score, result = await self.rate(text)
        self._metrics.classified.add((result,))
        return Verdict(score) if score is not None else replace(self._instead.classify(body, endpoint), instead=result)

    async def rate(self, text: str) -> tuple[float | None, str]:
        """(Its score, what came of asking)."""
        if self._running >= _MOST_AT_ONCE:
            return None, "overload"
        self._running += 1
        try:
            with self._breaker.attempt():
                async with asyncio.timeout(self._seconds):
                    return await self._ask(self._form.body(text)), "answered"
        except BreakerOpen:
            return None, "breaker"
        except (TimeoutError, UpstreamTimeout):
            return None, "timeout"
        except (UpstreamError, BadAnswer):
            return None, "failed"
        finally:
            self._running -= 1

    async def close(self) -> None:
        """Nothing is asked any more."""
        await self._client.close()

    async def run(self) -> None:
        """For ever: follow its name, and close what is open at the end."""
        try:
            while True:
                await asyncio.sleep(_RESOLVED)
                try:
                    await self._client.resolve()
                except UpstreamError:
                    continue  # the addresses known before stay in use
        finally:
            await self.close()

    async def _ask(self, body: bytes) -> float:
        deadlines = Deadlines(self._seconds, None, None, self._clock() + self._seconds)
        async with self._client.request(self._head + b"%d\r\n\r\n" % len(body), body, deadlines) as answer:
            payload = await answer.read(_MOST_ANSWER)
            if answer.status != 200:
                raise BadAnswer
        return self._form.read(payload)


def _told(error: BaseException | None) -> None:
    if error is None:
        _log.info("the remote classifier is back")
    else:
        _log.warning("the remote classifier is left alone for a while: %s", type(error).__name__)
