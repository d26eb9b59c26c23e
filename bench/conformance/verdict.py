"""Whose a failure is: the engine's, if the suite fails the same case against the engine directly; as told here; or ours."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.conformance.records import BROKE_OFF, Case, Results
from bench.conformance.targets import DIRECT, OURS, WORKERS

# (suite, a pattern of its cases, why). Of a case that the engine passes, why tiergate does not mean to; else what is behind it.
EXPLAINED: tuple[tuple[str, str, str], ...] = (
    ("openai-python-tests", r"chat/.*_(retrieve|update|list\w*|delete)$", "engines keep no completions to list or to change"),
    ("openai-python-tests", r"test_models.*_delete$", "engines' models cannot be deleted"),
    ("openai-python-tests", r"with_all_params_overload_1$", "asks for `stream_options` without a stream, which vLLM refuses"),
    ("openai-python-tests", r"chat/.*with_all_params_overload_2$", "asks for an answer of no tokens, which vLLM refuses"),
    ("openai-python-tests", r"with_all_params_overload_2$", "asks for a `suffix`, which vLLM refuses"),
    (
        "openai-python-tests",
        r"test_embeddings",
        "the SDK asks for base64 by itself, but its strict validation takes floats alone; the loose form of the case passes",
    ),
)


def verdict(results: Results, suite: str, case: Case) -> str:
    """Why tiergate fails a case; nothing when nobody knows."""
    name = case.case.partition("[")[0]
    told = next((why for where, cases, why in EXPLAINED if where == suite and re.search(cases, name)), "")
    if fails_directly(results, suite, case):
        return f"the engine's: {told or case.why}"
    return told


def fails_directly(results: Results, suite: str, case: Case) -> bool:
    """That a suite broke off is never excused."""
    direct = results.runs[suite].get(DIRECT)
    return case.case != BROKE_OFF and direct is not None and any(case.case == failed.case for failed in direct.failed)


def unexplained(results: Results, suites: Sequence[str], targets: Sequence[str]) -> list[str]:
    """One line for each failure of tiergate's among these that nobody accounts for."""
    lines = []
    for suite in suites:
        runs = [run for name, run in results.runs.get(suite, {}).items() if name in targets and name in (OURS, WORKERS)]
        failed = [case for run in runs for case in run.failed]
        lines += [f"{suite}: {case.case}: {case.why}" for case in failed if not verdict(results, suite, case)]
    return lines
