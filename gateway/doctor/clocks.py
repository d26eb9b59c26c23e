"""Other machines' time against ours. Ten seconds apart, expiries, `age`, logs and signed requests stop making sense."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from gateway.config.problems import Path
from gateway.doctor.findings import Finding, warn

TOLERANCE = 5.0


def http_date(value: bytes | None) -> float | None:
    """A Date header as seconds since the epoch; None where there is none that can be read."""
    if value is None or len(value) > 64:
        return None
    try:
        moment = parsedate_to_datetime(value.decode("ascii"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, UnicodeDecodeError, OverflowError, TypeError):
        return None


def skew(where: Path, whose: str, theirs: float | None, asked: float, seconds: float, *, step: float = 0.0) -> list[Finding]:
    """`theirs` was read between `asked` and `asked + seconds`; `step` is how coarse it is (a Date header: one second)."""
    if theirs is None:
        return []
    early, late = theirs + step - asked, theirs - (asked + seconds)  # < 0: theirs is behind; > 0: ahead
    apart = late if late > 0 else early if early < 0 else 0.0
    if abs(apart) <= TOLERANCE:
        return []
    ahead = f"{abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} ours"
    times = f"there {_clock(theirs)}, here {_clock(asked)}"
    return [
        warn(where, f"the clock of {whose} is {ahead}: {times}", "Have both machines keep time by NTP (chrony or timesyncd).")
    ]


def _clock(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{moment:.0f} s since 1970"
