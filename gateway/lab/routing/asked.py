"""A classifier that has to be awaited, scored like any other: one prompt after the other, in a loop of its own.

What fails or is late is "don't know" here, whoever judges instead in the gateway: another classifier's figures are its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol, cast

from gateway.build import classify
from gateway.config import Config
from gateway.lab.routing.scored import body_of
from gateway.metrics import Metrics
from routing.asked import Unknown
from routing.types import Verdict

_NOTHING = cast("Any", None)  # neither a semantic cache nor a fleet is running here
READY = 30.0  # seconds for it to be ready, at the start
_PAUSE = 0.1
_PROBE = "What is the capital of France?"


class Asked(Protocol):
    async def judge(self, body: Mapping[str, Any], endpoint: str, tenant: str) -> Verdict: ...

    async def run(self) -> None:
        """For ever: what keeps it going."""


class Awaited:
    """A judge. Waits at first until `asked` knows anything; to be closed."""

    def __init__(self, asked: Asked, ready: float = READY) -> None:
        self._asked = asked
        self._ready = ready
        self._runner = asyncio.Runner()
        self._running: asyncio.Task[None] | None = None

    def __call__(self, prompt: str) -> Verdict:
        return self._runner.run(self._judge(prompt))

    def close(self) -> None:
        """What keeps it going ends with the loop."""
        self._runner.close()

    async def _judge(self, prompt: str) -> Verdict:
        if self._running is None:
            self._running = asyncio.create_task(self._asked.run())
            await _known(self._asked, self._ready)
        return await self._asked.judge(body_of(prompt), "chat", "")


def asked_of(config: Config) -> Asked | None:
    """None: the config's classifier answers at once. Raises ValueError."""
    if config.routing.classifier.kind == "embedding" and config.cache.semantic.embedder.kind == "pool":
        raise ValueError("an embedder that is a pool of the fleet cannot be asked without the fleet")
    clock = time.monotonic
    rates = classify.rates_of(config, _NOTHING, _NOTHING, clock)
    return classify.asked_of(config, rates, Unknown(), Metrics(), clock)


async def _known(asked: Asked, seconds: float) -> None:
    """Until a probe has a score, or that long."""
    end = time.monotonic() + seconds
    while (await asked.judge(body_of(_PROBE), "chat", "")).score is None and time.monotonic() < end:  # noqa: ASYNC110 - see below
        await asyncio.sleep(_PAUSE)  # nobody tells when an embedder is ready
