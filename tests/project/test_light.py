"""Importing does nothing and brings little: what is heavy or optional is loaded by the one who uses it."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from arrows import modules

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "dns",
    "torch",
    "transformers",
    "numpy",
    "httpx",
    "litellm",
    "fastapi",
    "starlette",
    "pydantic",
    "uvicorn",
    "xllamacpp",
    "openai",
}


def run(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], check=False, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "module", ["gateway", "gateway.cli", "gateway.app", "gateway.pipeline", "gateway.lab.up.command", "gateway.lab.load.command"]
)
def test_importing_loads_nothing_heavy(module: str) -> None:
    """Neither a framework, nor an HTTP client for tests, nor a model runtime comes with it."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} does not exist")
    loaded = json.loads(run(f"import json, sys, {module}; print(json.dumps([name.split('.')[0] for name in sys.modules]))"))
    assert HEAVY & set(loaded) == set()


def test_importing_every_module_does_nothing() -> None:
    """All modules import one after the other without a word, a thread, or an event loop."""
    names = [name for name in modules(ROOT) if not name.endswith("__main__")]
    code = f"""
import asyncio, importlib, threading
for name in {names!r}:
    importlib.import_module(name)
assert threading.active_count() == 1, threading.enumerate()
assert asyncio._get_running_loop() is None
"""
    assert run(code) == ""
