"""What an embedder is.

A `Model` is the plain, blocking thing: weights and a tokenizer. An `Embedder` is what the cache asks: it runs a model (or asks
a pool of engines) under a deadline and a breaker, and never on the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""One text: shape (dimension,), length 1."""


class EmbedderAway(Exception):  # noqa: N818 - it names what happened
    """No vector was to be had in time. `reason` is a word for a header: `timeout`, `breaker`, `overload`, `failed`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TooLong(Exception):  # noqa: N818 - it names what happened
    """The text has more tokens than the model reads: a vector would speak for its beginning only."""


class Model(Protocol):
    """Weights and a tokenizer. Blocking; one thread at a time."""

    fingerprint: str  # of weights, tokenizer and pooling: thresholds belong to it
    dimension: int
    max_tokens: int

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """A vector a text; None for one that is too long."""
        ...


class Embedder(Protocol):
    fingerprint: str
    dimension: int

    def covers(self, text: str) -> bool:
        """Whether the model can read this script. Cheap: it runs on the event loop."""
        ...

    async def embed(self, text: str) -> Vector:
        """Raises EmbedderAway and TooLong."""
        ...

    async def close(self) -> None: ...
