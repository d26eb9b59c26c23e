"""Several workers write their log lines to one descriptor: no line is ever cut by another one."""

import io
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.accounts import Accounts
from gateway.auth import Principal
from gateway.exchange import Exchange
from gateway.logs import _PIPE_BUF, JsonLog
from gateway.metrics import Metrics
from limits.waiting import Priority

ROOT = Path(__file__).parents[2]
WRITERS, LINES = 4, 4000
WRITER = f"""
import sys
from gateway.logs import JsonLog
number = int(sys.argv[1])
log = JsonLog(worker=number, interval=0.002)
for line in range({LINES}):
    log.write({{"n": line, "pad": "x" * (line * 37 % 900)}})
log._closing.set()
log._thread.join()
"""


def write_all(stdout, read):
    """The writers' processes, with `stdout` as theirs; `read` gives what came."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(n)], stdout=stdout, env=env) for n in range(WRITERS)]
    os.close(stdout)
    got = read()
    assert [writer.wait() for writer in writers] == [0] * WRITERS
    return got


def check(text):
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == WRITERS * LINES
    for number in range(WRITERS):
        assert [line["n"] for line in lines if line["worker"] == number] == list(range(LINES))


def slowly(read):
    """A reader that takes odd pieces and lets the pipe run full every now and then."""
    pieces = []
    while piece := read(len(pieces) * 131 % 9000 + 1):
        pieces.append(piece)
        if len(pieces) % 100 == 0:
            time.sleep(0.001)
    return b"".join(pieces)


def test_a_pipe_of_many_writers_has_whole_lines():
    """Four processes, thousands of lines of all lengths, a slow reader: every line parses, each writer's are in order."""
    reader, writer = os.pipe()
    check(write_all(writer, lambda: slowly(lambda size: os.read(reader, size))))
    os.close(reader)


def test_a_socket_of_many_writers_has_whole_lines():
    """systemd's journal gives a stream socket as standard output."""
    ours, theirs = socket.socketpair()
    with ours:
        check(write_all(theirs.detach(), lambda: slowly(ours.recv)))


@pytest.mark.parametrize("flags", [os.O_APPEND, 0], ids=["append", "shared position"])
def test_a_file_of_many_writers_has_whole_lines(tmp_path, flags):
    """A file opened to append, or one whose position the processes share, loses and mixes nothing."""
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
    write_all(descriptor, lambda: b"")
    check(path.read_bytes())


class Writes(io.BytesIO):
    """Notes each call."""

    def __init__(self, descriptor=None):
        super().__init__()
        self.calls, self.descriptor = [], descriptor

    def fileno(self):
        if self.descriptor is None:
            raise io.UnsupportedOperation
        return self.descriptor

    def write(self, data):
        self.calls.append(bytes(data))
        return len(data)


def test_one_process_writes_all_at_once():
    """Without other writers a batch is one write, and no line names a worker."""
    reader, writer = os.pipe()
    stream = Writes(writer)
    log = JsonLog(stream, interval=60)
    for number in range(1000):
        log.write({"n": number})
    log.close()
    assert len(stream.calls) == 1
    assert [json.loads(line) for line in stream.calls[0].splitlines()] == [{"n": number} for number in range(1000)]
    os.close(reader)
    os.close(writer)


def test_writes_are_whole_lines_of_at_most_pipe_buf():
    """Among several writers each write fits PIPE_BUF as well as lines allow; a line beyond it goes out alone."""
    reader, writer = os.pipe()
    stream = Writes(writer)
    log = JsonLog(stream, interval=60, worker=3)
    lengths = [10, _PIPE_BUF - 40, 10, 3 * _PIPE_BUF, 10, 10]
    for length in lengths:
        log.write({"pad": "x" * length})
    log.close()
    assert all(call.endswith(b"\n") for call in stream.calls)
    lines = [[json.loads(line) for line in call.splitlines()] for call in stream.calls]
    assert [len(line["pad"]) for call in lines for line in call] == lengths
    assert all(line["worker"] == 3 for call in lines for line in call)
    assert all(len(call) <= _PIPE_BUF or len(found) == 1 for call, found in zip(stream.calls, lines, strict=True))
    assert len(stream.calls[-1].splitlines()) == 2
    os.close(reader)
    os.close(writer)


@pytest.mark.skipif(_PIPE_BUF < 4096, reason="POSIX's own 512 bytes are less than a line")
def test_the_longest_line_fits():
    """Whatever a client writes into its request, the line is shorter than PIPE_BUF."""
    name, hostile = "n" * 200, "\x01" * 128
    stream = Writes()
    log = JsonLog(stream, interval=60, worker=10**6)
    x = Exchange("req-" + "f" * 40, 1.0)
    x.client, x.client_id, x.method, x.endpoint = "f" * 60, '"' * 128, "M" * 32, "transcriptions"
    x.requested_model, x.status, x.outcome, x.error = hostile, 400, "c" * 20, "e" * 40
    x.cache, x.cache_reason = "c" * 20, "r" * 64
    x.principal = Principal(name, name, "plan", Priority.BATCH, 1, (), {}, None)
    work = x.work
    work.model = work.tier = work.replica = name
    work.reason, work.score, work.attempts, work.settled = "r" * 20, 0.1234567890123, 99, True
    work.terms = tuple((f"feature-{number:012}", -0.12345678901234567) for number in range(9))
    work.prompt_tokens = work.completion_tokens = work.cached_tokens = work.charged = 2**53
    Accounts(Metrics(), log, lambda: 1e9 + 1 / 3).close(x)
    log.close()
    assert 2000 < len(b"".join(stream.calls)) <= _PIPE_BUF


def test_a_reader_that_is_gone_stops_nobody():
    """When the pipe has no reader any more, writing lines goes on without an error."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as stream:
        log = JsonLog(stream, interval=0.001, worker=1)
        log.write({"n": 1})
        log._thread.join(timeout=10)
        log.write({"n": 2})
        log.close()
    assert not log._thread.is_alive()
