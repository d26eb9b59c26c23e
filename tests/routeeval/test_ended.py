"""Whatever ends `tiergate route-eval`, nothing that it began goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from outcome_files import rows, written

from gateway.lab.routing import lessons

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")


def began(parent):
    """Processes that were begun by it and are there."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.add(int(stat.parent.name))
    return found


def there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition, seconds=40.0):
    """Wait for something that must come; the ceiling is generous on purpose."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_signal_leaves_no_training_behind(tmp_path):
    """Processes that train end with the one that began them, in the middle of what they do. It has no part in that, so one
    signal stands for all.
    """
    one, two = (written(tmp_path / name, rows(4000, seed)) for seed, name in enumerate(("one.jsonl", "two.jsonl")))
    lead = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli", "route-eval", str(one), str(two), "--jobs", "2", "--json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(lessons.__file__).parents[3]), "OMP_NUM_THREADS": "1"},
    )
    pids = set()
    try:
        until(lambda: len(began(lead.pid)) >= 3)  # two that train, and the one that tidies up after them
        pids = began(lead.pid)
        lead.send_signal(signal.SIGTERM)
        lead.wait(40)
        until(lambda: not any(map(there, pids)))
    finally:
        for pid in {lead.pid, *pids}:
            if there(pid):
                os.kill(pid, signal.SIGKILL)
        lead.wait()
