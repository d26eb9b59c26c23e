"""The examples, embedded, where the embedder is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from caches.embed.types import Embedder, EmbedderAway, TooLong
from gateway.classify.examples import Away, Likeness

_AGAIN = 5.0  # seconds until what could not be embedded is tried again
_PATIENCE = 10.0  # for one example, at the start
_log = logging.getLogger("tiergate.routing")


class Nearest:
    """`seconds`: for one vector. `own`: the embedder is nobody else's, and is closed with this."""

    def __init__(self, embedder: Embedder, examples: Mapping[str, Sequence[str]], seconds: float, *, own: bool) -> None:
        self._embedder, self._examples, self._seconds, self._own = embedder, examples, seconds, own
        self._tiers: dict[str, NDArray[np.float32]] = {}

    async def run(self) -> None:
        """For ever; the examples are known once all of them are."""
        try:
            while not self._tiers:
                try:
                    await self._embedder.open()
                    self._tiers = {tier: await self._rows(tier, texts) for tier, texts in self._examples.items()}
                except EmbedderAway as away:
                    _log.warning("examples of the tiers could not be embedded, and are tried again: %s", away.reason)
                    await asyncio.sleep(_AGAIN)
            await asyncio.Event().wait()
        finally:
            if self._own:
                await self._embedder.close()

    async def likeness(self, text: str, scope: str) -> Likeness:
        if not self._tiers:
            raise Away("loading")
        if not self._embedder.covers(text):
            return {}
        try:
            vector = await self._embedder.embed(text, scope=scope, within=self._seconds)
        except TooLong:
            return {}
        except EmbedderAway as away:
            raise Away(away.reason) from None
        return {tier: float((rows @ vector).max()) for tier, rows in self._tiers.items() if len(rows)}

    async def _rows(self, tier: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Raises EmbedderAway."""
        rows = []
        for place, text in enumerate(texts):
            try:
                rows.append(await self._embedder.embed(text, within=_PATIENCE))
            except TooLong:
                _log.warning("example %d of the tier %s is longer than the embedder reads, and is left out", place + 1, tier)
        return np.array(rows, np.float32)
