"""What stands between quotation marks is to be taken literally; so are addresses."""

from __future__ import annotations

from caches.guards.reading import Reading


def quotes(a: Reading, b: Reading) -> str | None:
    if a.links != b.links:
        return "quotes"
    if a.quoted == b.quoted:
        return None
    return None if _holds(a, b) and _holds(b, a) else "quotes"


def _holds(one: Reading, other: Reading) -> bool:
    """Every quotation is in the other text, in marks or without."""
    text = " ".join(other.text.split()) if one.quoted else ""
    return all(quoted in text or quoted.strip(".,!?").lower() in text.lower() for quoted in one.quoted)
