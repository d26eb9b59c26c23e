"""A node of toy processes (node_toy.py) as a subprocess: pytest itself is never forked."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
CEILING = 20.0


class Node:
    """`events`: (name, pid, what), in their order. Files in `folder` change what the toys do."""

    def __init__(self, folder, options):
        self.folder = folder
        self.said = folder / "said"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("node_toy.py")), str(folder), json.dumps(options)],
                stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""},
            )  # fmt: skip

    @property
    def events(self):
        path = self.folder / "events"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(name, int(pid), what) for name, pid, what in (line.split("\t") for line in lines)]

    def pids(self, what, name=""):
        return [pid for who, pid, event in self.events if event == what and (not name or who == name)]

    def until(self, condition):
        """What `condition` gives, once it is true."""
        end = time.monotonic() + CEILING
        while not (value := condition()):
            assert time.monotonic() < end, (self.events, self.log)
            time.sleep(0.005)
        return value

    def come(self, what, name="", count=1):
        """The pids of those who told it, once there are as many."""
        return self.until(lambda: len(found := self.pids(what, name)) >= count and found)

    def listening(self):
        """The port, once all are ready."""
        found = self.until(lambda: [what for who, _, what in self.events if who == "supervisor"])
        assert len(found) == 1
        return int(found[0].split()[1])

    def send(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def ended(self):
        return self.process.wait(CEILING)

    @property
    def log(self):
        return self.said.read_text()

    def children(self):
        return psutil.Process(self.process.pid).children()

    def file(self, name, text=""):
        path = self.folder / name
        path.write_text(text)
        return path

    def ask(self, port):
        """The pid of the worker that took this connection."""
        with socket.create_connection(("127.0.0.1", port), timeout=CEILING) as sock, sock.makefile("rb") as file:
            return int(file.readline())

    def gone(self, pid):
        """Ended: one that only its parent has not waited for yet counts, as the parent may be none of ours."""
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    def close(self):
        self.process.kill()
        self.process.wait()
        for pid in {pid for _, pid, _ in self.events} - {self.process.pid}:
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) == self.process.pid:
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def node(tmp_path):
    """`node(workers=2, ...)` → a Node that has been started, with the files of `files` in its folder."""
    started = []

    def start(files=(), **options):
        for name, text in dict(files).items():
            (tmp_path / name).write_text(text)
        started.append(Node(tmp_path, options))
        return started[-1]

    yield start
    for one in started:
        one.close()
