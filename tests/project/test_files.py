"""The files of the repository: nothing of the machine they were made on, and tests that say what they are for."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Written so that this file does not match itself.
PRIVATE = re.compile(
    r"https?://[^\s\"'`)>]*pyp[i]"  # package registries by address; their names are free to use
    r"|pythonhoste[d]"
    r"|registry\.npm[j]s"
    r"|--(?:extra-)?index-ur[l][= ]+\S*://"
    r"|(?<![\w./-])/roo[t]/"  # folders of one person's machine
    r"|(?<![\w./-])/wor[k]/"
    r"|(?<![\w./-])/tm[p]/\w/"
)


def repository_files() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def private_lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return []  # a picture or the like
    return [f"{path.name}:{number}: {line[:100]}" for number, line in enumerate(text.splitlines(), 1) if PRIVATE.search(line)]


def modules_of_tests() -> list[Path]:
    return sorted((ROOT / "tests").rglob("test_*.py"))


def test_no_file_tells_of_a_registry_or_a_machine() -> None:
    """No package registry's address and no path of the machine that a file was written on."""
    assert [line for path in repository_files() for line in private_lines(path)] == []


@pytest.mark.parametrize(
    ("line", "private"),
    [
        ("see https://" + "pyp" + "i.org/simple", True),
        ("cd /wor" + "k/main && make", True),
        ('File "/roo' + 't/x.py"', True),
        ("pip install tiergate", False),
        ("http://gateway/work/items", False),
        ("mkdir /tmp/tiergate-up-1", False),
        ("/home/me/notes", False),
    ],
)
def test_private_lines_are_told_from_others(line: str, private: bool, tmp_path: Path) -> None:
    """The pattern finds addresses and paths, and leaves names, URLs' paths and relative paths in peace."""
    (tmp_path / "file").write_text(line)
    assert bool(private_lines(tmp_path / "file")) is private


def test_every_test_says_what_it_shows() -> None:
    """Each test function has a docstring: the behaviour, in a sentence."""
    silent = [
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in modules_of_tests()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert silent == []


def test_files_of_the_tests_do_not_shadow_each_other() -> None:
    """pytest imports a test file by its bare name, so every name is there once, and none is a name of the product's."""
    names = Counter(path.stem for path in (ROOT / "tests").rglob("*.py") if path.stem != "conftest")
    assert [name for name, count in names.items() if count > 1] == []
    assert not list((ROOT / "tests").rglob("__init__.py")), "a package below tests/ would hide the product's of that name"
