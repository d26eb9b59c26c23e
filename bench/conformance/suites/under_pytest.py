"""For suites that pytest runs: it tells each case's result as record.py does, and its own end only when it broke off."""

from __future__ import annotations

from typing import Any

import pytest
from record import tell


class Recorder:
    """A plugin: one line for each case, named as pytest names it, without `folder`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.told: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        case = report.nodeid.removeprefix(self.folder)
        if case in self.told or (report.when != "call" and report.passed):
            return
        self.told.add(case)
        if report.passed:
            tell(case, "passed")
        elif report.skipped:
            tell(case, "skipped", getattr(report, "wasxfail", "") or str(report.longrepr[2]))
        else:
            tell(case, "failed", _reason(report))


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join(str(crash.message if crash else report.longrepr).split())


def main(arguments: list[str], *plugins: Any, folder: str = "") -> int:
    """0 when all cases were run, whatever came of them."""
    code = int(pytest.main(["-p", "no:cacheprovider", "-q", *arguments], plugins=[Recorder(folder), *plugins]))
    return 0 if code == pytest.ExitCode.TESTS_FAILED else code
