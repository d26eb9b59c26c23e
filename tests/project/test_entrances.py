"""The ways in for a developer: `make` tells what there is, and the checks of a change run the same targets."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not there")
def test_make_alone_lists_every_target() -> None:
    """Each target that can be named is in the list, with a word on what it does."""
    told = subprocess.run(["make", "-s"], check=True, cwd=ROOT, capture_output=True, text=True).stdout
    phony = re.search(r"^\.PHONY:(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    listed = dict(re.findall(r"^  make ([\w-]+) +(\S.*)$", told, re.MULTILINE))
    assert set(listed) == set(phony[1].split())
    assert {"venv", "run", "test", "lint"} <= set(listed)


def test_the_check_of_a_change_runs_tests_and_lint() -> None:
    """`.ci/run` is executable and strict, and calls what a developer calls."""
    path = ROOT / ".ci" / "run"
    text = path.read_text()
    assert os.access(path, os.X_OK)
    assert "set -euo pipefail" in text
    assert {"make venv", "make test", "make lint"} <= set(re.findall(r"make \w+", text))
