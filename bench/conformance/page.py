"""docs/conformance.md from the results."""

from __future__ import annotations

from collections.abc import Iterator

from bench.conformance.records import Results, Run
from bench.conformance.suites import SUITES
from bench.conformance.targets import DIRECT, GATEWAYS, OURS
from bench.conformance.verdict import verdict

_INTRO = """# Other people's clients, through tiergate

Made by `make conformance`; what is not run again keeps its result. Each suite has an environment of its own below
`.venv-conformance/`, with its own packages at pinned versions, and calls

- `fake-vllm`: the look-alike of vLLM by itself ([how faithful it is](fake-vllm.md)), without a gateway: what fails here is the
  engine's, not a gateway's;
- `tiergate`: two tiers before two of them, with keys, limits, aliases and the exact cache on;
- its peers before the same two, each as its own documentation starts it; the Rust routers by turns (`round_robin`), LiteLLM's
  proxy with a master key.

No model speaks here: the engines say what the prompt or [a script](../bench/conformance/script.yaml) tells them, fill tools and
JSON schemas, and fail when told to. So this is about the protocol, not about answers.
"""


def page(results: Results) -> str:
    return "\n".join(
        [_INTRO, *_matrix(results), "", *_ours(results), *_failures(results), *_skipped(results), *_versions(results)]
    )


def _matrix(results: Results) -> Iterator[str]:
    """Passed / failed of each suite, and what became of the failures of tiergate."""
    targets = list(GATEWAYS)
    yield "Passed / failed, and skipped cases in brackets.\n"
    yield "| suite | " + " | ".join(targets) + " | cases by |"
    yield "|---|" + "---|" * (len(targets) + 1)
    for name, suite in SUITES.items():
        runs = results.runs.get(name, {})
        cells = [_counts(runs.get(target)) for target in targets]
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
    rows = [
        (name, case, verdict(results, name, case) or "**not explained**")
        for name in SUITES
        if (run := results.runs.get(name, {}).get(OURS))
        for case in run.failed
    ]
    if not rows:
        yield "Nothing.\n"
        return
    yield "| suite | case | why |\n|---|---|---|"
    for name, case, why in rows:
        yield f"| {name} | `{_cell(case.case)}` | {why} |"
    yield ""


def _failures(results: Results) -> Iterator[str]:
    """What others fail and the engine alone does not."""
    yield "## What the peers fail, and the engine alone does not\n"
    for target in GATEWAYS:
        rows = [
            f"| {name} | `{_cell(case.case)}` | {_cell(case.why)} |"
            for name in SUITES
            if target not in (DIRECT, OURS) and (run := results.runs.get(name, {}).get(target))
            for case in run.failed
            if not _direct_fails(results, name, case.case)
        ]
        if rows:
            yield f"### {target}\n\n| suite | case | what the suite says |\n|---|---|---|"
            yield from rows
            yield ""
    yield "## What fails without any gateway\n"
    rows = [
        f"| {name} | `{_cell(case.case)}` | {_cell(case.why)} |"
        for name in SUITES
        if (run := results.runs.get(name, {}).get(DIRECT))
        for case in run.failed
    ]
    yield "\n".join(["| suite | case | what the suite says |\n|---|---|---|", *rows, ""]) if rows else "Nothing.\n"


def _direct_fails(results: Results, suite: str, case: str) -> bool:
    direct = results.runs[suite].get(DIRECT)
    return bool(direct) and any(failed.case == case for failed in direct.failed)


def _skipped(results: Results) -> Iterator[str]:
    rows = [
        f"| {name} | `{_cell(case.case)}` | {_cell(case.why)} |"
        for name in SUITES
        if (run := results.runs.get(name, {}).get(OURS))
        for case in run.skipped
    ]
    if rows:
        yield "## Skipped through tiergate\n\n| suite | case | why |\n|---|---|---|"
        yield from rows
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
    flat = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return flat if len(flat) <= 180 else flat[:177] + "..."
