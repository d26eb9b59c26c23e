"""Schemathesis: no 5xx and no answer of another shape, status or content type than our own OpenAPI documents say.

The documents and the checks are those of `make fuzz`, which draws more examples. A case is an operation.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from record import KEY, URL, tell

sys.path.insert(0, str(Path(__file__).parents[3] / "tests/fuzz"))

from fuzz import MODEL_API, described, fuzz

ADMIN_KEY = os.environ["CONFORMANCE_ADMIN_KEY"]
EXAMPLES = 10
SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))


def tried(name: str, document: str, key: str) -> None:
    report = Path(f"{name}.xml").absolute()
    options = ("--report", "junit", "--report-junit-path", str(report))
    fuzz(SCHEMATHESIS, document, ROOT, key, EXAMPLES, str(Path.cwd()), *options)
    for case in ET.parse(report).iter("testcase"):
        wrong = [part for part in case if part.tag in ("failure", "error")]
        skipped = [part for part in case if part.tag == "skipped"]
        why = " ".join((part.get("message") or part.text or "") for part in (*wrong, *skipped))
        outcome = "failed" if wrong else "skipped" if skipped else "passed"
        tell(f"{name}: {case.get('name')}", outcome, " ".join(why.split()))


if __name__ == "__main__":
    ROOT = URL.removesuffix("/v1")
    tried("admin API", described(ROOT, ADMIN_KEY, "."), ADMIN_KEY)
    tried("model API", MODEL_API, KEY)
