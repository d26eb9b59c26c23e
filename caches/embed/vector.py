"""From a model's numbers to a unit vector."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from caches.embed.types import Vector


def unit(vector: NDArray[np.float32]) -> Vector:
    """Of length 1, and read-only: it will be shared. Raises ValueError."""
    length = np.sqrt(vector @ vector)
    if not 0 < length < np.inf:
        raise ValueError("a vector without a direction")
    made: Vector = np.asarray(vector / length, np.float32)
    made.flags.writeable = False
    return made


def pooled(states: NDArray[np.float32], pooling: str) -> NDArray[np.float32]:
    """States: a row a token, none of them padding; for `none` one row."""
    if pooling == "mean":
        return np.asarray(states.mean(axis=0, dtype=np.float32))
    if pooling == "none":
        return states
    return np.asarray(states[0 if pooling == "cls" else -1])
