"""What is built is what is promised: five packages, one command, a licence, and nothing of how it is tested."""

import email
import zipfile
from pathlib import Path

import pytest
from arrows import PACKAGES
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return zipfile.ZipFile(path)


def test_the_wheel_holds_the_five_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """At its top are the five import names and the metadata; no tests, benches or deployment files."""
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert not [name for name in wheel.namelist() if "test" in name.lower() or name.endswith(".pyc")]


def test_the_wheel_is_complete(wheel: zipfile.ZipFile) -> None:
    """Every module of the five packages in this checkout is in it."""
    modules = {str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert modules <= set(wheel.namelist())


def test_the_metadata_names_command_and_licence(wheel: zipfile.ZipFile) -> None:
    """The command is there, the licence's text comes along, and the Python it needs is said."""
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "tiergate = gateway.cli:main" in wheel.read(entry_points).decode()
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
    (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    fields = email.message_from_bytes(wheel.read(metadata))
    assert (fields["Name"], fields["License-Expression"], fields["Requires-Python"]) == ("tiergate", "Apache-2.0", ">=3.11")
