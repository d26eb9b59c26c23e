"""The OpenAI SDK, major versions 1 and 3, against the gateway before real vLLM: sdk_script.py has what they do."""

import functools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from e2e_fleet import KEYS
from e2e_programs import HOME

SCRIPT = Path(__file__).with_name("sdk_script.py")
CASES = re.findall(r"\w+", SCRIPT.read_text(encoding="utf-8").partition("CASES = (")[2].partition(")")[0])


@pytest.fixture(scope="session")
def results(fleet):
    @functools.cache
    def run(major):
        command = [str(HOME / f"openai{major}/bin/python"), str(SCRIPT), f"{fleet.gateway.root}/v1", KEYS["acme"]]
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False, env=env)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["version"].startswith(f"{major}.")
        return told["results"]

    return run


@pytest.mark.parametrize("major", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_sdk(results, major, case):
    """Each thing that a user of the SDK does works, in both versions of it."""
    assert results(major)[case] == "ok"


def test_nothing_is_left(fleet):
    """Also what timed out or was closed half-way has ended, in the engines and in the gateway."""
    fleet.settle()
