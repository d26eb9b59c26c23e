"""Is anything that is kept worth an embedding?

An embedding costs milliseconds, and most questions resemble nothing. Two questions that one answer serves share words, so a
question goes on only if some kept question of its partition shares a good part of its weight in words, rare ones weighing more
(log(1 + n/df), as in every search engine since Sparck Jones, 1972). Candidates are found by the rarest words first, and the
search ends as soon as no others can reach the bound (the prefix filter of Chaudhuri, Ganti and Kaushik, ICDE 2006).

Words are cut to their first letters, which is stemming enough; Chinese, Japanese and Korean are read as pairs of characters.
A gate that must look at too much says that it cannot tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from math import log

_WORD = re.compile(r"[a-z0-9]+|[^\W\da-z_]+", re.ASCII | re.IGNORECASE)
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_OTHER = re.compile(r"\w+")
_STEM = 5
_MOST_WORDS = 64
_STOP = frozenset(
    """
    a an and are as at be been but by can could did do does for from get give had has have how i if in into is it
    its me my of on or our please should so some tell than that the their them there they this to us was we were
    what when where which who why will with would you your
    """.split()  # noqa: SIM905 - a text is easier to read and to amend than seventy quoted words
)
_NONE: frozenset[str] = frozenset()


class _Room:
    """One partition."""

    __slots__ = ("entries", "postings")

    def __init__(self) -> None:
        self.entries: dict[str, frozenset[str]] = {}  # the words of each kept question
        self.postings: dict[str, set[str]] = {}


class Gate:
    """`share`: of a question's weight that a kept one must have. `most`: kept questions that are looked at. `max_entries`: of all
    partitions; beyond them whatever was added longest ago goes, as in the store.
    """

    def __init__(self, share: float = 0.33, most: int = 2000, max_entries: int = 100_000) -> None:
        self._share = share
        self._most = most
        self._max_entries = max_entries
        self._rooms: dict[str, _Room] = {}
        self._where: dict[str, str] = {}  # the partition of each kept question; the oldest first
        self._ends: dict[str, float] = {}
        self._texts: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._where)

    @property
    def partitions(self) -> int:
        return len(self._rooms)

    def add(self, id: str, partition: str, text: str, expires_at: float) -> None:  # noqa: A002 - the name of the field it is
        self.remove(id)
        self._ends[id] = expires_at
        self._texts[id] = text
        room = self._rooms.get(partition)
        if room is None:
            room = self._rooms[partition] = _Room()
        words = room.entries[id] = words_of(text)
        self._where[id] = partition
        for word in words:
            room.postings.setdefault(word, set()).add(id)
        if len(self._where) > self._max_entries:
            self.remove(next(iter(self._where)))

    def remove(self, id: str) -> None:  # noqa: A002 - the name of the field it is
        partition = self._where.pop(id, None)
        if partition is None:
            return
        del self._ends[id], self._texts[id]
        room = self._rooms[partition]
        for word in room.entries.pop(id):
            holders = room.postings[word]
            holders.discard(id)
            if not holders:
                del room.postings[word]
        if not room.entries:
            del self._rooms[partition]

    def expire(self, now: float) -> None:
        """Forget what is over. It walks over everything."""
        for each in [id_ for id_, end in self._ends.items() if end <= now]:
            self.remove(each)

    def clear(self) -> None:
        self._rooms.clear()
        self._where.clear()
        self._ends.clear()
        self._texts.clear()

    def holds(self, partition: str) -> bool:
        return partition in self._rooms

    def text(self, id: str) -> str:  # noqa: A002 - the name of the field it is
        """The kept question of that id, which `resembling` has named."""
        return self._texts[id]

    def resembling(self, partition: str, text: str) -> list[str] | None:
        """The kept questions of the partition that have enough in common with `text`, best first; None: more than can be told."""
        room = self._rooms.get(partition)
        if room is None:
            return []
        words = words_of(text)
        return self._find(room, words) if words else None

    def _find(self, room: _Room, words: Iterable[str]) -> list[str] | None:
        count = len(room.entries)
        holders = [room.postings.get(word, _NONE) for word in words]
        weighed = sorted(((log(1 + count / (len(held) or 1)), held) for held in holders), key=_weight)  # the rarest last
        left = sum(weight for weight, _ in weighed)
        needed = left * self._share
        scores: dict[str, float] = {}
        looked = 0
        while weighed and left >= needed:
            weight, held = weighed.pop()
            left -= weight
            looked += len(held)
            if looked > self._most:
                return None
            for each in held:
                scores[each] = scores.get(each, 0.0) + weight
        hopeful = [(score, each) for each, score in scores.items() if score + left >= needed]
        whole = [(score + sum(weight for weight, held in weighed if each in held), each) for score, each in hopeful]
        return [each for score, each in sorted(whole, reverse=True) if score >= needed]


def _weight(weighed: tuple[float, AbstractSet[str]]) -> float:
    return weighed[0]


def words_of(text: str) -> frozenset[str]:
    """The words that say what a question is about, cut to their stems."""
    lowered = text.lower()
    if lowered.isascii():
        found = _WORD.findall(lowered)
    else:
        wide = "".join(_WIDE.findall(lowered))
        found = _OTHER.findall(_WIDE.sub(" ", lowered)) + [wide[at : at + 2] for at in range(len(wide) - 1)]
    words = [word for word in found if word not in _STOP] or found
    return frozenset(word if word[-1].isdigit() else word[:_STEM] for word in words[:_MOST_WORDS])
