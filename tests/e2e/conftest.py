"""vLLM on the CPU, the gateway before it, and what the run measured.

Collected only when `-m` speaks of e2e: these tests need .venv-e2e, which `make e2e` makes, and minutes.
"""

import contextlib
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from e2e_fleet import Fleet, config_of
from e2e_programs import HOME, Engine, Program, until

from gateway.lab.up import ports
from gateway.lab.up.processes import python

FIGURES: dict[str, Any] = {}
BEGUN = time.monotonic()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if "e2e" in (config.option.markexpr or "") else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The run's figures as a table, and kept in .venv-e2e/e2e.json and e2e.md."""
    if not FIGURES:
        return
    FIGURES["load of the machine (1 min): at the end"] = round(os.getloadavg()[0], 1)
    FIGURES["the whole run, s"] = round(time.monotonic() - BEGUN)
    counts = {kind: len(terminalreporter.stats.get(kind, ())) for kind in ("passed", "failed", "error", "skipped")}
    FIGURES["tests"] = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    (HOME / "e2e.json").write_text(json.dumps(FIGURES, indent=1) + "\n", encoding="utf-8")
    lines = ["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in FIGURES.items())]
    (HOME / "e2e.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    terminalreporter.write_sep("=", "figures, also in .venv-e2e/e2e.md")
    for name, value in FIGURES.items():
        terminalreporter.write_line(f"{name:48} {value}")


@pytest.fixture(scope="session")
def logs() -> Path:
    folder = HOME / "logs"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.log"):
        old.unlink()
    return folder


@pytest.fixture(scope="session")
def fleet(logs: Path) -> Iterator[Fleet]:
    """Everything up, and ended at the end whatever happens."""
    first, second, own, *kv = ports.free(7, random.Random())
    small = Engine("small", ["e2e-small", "e2e-both"], 1024, first, logs, kv=(kv[0], kv[1]))
    large = Engine("large", ["e2e-large", "e2e-both"], 2048, second, logs, kv=(kv[2], kv[3]))
    config = logs / "config.yaml"
    config.write_text(yaml.safe_dump(config_of(small, large, own)), encoding="utf-8")
    gateway = Program("gateway", python("gateway.cli", "serve", "--config", str(config)), own, "/ready", logs)
    with contextlib.ExitStack() as scope:
        started, load = time.monotonic(), os.getloadavg()[0]
        for engine in (small, large):
            scope.callback(engine.kill)
            engine.start()
        for engine in (small, large):
            engine.await_ready()
        FIGURES["vLLM"] = httpx.get(small.root + "/version", timeout=30, trust_env=False).json()["version"]
        FIGURES["load of the machine (1 min): at the start"] = round(load, 1)
        FIGURES["both vLLM servers up, s"] = round(time.monotonic() - started, 1)
        scope.callback(gateway.kill)
        gateway.start()
        gateway.await_ready()
        client = scope.enter_context(httpx.Client(base_url=gateway.root, timeout=600, trust_env=False))
        fleet = Fleet(small, large, gateway, client)
        until(lambda: fleet.gauge("tiergate_replica_up") == fleet.replicas, "all replicas up", 60)
        yield fleet


@pytest.fixture
def figures() -> dict[str, Any]:
    """What the run measures; shown at its end."""
    return FIGURES
