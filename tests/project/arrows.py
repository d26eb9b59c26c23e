"""Who imports whom, read off the syntax trees: no module is imported to find out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("gateway", "routing", "caches", "limits", "backends")
LEAVES = ("routing", "caches", "limits", "backends")


@dataclass(frozen=True)
class Arrow:
    source: str  # the importing module
    target: str  # what the statement names, as deep as it names it
    line: int
    lazy: bool  # inside a function, so it happens when called
    typing_only: bool  # under `if TYPE_CHECKING:`, so it never happens

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


def modules(root: Path) -> Mapping[str, Path]:
    """Every module of the five packages below root, by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def arrows(root: Path) -> list[Arrow]:
    known = modules(root)
    return [arrow for name, path in known.items() for arrow in _arrows_of(name, path, known)]


def _arrows_of(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[Arrow]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node, lazy, typing_only in _imports(ast.parse(path.read_text(encoding="utf-8")), lazy=False, typing_only=False):
        for target in _targets(node, package, known):
            yield Arrow(name, target, node.lineno, lazy, typing_only)


def _imports(tree: ast.AST, *, lazy: bool, typing_only: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, lazy, typing_only
        else:
            inner = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            yield from _imports(node, lazy=inner, typing_only=typing_only or checking)


def _targets(node: ast.Import | ast.ImportFrom, package: str, known: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, base] if base else above)
    for alias in node.names:  # `from a import b` is an arrow to a.b where that is a module, else to a
        yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Each ring of modules once, starting at any of its members."""
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(node: str, trail: list[str]) -> None:
        if node in trail:
            found.append([*trail[trail.index(node) :], node])
        elif node not in done:
            for target in sorted(graph.get(node, ())):
                visit(target, [*trail, node])
            done.add(node)

    for node in sorted(graph):
        visit(node, [])
    return found
