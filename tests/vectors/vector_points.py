"""Points for tests: small vectors, a clock that is told."""

import numpy as np

from caches.vectors.types import Point

DIMENSION = 8
NOW = 1_800_000_000.0


class Clock:
    def __init__(self, now=NOW):
        self.now = now

    def __call__(self):
        return self.now


def vector(*numbers):
    padded = np.zeros(DIMENSION, dtype=np.float32)
    padded[: len(numbers)] = numbers
    return padded


def made(number, partition="aa", *, at=NOW, ttl=3600.0, towards=(1.0,), text=None, answer=b"{}", **owner):
    return Point(
        id=f"cs-{number:024x}",
        partition=partition,
        vector=vector(*towards),
        text=f"question {number}" if text is None else text,
        tenant=owner.get("tenant", "acme"),
        model=owner.get("model", "small"),
        tags=owner.get("tags", ()),
        stored_at=at,
        expires_at=at + ttl,
        answer=answer,
    )
