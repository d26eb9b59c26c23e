"""The beginnings that many prompts share, and which of them are wanted most.

Rules of this file
1. The front of a chat request is what stands before its first user message: the leading system messages, and the fields that
   engines write before them. It is written as it came, for the order of a tool's properties is part of the prompt.
2. Fronts of less than a kilobyte are not worth it, and none above 256 KiB is kept.
3. Heat halves every ten minutes. What is counted is bounded, and so is what is kept: `most` fronts.
4. No clock, no I/O, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from caches.prompts import FRONT

LEAST_BYTES = 1024
MOST_BYTES = 256 * 1024
_SYSTEM = ("system", "developer")
_HALF_LIFE = 600.0
_COUNTED = 1024  # marks
_RECURS = 2.0  # heat from which on a front is worth keeping
_COLD = 0.05  # is forgotten

T = TypeVar("T")

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def front_of(fields: Mapping[str, Any]) -> bytes | None:
    """Of a chat request; None where it has none that is worth keeping."""
    messages = fields.get("messages")
    if not isinstance(messages, list):
        return None
    leading = []
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in _SYSTEM:
            break
        leading.append(message)
    front: dict[str, Any] = {name: fields[name] for name in FRONT if fields.get(name) is not None}
    if leading:
        front["messages"] = leading
    try:
        written = _encode(front)
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeError, TypeError, ValueError):
        return None
    return written if LEAST_BYTES <= len(written) <= MOST_BYTES else None


def read_front(front: bytes) -> dict[str, Any]:
    """The fields of a chat request, with `messages`. ValueError where it is none."""
    try:
        fields = _decode(front)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("no front") from error
    messages = fields.setdefault("messages", [])
    if not isinstance(messages, list) or set(fields) - {*FRONT, "messages"}:
        raise ValueError("no front")
    return fields


class Hottest(Generic[T]):
    """Marks by heat, and what is kept of the hottest `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heat: dict[bytes, tuple[float, float]] = {}  # heat, as of when
        self._kept: dict[bytes, T] = {}

    def count(self, counts: Iterable[tuple[bytes, int]], now: float) -> list[bytes]:
        """Marks that were seen so many times more. Tells those of which something should be kept, and is not."""
        for mark, times in counts:
            if times > 0:
                self._heat[mark] = self.heat(mark, now) + times, now
        if len(self._heat) > _COUNTED:
            self._forget(now)
        wanted = [mark for mark in self._ranked(now) if self.heat(mark, now) >= _RECURS][: self._most]
        return [mark for mark in wanted if mark not in self._kept]

    def keep(self, mark: bytes, value: T, now: float) -> None:
        """Unless others are hotter. One that was never counted is cold."""
        self._kept[mark] = value
        if len(self._kept) > self._most:
            del self._kept[min(self._kept, key=lambda kept: self.heat(kept, now))]

    def heat(self, mark: bytes, now: float) -> float:
        heat, since = self._heat.get(mark, (0.0, now))
        return float(heat * 0.5 ** (max(0.0, now - since) / _HALF_LIFE))

    def kept(self, now: float) -> list[tuple[bytes, T]]:
        """The hottest first, those that went cold left out."""
        ranked = sorted(self._kept, key=lambda mark: -self.heat(mark, now))
        return [(mark, self._kept[mark]) for mark in ranked if self.heat(mark, now) >= _COLD]

    def __len__(self) -> int:
        return len(self._kept)

    def _ranked(self, now: float) -> list[bytes]:
        return sorted(self._heat, key=lambda mark: -self.heat(mark, now))

    def _forget(self, now: float) -> None:
        self._heat = {mark: self._heat[mark] for mark in self._ranked(now)[: _COUNTED // 2]}
