"""How an interpreter was built, as `make venv` and `tiergate doctor` tell it."""

import subprocess
import sys

import pytest

from gateway.doctor import interpreter


@pytest.mark.parametrize(
    ("arguments", "prefix", "expected"),
    [
        ("'--enable-optimizations' '--with-lto'", "/usr/local", True),
        ("'--enable-shared' '--with-computed-gotos'", "/usr", True),
        ("'--enable-shared'", "/home/me/.pyenv/versions/3.11.7", False),
        ("", "/opt/python", False),
    ],
)
def test_builds(arguments, prefix, expected):
    """What `configure` was told counts, and what a distribution has installed, which tells `configure` something else."""
    assert interpreter.profiled(arguments, prefix) is expected


def test_it_is_told_before_anything_is_installed():
    """Isolated from all packages, the command prints one line with the interpreter's name."""
    command = [sys.executable, "-S", "-m", "gateway.doctor.interpreter"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said == interpreter.told() + "\n"
    assert said.startswith(interpreter.name())
    assert ("without profile-guided" in said) is not interpreter.optimised()
