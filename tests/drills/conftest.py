"""Nodes of real processes in front of fake vLLM servers in the test's own loop, and what a run measured."""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))

from drill_node import Node

from gateway.lab.fake import FakeVLLM, Options

FIGURES: dict[str, str] = {}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The run's figures: measured, never asserted."""
    if FIGURES:
        terminalreporter.write_sep("=", "figures")
        for name, value in FIGURES.items():
            terminalreporter.write_line(f"{name:64} {value}")


@pytest.fixture
def figures() -> dict[str, str]:
    """What is to be told at the end of the run, by name."""
    return FIGURES


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Any]:
    """`await node(config changes, fakes={name: Options})` → a running Node of two workers whose replicas are all up."""
    async with AsyncExitStack() as scope:

        async def make(
            changes: dict[str, Any] | None = None, *, fakes: dict[str, Options] | None = None, workers: int = 2
        ) -> Node:
            running = {
                name: await scope.enter_async_context(FakeVLLM(options))
                for name, options in (fakes or {"s1": Options(), "l1": Options()}).items()
            }
            one = Node(tmp_path, running, changes or {}, workers)
            scope.push_async_callback(one.close)
            await one.start()
            return one

        yield make
