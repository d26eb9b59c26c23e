"""`limits` and `caches` are plain names that others use too: what is imported, locked and built must be ours."""

import contextlib
import importlib.metadata
import importlib.util
import tomllib
from pathlib import Path

import pytest
from arrows import PACKAGES
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
RIVALS = {"limits", "caches", "routing", "gateway", "backends", "slowapi", "flask-limiter"}


def places(name: str) -> list[Path]:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    return [Path(place).resolve() for place in spec.submodule_search_locations or ()]


@pytest.mark.parametrize("name", PACKAGES)
def test_the_import_name_is_ours(name: str) -> None:
    """Importing it takes this repository's package, or the one that the distribution tiergate installed."""
    allowed = {ROOT / name}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # a checkout that is not installed
        allowed.add(Path(str(importlib.metadata.distribution("tiergate").locate_file(name))).resolve())
    assert set(places(name)) <= allowed


@pytest.mark.parametrize("name", PACKAGES)
def test_no_other_distribution_brings_the_name(name: str) -> None:
    """An installed package of that name would win over a checkout installed in place, without a word."""
    assert set(importlib.metadata.packages_distributions().get(name, [])) <= {"tiergate"}


def test_no_rival_is_asked_for() -> None:
    """Neither the project's dependencies nor anything that they pull in installs one of our import names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(item for extra in project["optional-dependencies"].values() for item in extra)]
    locked = [line.split("==")[0] for line in (ROOT / "requirements/lock.txt").read_text().splitlines() if "==" in line]
    assert not RIVALS & {*(Requirement(item).name for item in asked), *locked}
