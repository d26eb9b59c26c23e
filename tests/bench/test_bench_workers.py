"""`make bench-workers` end to end with tiny numbers, and what it counts."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from bench import workers
from bench.tree import spent

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_one_process_beside_two_workers(capsys: pytest.CaptureFixture[str]) -> None:
    """Each has its turns, the node's processes are all counted, the dispatcher by itself, and nothing is left behind."""
    before = {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}
    loads = ["closed 32", "mixed"]
    assert workers.main(["--force", "--rounds", "1", "--seconds", "0.2", "--loads", ",".join(loads), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == [workers.ONE, "2 workers"]
    for entrant in told.values():
        assert list(entrant["loads"]) == loads
    (one,), (two,) = (told[name]["loads"]["closed 32"] for name in told)
    assert one["dispatcher_us"] == 0
    assert 0 < two["dispatcher_us"] < two["request_us"]
    assert all(share < 1 for share in told["2 workers"]["fullest_share_of_connections"])
    assert {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)} <= before


def test_a_load_that_nobody_knows() -> None:
    """It is a user's mistake, told by name."""
    with pytest.raises(SystemExit) as error:
        workers.arguments(["--loads", "nothing"])
    assert error.value.code == 2


def test_cpu_of_a_tree() -> None:
    """What a child used is counted while it runs and when it has ended, once."""
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}]); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            root = psutil.Process(process.pid)
            deadline = time.monotonic() + 30
            while not (children := root.children()) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert set(spent([root, *children]).running) == {process.pid, *(child.pid for child in children)}
            assert process.stdout is not None
            process.stdout.readline()
            assert spent([root]).ended >= 0.25
        finally:
            process.kill()
