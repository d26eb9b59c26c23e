"""What stands between quotation marks is to be taken literally; so are addresses."""

from __future__ import annotations

from caches.guards.reading import MAX_CHARS, Reading


def quotes(a: Reading, b: Reading) -> str | None:
    if a.links != b.links:
        return "quotes"
    if a.quoted == b.quoted:
        return None
    if len(a.quoted) == len(b.quoted) and sorted(map(_marked, a.quoted)) != sorted(map(_marked, b.quoted)):
        return "quotes"
    if len(a.quoted) == len(b.quoted) and "`" in a.text and "`" in b.text:
        return None if sorted(a.quoted) == sorted(b.quoted) else "quotes"  # code: the case of its letters counts
    return None if _holds(a, b) and _holds(b, a) else "quotes"


def _marked(quoted: str) -> str:
    return quoted.lower().strip(".,!?()")


def _holds(one: Reading, other: Reading) -> bool:
    """Every quotation is in the other text, in marks or without."""
    if not one.quoted:
        return True
    text = " ".join(other.text[:MAX_CHARS].split())
    folded = text.lower()
    return all(quoted in text or " ".join(_marked(quoted).split()) in folded for quoted in one.quoted)
