"""The ids of semantic hits.

A kept answer is `cs-` and 24 hex digits, from its partition and its question. What a client is served bears, behind that, the
pair of its own question and the kept one: deleting by that id refuses the pair for ever, also when the same question is kept
again. A made-up pair is told by its check digits, so nobody can crowd out the refused pairs of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

_HEX = frozenset("0123456789abcdef")
_POINT = 24
_PAIR = 16
_CHECK = 8


@dataclass(frozen=True, slots=True)
class HitId:
    point: str
    pair: bytes | None  # None: the id names the kept answer alone


def point_id(secret: bytes, partition: str, text: str) -> str:
    """One question has one kept answer a partition."""
    digest = blake2b(digest_size=_POINT // 2, key=secret[:64], person=b"tiergate point1")
    digest.update(bytes.fromhex(partition))
    digest.update(text.encode("utf-8", "surrogatepass"))
    return "cs-" + digest.hexdigest()


def hit_id(secret: bytes, point: str, pair: bytes) -> str:
    return f"{point}-{pair.hex()}{_check(secret, point, pair)}"


def read_hit(secret: bytes, id: str) -> HitId | None:  # noqa: A002 - the name of the field it is
    """None: no such id was ever given."""
    head, *parts = id.split("-")
    if head != "cs" or not 1 <= len(parts) <= 2 or len(parts[0]) != _POINT or not _HEX.issuperset(parts[0]):
        return None
    point = f"cs-{parts[0]}"
    if len(parts) == 1:
        return HitId(point, None)
    if len(parts[1]) != _PAIR + _CHECK or not _HEX.issuperset(parts[1]):
        return None
    pair = bytes.fromhex(parts[1][:_PAIR])
    return HitId(point, pair) if parts[1][_PAIR:] == _check(secret, point, pair) else None


def _check(secret: bytes, point: str, pair: bytes) -> str:
    digest = blake2b(digest_size=_CHECK // 2, key=secret[:64], person=b"tiergate hit id1")
    digest.update(point.encode())
    digest.update(pair)
    return digest.hexdigest()
