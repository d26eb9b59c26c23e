"""docs/conformance.md from the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from bench.conformance.records import Case, Results, Run
from bench.conformance.served import section
from bench.conformance.suites import SUITES
from bench.conformance.targets import DIRECT, GATEWAYS, OURS, WORKERS
from bench.conformance.verdict import fails_directly, verdict

DOCS = Path(__file__).resolve().parents[2] / "docs"
_SHOWN = 3
_WIDTH = 160
_INTRO = """# Other people's clients, through tiergate

Made by `make conformance`, with the peers by `ARGS="--targets all"`; what is not run again keeps its result. Each suite has an
environment of its own below `.venv-conformance/`, in which a [lock file](../bench/conformance/locks) names every package at one
version (for Node its own kind of lock file), and calls

- `fake-vllm`: the look-alike of vLLM by itself ([how faithful it is](fake-vllm.md)), without a gateway: what fails here is the
  engine's, not a gateway's;
- `tiergate`: two tiers before two of them, with keys, limits, aliases and the exact cache on; `tiergate-workers`: the same with
  `--workers 2`;
- its peers before the same two: the Rust routers by turns (`round_robin`), LiteLLM's proxy with a master key, without its
  database, and without cooldowns, so that one case's errors are not the next one's.

No model speaks here: the engines say what the prompt or [a script](../bench/conformance/script.yaml) tells them, fill tools and
JSON schemas, and fail when told to. So this is about the protocol, not about answers.
"""


def page(results: Results) -> str:
    parts = (_matrix, _ours, _served, _failures, _skipped, _versions)
    return "\n".join([_INTRO, *(line for part in parts for line in part(results))])


def _matrix(results: Results) -> Iterator[str]:
    """Passed / failed of each suite, and what became of the failures of tiergate."""
    targets = list(GATEWAYS)
    yield "Passed / failed, and skipped cases in brackets.\n"
    yield "| suite | " + " | ".join(targets) + " | cases by |"
    yield "|---|" + "---|" * (len(targets) + 1)
    for name, suite in SUITES.items():
        runs = results.runs.get(name, {})
        cells = [_counts(runs.get(target)) if target in suite.targets else "" for target in targets]
        yield f"| {name} | " + " | ".join(cells) + f" | {suite.whose} |"
    yield ""


def _counts(run: Run | None) -> str:
    if run is None:
        return "not run"
    failed = f"**{len(run.failed)}**" if run.failed else "0"
    skipped = f" ({len(run.skipped)})" if run.skipped else ""
    return f"{run.passed} / {failed}{skipped}"


def _ours(results: Results) -> Iterator[str]:
    yield "## What tiergate fails, and why\n"
    both = [*_cases(results, OURS, lambda run: run.failed), *_cases(results, WORKERS, lambda run: run.failed)]
    found = list({(name, case.case): (name, case) for name, case in both}.values())
    yield from _table(found, lambda name, case: verdict(results, name, case) or f"**not explained**: {case.why}")


def _served(_: Results) -> Iterator[str]:
    yield from section(DOCS)


def _failures(results: Results) -> Iterator[str]:
    """What others fail and the engine alone does not."""
    yield "## What the peers fail, and the engine alone does not\n"
    for target in GATEWAYS:
        found = _cases(results, target, lambda run: run.failed)
        own = [(name, case) for name, case in found if not fails_directly(results, name, case)]
        if target not in (DIRECT, OURS, WORKERS):
            yield f"### {target}\n"
            yield from _table(own, lambda _, case: case.why) if _ran(results, target) else ("Not run.\n",)
    yield "## What fails without any gateway\n"
    alone = _cases(results, DIRECT, lambda run: run.failed)
    yield from _table(alone, lambda _, case: case.why) if _ran(results, DIRECT) else ("Not run.\n",)


def _ran(results: Results, target: str) -> bool:
    return any(target in runs for runs in results.runs.values())


def _skipped(results: Results) -> Iterator[str]:
    yield "## Skipped through tiergate\n"
    yield from _table(_cases(results, OURS, lambda run: run.skipped), lambda _, case: case.why)


def _cases(results: Results, target: str, which: Callable[[Run], list[Case]]) -> list[tuple[str, Case]]:
    runs = ((name, results.runs.get(name, {}).get(target)) for name in SUITES)
    return [(name, case) for name, run in runs if run for case in which(run)]


def _table(found: list[tuple[str, Case]], why: Callable[[str, Case], str]) -> Iterator[str]:
    """Cases that go wrong in the same way are one row, and so are the variants of one case."""
    if not found:
        yield "Nothing.\n"
        return
    rows: dict[str, tuple[dict[str, None], list[str]]] = {}
    for name, case in found:
        suites, cases = rows.setdefault(_cell(why(name, case)), ({}, []))
        suites[name] = None
        cases.append(case.case.partition("[")[0])
    yield "| suites | cases | why |\n|---|---|---|"
    for told, (suites, cases) in rows.items():
        first = list(dict.fromkeys(cases))[:_SHOWN]
        more = f", … {len(cases)} in all" if len(cases) > len(first) else ""
        yield f"| {', '.join(suites)} | {', '.join(f'`{case}`' for case in first)}{more} | {told} |"
    yield ""


def _versions(results: Results) -> Iterator[str]:
    yield "## Versions\n\n| suite | what it is | packages | run |\n|---|---|---|---|"
    for name, suite in SUITES.items():
        runs = results.runs.get(name, {})
        dates = " to ".join(sorted({run.date for run in runs.values()})[:: max(1, len({run.date for run in runs.values()}) - 1)])
        pins = ", ".join(f"{package} {version}" for package, version in suite.packages.items())
        yield f"| {name} | {suite.about} | {pins} | {dates or 'not run'} |"
    yield "\n| target | version |\n|---|---|"
    for target in GATEWAYS:
        found = sorted({run.version for runs in results.runs.values() if (run := runs.get(target))})
        yield f"| {target} | {', '.join(found) or 'not run'} |"
    yield ""


def _cell(text: str) -> str:
    """A cell of a table: one line, no bars, not too long."""
    flat = " ".join(text.split()).replace("|", "\\|").replace("`", "'").replace("<", "&lt;")
    return flat if len(flat) <= _WIDTH else flat[: _WIDTH - 1] + "…"
