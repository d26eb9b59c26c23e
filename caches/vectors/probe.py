"""What is written, read and deleted when a store is opened: a store that only takes connections is not open."""

from __future__ import annotations

import numpy as np

from caches.vectors.types import Match, Point


class ProbeFailed(Exception):  # noqa: N818 - it names what happened
    """The store took a point and does not give it back."""


def point(name: str, dimension: int, now: float) -> Point:
    vector = np.zeros(dimension, dtype=np.float32)
    vector[0] = 1.0
    return Point(
        id=f"probe-{name}",
        partition=f"probe-{name}",  # no hex digits: nobody's, and no other node's that opens just now
        vector=vector,
        text="probe",
        tenant="",
        model="",
        tags=(),
        stored_at=now,
        expires_at=now + 3600.0,
        answer=b"probe",
    )


def check(put: Point, found: list[Match], fetched: Point | None) -> None:
    """Raises ProbeFailed."""
    if not any(match.id == put.id and match.cosine > 0.99 for match in found):
        raise ProbeFailed("a point that was written is not found")
    if fetched is None or fetched.answer != put.answer or fetched.text != put.text:
        raise ProbeFailed("a point that was written cannot be read")
