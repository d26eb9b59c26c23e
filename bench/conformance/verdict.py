"""Whose a failure is: the engine's, if the suite fails the same case against the engine directly; or as told here; or ours."""

from __future__ import annotations

from collections.abc import Sequence

from bench.conformance.records import BROKE_OFF, Case, Results
from bench.conformance.targets import DIRECT, OURS

# (suite, case): why tiergate cannot or does not mean to pass it, though the engine does
EXPLAINED: dict[tuple[str, str], str] = {}


def verdict(results: Results, suite: str, case: Case) -> str:
    """Why tiergate fails a case; nothing when nobody knows."""
    if told := EXPLAINED.get((suite, case.case)):
        return told
    return "the engine's" if fails_directly(results, suite, case) else ""


def fails_directly(results: Results, suite: str, case: Case) -> bool:
    """That a suite broke off is never excused."""
    direct = results.runs[suite].get(DIRECT)
    return case.case != BROKE_OFF and direct is not None and any(case.case == failed.case for failed in direct.failed)


def unexplained(results: Results, suites: Sequence[str]) -> list[str]:
    lines = []
    for suite in suites:
        run = results.runs.get(suite, {}).get(OURS)
        failed = run.failed if run else ()
        lines += [f"{suite}: {case.case}: {case.why}" for case in failed if not verdict(results, suite, case)]
    return lines
