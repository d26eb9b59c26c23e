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
    """No vector was to be had in time. `reason` is a word for a header: `loading`, `timeout`, `breaker`, `overload`, `failed`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TooLong(Exception):  # noqa: N818 - it names what happened
    """The model cannot read the whole text: it has too many tokens, or signs that the model does not know, or none at all.

    A vector would speak for a part of it only.
    """


class Model(Protocol):
    """Weights and a tokenizer. Blocking; may be asked by several threads at once."""

    fingerprint: str  # of weights, tokenizer and pooling: thresholds belong to it
    dimension: int
    max_tokens: int

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """A vector a text; None for one that it cannot read whole. A text's vector does not depend on those beside it."""
        ...


class Embedder(Protocol):
    fingerprint: str
    dimension: int

    async def open(self) -> None:
        """Load whatever it runs. Raises EmbedderAway when that fails; it goes on trying by itself."""
        ...

    def covers(self, text: str) -> bool:
        """Whether the model can read this script. Cheap: it runs on the event loop."""
        ...

    async def embed(self, text: str, *, scope: str = "", within: float | None = None) -> Vector:
        """Raises EmbedderAway and TooLong.

        Work is shared between equal texts of one `scope` only: how fast a vector comes tells nobody what another tenant asked.
        `within`: seconds, where the usual deadline does not suit.
        """
        ...

    async def close(self) -> None: ...
