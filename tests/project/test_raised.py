"""What is raised refers to the frames that it goes through. A frame that keeps it in a name is a cycle, as is all that it holds:
a request's body, its answer, its connection stay until the garbage collector comes, and it seldom does.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVES = ("gateway", "backends", "caches", "limits", "routing")
ONE_SHOT = ("gateway/doctor", "gateway/lab", "gateway/commands")  # processes that end by themselves

KEPT = """
def look():
    fault = make()
    raise fault
"""
LET_GO = """
def look():
    fault = make()
    try:
        raise fault
    finally:
        del fault
"""
PASSED_ON = """
def look(fault):
    try:
        work()
    except ValueError as error:
        raise error
    raise Refused
"""


def kept(tree: ast.AST) -> list[tuple[int, str]]:
    """(Line, name) of every `raise` of a name that its frame keeps: neither let go in a `finally`, nor that of an `except`."""
    found: list[tuple[int, str]] = []

    def walk(node: ast.AST, free: frozenset[str]) -> None:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name) and node.exc.id not in free:
            if not node.exc.id.lstrip("_")[:1].isupper():  # a class
                found.append((node.lineno, node.exc.id))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            free = frozenset()
        elif isinstance(node, ast.ExceptHandler) and node.name:
            free |= {node.name}
        elif isinstance(node, ast.Try):
            free |= {
                name.id
                for last in node.finalbody
                for name in ast.walk(last)
                if isinstance(name, ast.Name) and isinstance(name.ctx, (ast.Del, ast.Store))
            }
        for child in ast.iter_child_nodes(node):
            walk(child, free)

    walk(tree, frozenset())
    return found


def test_the_rule_tells_what_is_kept():
    """A name that is raised and kept is found; one that is let go, or that `except` lets go, is not."""
    assert kept(ast.parse(KEPT)) == [(4, "fault")]
    assert kept(ast.parse(LET_GO)) == []
    assert kept(ast.parse(PASSED_ON)) == []


def test_nobody_keeps_what_it_raises():
    """No frame of what serves refers to an exception that has gone through it."""
    files = [path for leaf in SERVES for path in sorted((ROOT / leaf).rglob("*.py"))]
    assert len(files) > 300
    breaches = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        if not str(path.relative_to(ROOT)).startswith(ONE_SHOT)
        for line, name in kept(ast.parse(path.read_text()))
    ]
    assert breaches == []
