"""What stands between quotation marks is to be taken literally; so are addresses."""

from __future__ import annotations

from caches.guards.reading import MAX_CHARS, Reading


def quotes(a: Reading, b: Reading) -> str | None:
    if a.links != b.links:
        return "quotes"
    if a.quoted == b.quoted:
        return None
    return None if _holds(a, b) and _holds(b, a) else "quotes"


def _holds(one: Reading, other: Reading) -> bool:
    """Every quotation is in the other text, in marks or without."""
    if not one.quoted:
        return True
    text = " ".join(other.text[:MAX_CHARS].split())
    folded = text.lower()
    return all(quoted in text or quoted.strip(".,!?()").lower() in folded for quoted in one.quoted)
