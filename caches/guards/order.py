"""The order of Chinese characters: 狗怕猫 is not 猫怕狗, 谁教了孔子 is not 孔子教了谁."""

from __future__ import annotations

from caches.guards.reading import Reading

_SYMMETRIC = frozenset("和与跟同或")
_MOST = 40  # characters


def turned_han(a: Reading, b: Reading) -> bool:
    """The same characters in another order. Two parts may change places, the verb and its object, but not around `谁`."""
    ours, theirs = a.content, b.content
    if ours == theirs or not a.han or not 2 <= len(ours) <= _MOST or sorted(ours) != sorted(theirs):
        return False
    if not _SYMMETRIC.isdisjoint(a.han) and not _SYMMETRIC.isdisjoint(b.han):
        return False
    return a.frame == "@who" or not any(ours[at:] + ours[:at] == theirs for at in range(len(ours)))
