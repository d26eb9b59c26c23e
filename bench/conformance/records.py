"""Results as docs/conformance.json has them: the counts, and each case that did not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Self

import msgspec

DATA = "conformance.json"
BROKE_OFF = "(the suite)"  # the case of a program that did not end well


class Case(msgspec.Struct, frozen=True):
    case: str
    outcome: str  # passed, failed or skipped
    why: str = ""


class Run(msgspec.Struct, frozen=True):
    """One suite through one target."""

    passed: int
    failed: list[Case]
    skipped: list[Case]
    version: str  # of the target
    suite: str  # its version
    date: str
    seconds: float

    @classmethod
    def of(cls, cases: Sequence[Case], *, version: str, suite: str, date: str, seconds: float) -> Self:
        counts = Counter(case.outcome for case in cases)
        by = {kind: [case for case in cases if case.outcome == kind] for kind in ("failed", "skipped")}
        return cls(counts["passed"], by["failed"], by["skipped"], version, suite, date, seconds)

    def told(self) -> str:
        return f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"


class Results(msgspec.Struct):
    """`runs[suite][target]`."""

    runs: dict[str, dict[str, Run]] = {}
