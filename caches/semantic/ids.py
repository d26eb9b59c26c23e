"""The ids of semantic hits.

    cs-POINT                     a kept answer: from its partition and its question
    cs-POINT-PAIR                what a client was served: with the pair of its own question and the kept one, and check digits
    cs-POINT-PAIR-EXACT          likewise, of a request that the exact cache keeps under `ce-EXACT`

Deleting by such an id refuses the pair for ever, also when the same question is kept again. The first half of the check digits
tells a made-up pair, so nobody can crowd out the refused pairs of others. The second is made with the tenant that was served:
to any other tenant the id is none. The exact id is there because an approved answer is kept by the exact cache, too.

A kept answer has the exact id that it came with among its tags. Clients' own tags never look like ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

_HEX = frozenset("0123456789abcdef")
_ID = 24
_PAIR = 16
_CHECK = 8


@dataclass(frozen=True, slots=True)
class HitId:
    point: str
    pair: bytes | None  # None: the id names the kept answer alone


def point_id(secret: bytes, partition: str, text: str) -> str:
    """One question has one kept answer a partition."""
    digest = blake2b(digest_size=_ID // 2, key=secret[:64], person=b"tiergate point1")
    digest.update(bytes.fromhex(partition))
    digest.update(text.encode("utf-8", "surrogatepass"))
    return "cs-" + digest.hexdigest()


def hit_id(secret: bytes, point: str, pair: bytes, tenant: str, exact: str = "") -> str:
    """`exact`: what the exact cache calls the answer of the very same request."""
    shown, behind = point + "-" + pair.hex(), exact.replace("ce-", "-", 1)
    return f"{shown}{_check(secret, shown + behind)}{_check(secret, shown + behind, tenant)}{behind}"


def read_hit(secret: bytes, id: str, tenant: str | None) -> HitId | None:  # noqa: A002 - the name of the field it is
    """None: no such id was ever given to that tenant. To the operator, who is None, it may have been given to any."""
    head, *parts = id.split("-")
    if head != "cs" or not 1 <= len(parts) <= 3 or not all(map(_HEX.issuperset, parts)):
        return None
    point = f"cs-{parts[0]}"
    if [len(part) for part in parts] not in ([_ID], [_ID, _PAIR + 2 * _CHECK], [_ID, _PAIR + 2 * _CHECK, _ID]):
        return None
    if len(parts) == 1:
        return HitId(point, None)
    pair, checks = parts[1][:_PAIR], parts[1][_PAIR:]
    said = "-".join((point, pair, *parts[2:]))
    if checks[:_CHECK] != _check(secret, said) or (tenant is not None and checks[_CHECK:] != _check(secret, said, tenant)):
        return None
    return HitId(point, bytes.fromhex(pair))


def is_exact(id: str) -> bool:  # noqa: A002 - as above
    """Whether it is the exact cache's own."""
    return len(id) == _ID + 3 and id.startswith("ce-") and _HEX.issuperset(id[3:])


def exact_of(id: str) -> str:  # noqa: A002 - as above
    """What the exact cache keeps under an id, a hit's or its own; empty: nothing."""
    head, *parts = id.split("-")
    return f"ce-{parts[-1]}" if (head == "cs" and len(parts) == 3) or (head == "ce" and len(parts) == 1) else ""


def twin_of(tags: Iterable[str]) -> str:
    """The exact id that a kept answer came with."""
    return next(filter(is_exact, tags), "")


def body_digest(body: bytes) -> bytes:
    """What an approved answer and the one that it came from have in common."""
    return blake2b(body, digest_size=8).digest()


def _check(secret: bytes, said: str, tenant: str = "") -> str:
    digest = blake2b(digest_size=_CHECK // 2, key=secret[:64], person=b"tiergate hit id2")
    digest.update(f"{said} {tenant}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
