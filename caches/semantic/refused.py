"""Pairs of a question and a kept question that are never to be served again: somebody deleted the hit, or it was shown wrong.

A pair is refused for all, or for the one tenant that deleted it. A request whose exact answer was deleted is refused as a whole.

Kept as short digests, the oldest forgotten first. What is forgotten may be served again, so the bound is generous.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

PAIR_BYTES = 8


def pair_of(secret: bytes, partition: str, question: str, kept: str) -> bytes:
    """The digest of a pair, whichever of the two is kept: who says that they are not the same says it of both."""
    return _digest(secret, b"tiergate pair 3", (partition, *sorted((_plain(question), _plain(kept)))))


def _digest(secret: bytes, kind: bytes, parts: Iterable[str]) -> bytes:
    digest = blake2b(digest_size=PAIR_BYTES, key=secret[:64], person=kind)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.digest()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


class Refused:
    """`secret` makes digests. A tenant of None is all of them."""

    def __init__(self, secret: bytes, most: int = 100_000) -> None:
        self._secret = secret
        self._most = most
        self._pairs: OrderedDict[bytes, None] = OrderedDict()
        self.changed = False
        self._joined = b""

    def __len__(self) -> int:
        return len(self._pairs)

    def refuse(self, pair: bytes, tenant: str | None) -> bytes:
        """What others may `add`."""
        return self.add(pair if tenant is None else self._of(pair, tenant))

    def bars(self, pair: bytes, tenant: str) -> bool:
        return pair in self._pairs or (bool(self._pairs) and self._of(pair, tenant) in self._pairs)

    def refuse_request(self, exact: str, tenant: str | None) -> bytes:
        """Whatever might be found for the request that the exact cache keeps under that id."""
        return self.add(self._asked(exact, tenant))

    def bars_request(self, exact: str, tenant: str) -> bool:
        return bool(self._pairs) and bool(exact) and any(self._asked(exact, who) in self._pairs for who in (tenant, None))

    def _of(self, pair: bytes, tenant: str) -> bytes:
        return _digest(self._secret, b"tiergate pair 2", (pair.hex(), tenant))

    def _asked(self, exact: str, tenant: str | None) -> bytes:
        return _digest(self._secret, b"tiergate asked 1", (exact,) if tenant is None else (exact, tenant))

    def add(self, pair: bytes) -> bytes:
        self._pairs[pair] = None
        self._pairs.move_to_end(pair)
        self.changed = True
        while len(self._pairs) > self._most:
            self._pairs.popitem(last=False)
        return pair

    def packed(self) -> bytes:
        self.changed = False
        return b"".join(self._pairs)

    def load(self, packed: bytes) -> None:
        """Take up what `packed` gave; a damaged record is taken as far as it goes."""
        changed = self.changed  # while what was kept could not be read yet
        for pair in _pairs(packed):
            self.add(pair)
        self.changed = changed

    def join(self, packed: bytes) -> None:
        """Take up what others gave into the same record; `changed` then says whether it lacks anything of ours."""
        if packed == self._joined:
            return
        self._joined = packed
        theirs = dict.fromkeys(_pairs(packed))
        for pair in theirs:
            if pair not in self._pairs:
                self.add(pair)
        self.changed = len(self._pairs) > len(theirs)


def _pairs(packed: bytes) -> list[bytes]:
    return [packed[at : at + PAIR_BYTES] for at in range(0, len(packed) - PAIR_BYTES + 1, PAIR_BYTES)]
