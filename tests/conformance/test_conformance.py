"""The light part of `make conformance`, which needs no download, and how its page is made."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bench import environments, locks
from bench.conformance import page, runner, suites, verdict
from bench.conformance.records import BROKE_OFF, Case, Results, Run
from bench.conformance.suites import HERE, SUITES, NodeSuite
from bench.conformance.targets import DIRECT, MODEL, OURS, WORKERS, started

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("name", "model"), [(OURS, MODEL), (WORKERS, "auto")])
def test_the_openai_sdk(name, model, tmp_path):
    """All that a program does with this environment's SDK works: one process and a model by name, several and `auto`."""
    with started(name, ROOT) as target:
        command = [sys.executable, str(HERE / "openai_calls.py")]
        cases = runner.cases(command, replace(target, model=model), tmp_path / "log")
    assert len(cases) > 50, (tmp_path / "log").read_text()
    assert [case for case in cases if case.outcome != "passed"] == []


def test_a_suite_that_breaks_off_is_a_failure(tmp_path):
    """What was told before the end counts, and the end itself is a failed case; silence is one, too."""
    with started(DIRECT, ROOT) as target:
        for tail, expected in (("raise SystemExit(3)", "ended with status 3"), ("", "")):
            program = f"import sys; sys.path.insert(0, {str(HERE)!r}); from record import tell; tell('a', 'passed'); {tail}"
            told = runner.cases([sys.executable, "-c", program], target, tmp_path / "log")
            assert told[0] == Case("a", "passed")
            assert [case.why for case in told[1:]] == ([expected] if expected else [])
        assert [case.case for case in runner.cases([sys.executable, "-c", ""], target, tmp_path / "log")] == [BROKE_OFF]


def run(*failed):
    return Run.of([Case(case, "failed", "no") for case in failed], version="1", suite="1", date="2026-01-01", seconds=1)


def test_whose_a_failure_is():
    """The engine's if it fails directly, else ours; that a suite broke off is never excused."""
    suite = next(iter(SUITES))
    results = Results({suite: {DIRECT: run("a", BROKE_OFF), OURS: run("a", "b", BROKE_OFF), WORKERS: run("c")}})
    lines = verdict.unexplained(results, [suite], [OURS, WORKERS])
    assert [line.split(": ")[1] for line in lines] == ["b", BROKE_OFF, "c"]
    assert verdict.unexplained(results, [suite], [DIRECT]) == []
    told = page.page(results)
    assert "0 / **3**" in told
    assert "**not explained**" in told
    assert "### smg\n\nNot run." in told


def test_the_page_is_made_of_the_results():
    """docs/conformance.md is what its command makes of docs/conformance.json, and nothing in there is unexplained."""
    results = msgspec.json.decode((ROOT / "docs/conformance.json").read_bytes(), type=Results)
    assert (ROOT / "docs/conformance.md").read_text(encoding="utf-8") == page.page(results), "run: make conformance"
    assert verdict.unexplained(results, list(SUITES), [OURS, WORKERS]) == []


def test_every_suite_has_its_program_and_its_pins():
    """Each names a file that is there, and versions, not ranges; the lock files have them, and tell no registry."""
    for suite in SUITES.values():
        folder = HERE / "node" if isinstance(suite, NodeSuite) else HERE
        assert (folder / suite.program).is_file()
        assert all(version[0].isdigit() for version in suite.packages.values())
        if isinstance(suite, NodeSuite):
            assert '"resolved"' not in (suite.manifest / "package-lock.json").read_text(encoding="utf-8")


def test_what_the_lock_files_say():
    """One for each environment of Python and none besides; every package at one version, the pins among them; no address."""
    files = dict(locks.locked())
    assert set(files) == {*environments.LOCKS.iterdir(), *suites.LOCKS.iterdir()}
    for file, pins in files.items():
        lines = [line.partition(";")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
        assert all(re.fullmatch(r"[\w.-]+==[\w.+-]+", line) for line in lines), file
        assert set(environments.pins(pins)) <= set(lines), file


def test_pins_that_are_not_locked(tmp_path):
    """A pin that the lock file has not, or has at another version, is told before anything is made."""
    (tmp_path / "some.txt").write_text("openai==3.57.0\nhttpx==0.28.1 ; python_full_version < '4'\n", encoding="utf-8")
    for packages in ({"openai": "3.57"}, {"openai[aiohttp]": "3.57.0", "rich": "15.0.0"}):
        with pytest.raises(environments.NotInstalledError, match="make lock-suites"):
            environments.pip("some", packages, tmp_path, ".venv", tmp_path)
    assert not (tmp_path / ".venv").exists()
