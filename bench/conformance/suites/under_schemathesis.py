"""For suites that schemathesis runs: it tells what each check found in each operation, as record.py does."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from record import tell

sys.path.insert(0, str(Path(__file__).parents[3] / "tests/fuzz"))

import fuzz

_SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
# what a case is about, by schemathesis's own numbers of what it may find
_CHECKS = {
    "no 5xx": ("ST101",),
    "documented status": ("ST103",),
    "content type": ("ST104", "ST105", "ST106", "ST109", "ST110"),
    "shape": ("ST107", "ST108", "ST111"),
}
_KNOWN = {number for numbers in _CHECKS.values() for number in numbers}
_FIRST = re.compile(r"- ST\d+ (.*?)(?=Reproduce with:|$)", re.DOTALL)


def tried(name: str, document: str, url: str, key: str, examples: int, *options: str) -> None:
    """The operations of the OpenAPI document, in a file, at `url`; `name` stands before the cases'."""
    report = Path("report.xml").absolute()
    report.unlink(missing_ok=True)
    told = ("--report", "junit", "--report-junit-path", str(report))
    fuzz.fuzz(_SCHEMATHESIS, document, url, key, examples, str(Path.cwd()), *told, *options)
    for case in ET.parse(report).iter("testcase"):
        operation = f"{name}{case.get('name')}"
        parts = [part for part in case if part.tag in ("failure", "error", "skipped")]
        if skipped := [part for part in parts if part.tag == "skipped"]:
            tell(operation, "skipped", _told(skipped[0]))
            continue
        for check, numbers in _CHECKS.items():
            wrong = [part for part in parts if set(numbers) & set((part.get("message") or "").split())]
            tell(f"{operation}: {check}", "failed" if wrong else "passed", _told(wrong[0]) if wrong else "")
        for part in parts:  # it could not be tried, or found something that no check above is about
            if not _KNOWN & set((part.get("message") or "").split()):
                tell(operation, "failed", _told(part))


def _told(part: ET.Element) -> str:
    text = part.text or part.get("message") or ""
    found = _FIRST.search(text)
    return " ".join((found[1] if found else text).split())
