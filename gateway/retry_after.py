"""How long a backend asks to be left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from gateway.refusals import waiting

_LATEST = 31 * 86_400.0  # seconds that a backend may ask for


def when(after: str | None) -> dict[str, str]:
    """The backend's own `retry-after`, in both our forms."""
    return waiting(seconds(after))


def seconds(after: str | None) -> float:
    """Those of a `retry-after`; a second where it names none that can be read."""
    if after is not None and after.isascii() and after.isdigit():
        return min(float(after), _LATEST)
    try:
        moment = parsedate_to_datetime(after or "")
    except ValueError:
        return 1.0
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return min(max(1.0, (moment - datetime.now(UTC)).total_seconds()), _LATEST)
