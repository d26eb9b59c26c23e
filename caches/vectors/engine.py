"""The process that the embedded engine lives in: `python -m caches.vectors.engine DESCRIPTOR SETUP`.

Why a process: a call of the engine holds the interpreter's lock until it returns, and laying 10,000 points out takes a second.
Here it stops nobody but those who search. And whatever becomes of it (a fault, the kernel's out-of-memory killer), the gateway
lives on.

- It answers one ask after the other, over the socket that it was born with, and ends when the other end of that closes: an owner
  that died, however it died, leaves no engine behind.
- It alone holds the directory, by a lock that the system takes back from a dead process.
- A directory that cannot be opened is moved aside and begun anew: a cache is no reason not to start. If a new one cannot be made
  either (a full disk, a missing right), the old one is put back where it was.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from caches.vectors import asks
from caches.vectors.asks import Hello
from caches.vectors.options import IndexOptions
from caches.vectors.shard import Shard


class Setup(msgspec.Struct, frozen=True):
    path: str  # the directory of all collections
    name: str
    dimension: int
    options: IndexOptions
    max_points: int
    lock_seconds: float = 5.0  # to wait for it: an engine whose owner was killed still ends what it is doing
    aside: bool = False  # begin anew: the process before died of what is there
    as_it_is: bool = False  # never begin anew: for one who only looks

    @property
    def home(self) -> Path:
        return Path(self.path) / self.name


class CannotBegin(Exception):  # noqa: N818 - it names what was met
    """There is no way to have a directory of points at this place."""


class InUse(Exception):  # noqa: N818 - it names what was met
    """Another process has the directory."""


def main(argv: list[str]) -> int:
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_IGN)  # meant for the gateway, which closes the socket when it has done
    setup = msgspec.json.decode(argv[2], type=Setup)
    with contextlib.suppress(BrokenPipeError), socket.socket(fileno=int(argv[1])) as channel, channel.makefile("rwb") as stream:
        try:
            with _held(setup):
                run(setup, stream)
        except (InUse, CannotBegin) as error:
            _send(stream, Hello(refused=str(error)))
            return 1
    return 0


def run(setup: Setup, stream: io.BufferedRWPair) -> None:
    shard, hello = opened(setup)
    try:
        _send(stream, hello)
        serve(stream, shard)
    finally:
        shard.close()


def opened(setup: Setup) -> tuple[Shard, Hello]:
    """Raises CannotBegin."""
    if setup.as_it_is:
        return _only_opened(setup)
    if setup.aside and setup.home.exists():
        return _anew(setup, "the process that opened it died")
    try:
        shard = _shard(setup)
    except BaseException as error:  # noqa: BLE001 - the engine raises bare exceptions; a panic of it is not even an Exception
        return _anew(setup, f"{type(error).__name__}: {error}"[:500])
    return shard, Hello(points=shard.stats().points)


def _only_opened(setup: Setup) -> tuple[Shard, Hello]:
    try:
        shard = _shard(setup)
    except BaseException as error:
        raise CannotBegin(f"{type(error).__name__}: {error}"[:500]) from error
    return shard, Hello(points=shard.stats().points)


def serve(stream: io.BufferedRWPair, shard: Shard) -> None:
    calls = msgspec.msgpack.Decoder(asks.Call)
    while len(head := stream.read(asks.LENGTH.size)) == asks.LENGTH.size:
        call = calls.decode(stream.read(asks.LENGTH.unpack(head)[0]))
        try:
            answer, error = answered(shard, call.ask), None
        except Exception as failure:  # noqa: BLE001 - whatever the engine raises is the asker's to hear; a panic ends the process
            answer, error = None, f"{type(failure).__name__}: {failure}"[:500]
        _send(stream, asks.Reply(call.number, msgspec.Raw(msgspec.msgpack.encode(answer)), error))


def answered(shard: Shard, ask: asks.Ask) -> asks.Answer:
    match ask:
        case asks.Search(where, vector, limit):
            return shard.search(where, vector, limit)
        case asks.Fetch(numbers):
            return shard.fetch(numbers)
        case asks.Put(rows):
            shard.put(rows)
            return None
        case asks.Delete(numbers):
            shard.delete(numbers)
            return None
        case asks.Page(where, fields, limit, start, delete):
            return shard.page(where, fields, limit, start, delete=delete)
        case asks.Stats():
            return shard.stats()
        case asks.Tidy():
            return shard.tidy()


def _send(stream: io.BufferedRWPair, message: msgspec.Struct) -> None:
    stream.write(asks.framed(message))
    stream.flush()


def _shard(setup: Setup) -> Shard:
    return Shard(setup.home, setup.dimension, setup.options, setup.max_points)


def _anew(setup: Setup, trouble: str) -> tuple[Shard, Hello]:
    aside = setup.home.with_name(f"{setup.name}.broken-{int(time.time())}")
    for older in setup.home.parent.glob(f"{setup.name}.broken-*"):  # one is kept to be looked at; many would fill the disk
        shutil.rmtree(older, ignore_errors=True)
    moved = setup.home.exists()
    if moved:
        setup.home.rename(aside)
    try:
        shard = _shard(setup)
    except BaseException as error:
        shutil.rmtree(setup.home, ignore_errors=True)
        if moved:
            aside.rename(setup.home)
        raise CannotBegin(f"{trouble}; and a new one cannot be made: {error}") from error
    return shard, Hello(aside=str(aside) if moved else None, trouble=trouble)


@contextlib.contextmanager
def _held(setup: Setup) -> Iterator[None]:
    """Raises InUse and CannotBegin."""
    try:
        setup.home.parent.mkdir(parents=True, exist_ok=True)
        lock = setup.home.with_name(f"{setup.name}.lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise CannotBegin(str(error)) from error
    with lock as file:
        until = time.monotonic() + setup.lock_seconds
        while not _locked(file.fileno()):
            if time.monotonic() >= until:
                file.seek(0)
                raise InUse(f"process {file.read(20).strip() or 'unknown'} is using {setup.home}")
            time.sleep(0.05)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def holder(home: Path) -> str:
    """The number of the process that has the directory, as far as it is known; empty: none has it."""
    try:
        with home.with_name(f"{home.name}.lock").open(encoding="utf-8") as file:
            return "" if _locked(file.fileno()) else file.read(20).strip() or "unknown"
    except OSError:
        return ""


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv))
