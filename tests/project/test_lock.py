"""The lists that an environment is made from: exact, with hashes, and silent about where packages are fetched."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LISTS = ("lock.txt", "models.txt")


def requirements(name: str) -> list[str]:
    """One string a requirement, with its hashes; comments left out."""
    text = (ROOT / "requirements" / name).read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [item for item in lines.replace("\\\n", " ").splitlines() if item.strip()]


@pytest.mark.parametrize("name", LISTS)
def test_every_requirement_is_exact_and_has_a_hash(name: str) -> None:
    """One version, and at least one hash, so that what is installed is what was locked."""
    assert requirements(name)
    for item in requirements(name):
        assert re.fullmatch(r"[a-z0-9-]+==[\w.+!]+( ; [^@]+?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", item), item[:80]


@pytest.mark.parametrize("name", LISTS)
def test_no_list_says_where_packages_come_from(name: str) -> None:
    """No address, index, option or folder: that is the machine's business."""
    text = (ROOT / "requirements" / name).read_text()
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host|file:|@ ", text)


def test_the_lock_satisfies_the_project() -> None:
    """Each dependency in pyproject.toml is locked at a version that it admits; if not, `make lock` was forgotten."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [Requirement(item) for item in project["dependencies"]]
    asked += [Requirement(item) for extra in ("dev", "local") for item in project["optional-dependencies"][extra]]
    pairs = (item.split()[0].split("==") for item in requirements("lock.txt"))
    locked = {canonicalize_name(name): version for name, version in pairs}
    unmet = [str(need) for need in asked if not need.specifier.contains(locked.get(canonicalize_name(need.name), "0"))]
    assert unmet == []
