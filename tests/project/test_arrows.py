"""The drawing of who may import whom, held against the code.

cli → app → edge → pipeline → exchange, wire, errors        gateway: from the command to the bytes, one direction
routing   caches   limits   backends                        leaves: import neither each other nor gateway
gateway.lab                                                 ships beside the product, which does not need it
"""

from pathlib import Path

import pytest
from arrows import LEAVES, Arrow, arrows, cycles, modules, within

ROOT = Path(__file__).resolve().parents[2]

# A leaf can be read and tested alone: values in, values out. These would tie it to how it is served or configured.
FOREIGN_TO_LEAVES = ("fastapi", "starlette", "uvicorn", "yaml", "prometheus_client")

# The main line of a request, outermost first: a room never imports one that stands before it.
MAIN_LINE = ("cli", "app", "edge", "pipeline", "exchange", "wire", "errors")


@pytest.fixture(scope="module")
def all_arrows() -> list[Arrow]:
    return arrows(ROOT)


def leaf_breaches(found: list[Arrow]) -> list[str]:
    return [
        str(arrow)
        for arrow in found
        for leaf in LEAVES
        if within(arrow.source, leaf)
        and any(within(arrow.target, other) for other in ("gateway", *LEAVES, *FOREIGN_TO_LEAVES) if other != leaf)
    ]


def lab_breaches(found: list[Arrow]) -> list[str]:
    """The product proper may start the laboratory's commands from its command line, when asked; it never rests on it."""
    return [
        str(arrow)
        for arrow in found
        if within(arrow.target, "gateway.lab") and not within(arrow.source, "gateway.lab")
        if not (arrow.lazy and (arrow.source == "gateway.cli" or within(arrow.source, "gateway.commands")))
    ]


def upward(found: list[Arrow]) -> list[str]:
    place = {f"gateway.{name}": number for number, name in enumerate(MAIN_LINE)}

    def room(module: str) -> int | None:
        return next((number for name, number in place.items() if within(module, name)), None)

    pairs = ((arrow, room(arrow.source), room(arrow.target)) for arrow in found)
    return [str(arrow) for arrow, source, target in pairs if source is not None and target is not None and target < source]


def rings(found: list[Arrow], known: set[str]) -> list[list[str]]:
    graph: dict[str, set[str]] = {}
    for arrow in found:
        if arrow.target in known and not arrow.lazy and not arrow.typing_only:
            graph.setdefault(arrow.source, set()).add(arrow.target)
    return cycles(graph)


def test_leaves_stand_alone(all_arrows: list[Arrow]) -> None:
    """A leaf imports neither another leaf, nor the gateway, nor anything that serves or configures it."""
    assert leaf_breaches(all_arrows) == []


def test_the_product_does_not_rest_on_the_laboratory(all_arrows: list[Arrow]) -> None:
    """Only the command line reaches gateway.lab, and only from inside a function."""
    assert lab_breaches(all_arrows) == []


def test_the_main_line_runs_one_way(all_arrows: list[Arrow]) -> None:
    """From the command to the bytes, no room imports one that stands before it."""
    assert upward(all_arrows) == []


def test_no_module_is_part_of_a_ring(all_arrows: list[Arrow]) -> None:
    """Following imports that happen at import time never leads back to where it began."""
    assert rings(all_arrows, set(modules(ROOT))) == []


BAD = {
    "limits/bucket.py": "from routing.types import Model\n",
    "caches/key.py": "def f():\n    import gateway.errors\n",
    "backends/pool.py": "try:\n    from fastapi import FastAPI\nexcept ImportError:\n    pass\n",
    "gateway/app.py": "from gateway.lab import up\nfrom . import edge\n",
    "gateway/edge.py": "from gateway.app import make\n",
    "gateway/cli.py": "def main():\n    from gateway.lab.up import command\n",
    "gateway/pipeline.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from gateway.reply import Reply\n",
    "gateway/reply.py": "import gateway.pipeline\n",
    "gateway/lab/up/command.py": "from gateway.errors import ApiError\n",
}


@pytest.fixture
def bad_tree(tmp_path: Path) -> Path:
    for name, text in BAD.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "gateway/lab/__init__.py").touch()
    return tmp_path


def test_every_wrong_arrow_is_found(bad_tree: Path) -> None:
    """The walk sees imports in functions, in try blocks, relative ones and rings, and lets lazy commands and typing pass."""
    found = arrows(bad_tree)
    assert leaf_breaches(found) == [
        "caches.key:2 imports gateway.errors",
        "limits.bucket:1 imports routing.types",
        "backends.pool:2 imports fastapi",
    ]
    assert lab_breaches(found) == ["gateway.app:1 imports gateway.lab"]
    assert upward(found) == ["gateway.edge:1 imports gateway.app"]
    assert rings(found, set(modules(bad_tree))) == [["gateway.app", "gateway.edge", "gateway.app"]]
