"""Points as the cache knows them, made into rows and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caches.embed.types import Vector
from caches.vectors.rows import MAX_ANSWER, BadRow, Row, Where
from caches.vectors.types import Known, Match, Point
from caches.which import Which


def row(point: Point, dimension: int) -> Row:
    """Raises BadRow: what could not be read again is not written."""
    if len(point.answer) > MAX_ANSWER:
        raise BadRow(f"an answer may have {MAX_ANSWER} bytes")
    _check_texts(point.id, point.partition, point.tenant, point.model, point.text, *point.tags)
    return Row(
        id=point.id,
        partition=point.partition,
        tenant=point.tenant,
        model=point.model,
        tags=point.tags,
        stored_at=point.stored_at,
        expires_at=point.expires_at,
        text=point.text,
        answer=point.answer,
        vector=packed(point.vector, dimension),
    )


def packed(vector: Vector, dimension: int) -> bytes:
    if vector.shape != (dimension,) or not np.isfinite(vector).all():
        raise BadRow(f"a vector must have {dimension} finite numbers")
    return vector.astype(np.float32, copy=False).tobytes()


def point(row: Row, dimension: int) -> Point:
    return Point(
        id=row.id,
        partition=row.partition,
        vector=_vector(row, dimension),
        text=row.text,
        tenant=row.tenant,
        model=row.model,
        tags=row.tags,
        stored_at=row.stored_at,
        expires_at=row.expires_at,
        answer=row.answer,
    )


def matches(rows: Sequence[Row], partition: str, vector: Vector, now: float) -> list[Match]:
    """Best first. What is of another partition, or has expired, is left out whatever the engine thought of its filter."""
    mine = vector.astype(np.float32, copy=False)
    length = float(np.linalg.norm(mine))
    found = [_match(row, mine, length) for row in rows if row.partition == partition and row.expires_at > now]
    return sorted(found, key=lambda match: match.cosine, reverse=True)


def only(rows: Sequence[Row], entry: str, dimension: int, now: float) -> Point | None:
    """The one of this id, if it has not expired."""
    return next((point(row, dimension) for row in rows if row.id == entry and row.expires_at > now), None)


def known(row: Row) -> Known:
    return Known(id=row.id, partition=row.partition, text=row.text, stored_at=row.stored_at, expires_at=row.expires_at)


def where(which: Which, now: float) -> Where:
    """What a flush means, of what has not expired: the rest is nobody's loss, and is swept away anyhow. Raises BadRow."""
    _check_texts(which.tenant or "", which.model or "", which.tag or "")
    return Where(tenant=which.tenant, model=which.model, tag=which.tag, born_by=which.born_by(now), alive_at=now)


def _check_texts(*texts: str) -> None:
    """JSON can say half a character, which can neither be sent nor stored; that must not look like a fault of the store."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise BadRow("a text with half a character") from None


def _match(row: Row, mine: Vector, length: float) -> Match:
    theirs = _vector(row, len(mine))
    lengths = length * float(np.linalg.norm(theirs))
    return Match(
        id=row.id,
        cosine=min(1.0, max(-1.0, float(mine @ theirs) / lengths)) if lengths > 0 else 0.0,
        text=row.text,
        tenant=row.tenant,
        stored_at=row.stored_at,
        expires_at=row.expires_at,
        vector=theirs,
    )


def _vector(row: Row, dimension: int) -> Vector:
    vector: Vector = np.frombuffer(row.vector, dtype=np.float32)
    if vector.shape != (dimension,) or not np.isfinite(vector).all():
        raise BadRow(f"a vector of {len(vector)} numbers came back, for {dimension}")
    return vector
