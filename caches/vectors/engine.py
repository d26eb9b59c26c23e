"""The process that the embedded engine lives in: `python -m caches.vectors.engine DESCRIPTOR SETUP`.

Why a process: a call of the engine holds the interpreter's lock until it returns, and laying 10,000 points out takes a second.
Here it stops nobody but those who search. And whatever becomes of it (a fault, the kernel's out-of-memory killer), the gateway
lives on.

- It answers one ask after the other, over the socket that it was born with, and ends when the other end of that closes: an owner
  that died, however it died, leaves no engine behind.
- It alone holds the directory, by a lock that the system takes back from a dead process.
- A directory that cannot be opened, or read, is moved aside and begun anew: a cache is no reason not to start. If a new one
  cannot be made either, the old one is put back where it was.
- What the system refuses (see `faults`) is no damage: nothing is moved, writes are declined, and it goes on reading.
- Questions and answers are for this user alone: nobody else may enter the directory, or read what is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import re
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
from caches.vectors.faults import LITTLE, ROOM, need, reason_of, short
from caches.vectors.options import IndexOptions
from caches.vectors.shard import Shard

_QUOTED = re.compile(r'"[^"]*(?:"|$)')
_NOTHING = msgspec.Raw(msgspec.msgpack.encode(None))


class Setup(msgspec.Struct, frozen=True):
    path: str  # the directory of all collections
    name: str
    dimension: int
    options: IndexOptions
    max_points: int
    lock_seconds: float = 5.0  # to wait for it: an engine whose owner was killed still ends what it is doing
    aside: str | None = None  # begin anew, for this reason: what is there was found to be damaged
    as_it_is: bool = False  # never begin anew: for one who only looks

    @property
    def home(self) -> Path:
        return Path(self.path) / self.name


class CannotBegin(Exception):  # noqa: N818 - it names what was met
    """There is no way to have a directory of points at this place."""


class Damaged(Exception):  # noqa: N818 - it names what was met
    """The engine cannot read what it has written."""


class InUse(Exception):  # noqa: N818 - it names what was met
    """Another process has the directory."""


def main(argv: list[str]) -> int:
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.SIG_IGN)  # meant for the gateway, which closes the socket when it has done
    setup = msgspec.json.decode(argv[2], type=Setup)
    os.umask(0o077)
    with contextlib.suppress(BrokenPipeError), socket.socket(fileno=int(argv[1])) as channel, channel.makefile("rwb") as stream:
        try:
            with _held(setup):
                run(setup, stream)
        except Damaged:
            return 1
        except (InUse, CannotBegin) as error:
            _send(stream, Hello(refused=str(error)))
            return 1
    return 0


def run(setup: Setup, stream: io.BufferedRWPair) -> None:
    shard, hello = opened(setup)
    try:
        _send(stream, hello)
        serve(stream, shard, setup)
    finally:
        with contextlib.suppress(Exception):  # of what is damaged, or of a full disk: it is over either way
            shard.close()


def opened(setup: Setup) -> tuple[Shard, Hello]:
    """Raises CannotBegin."""
    if setup.as_it_is:
        return _only_opened(setup)
    there = setup.home.exists()
    if setup.aside is not None and there:
        return _anew(setup, setup.aside)
    if not there and short(setup.home, ROOM):
        raise CannotBegin("there is no room on the disk")
    try:
        shard = _shard(setup)
        points = shard.stats().points
    except BaseException as error:
        if _declined(error, setup.home) is None:
            return _anew(setup, _said(error))
        if not there:
            shutil.rmtree(setup.home, ignore_errors=True)
        raise CannotBegin(_said(error)) from error
    return shard, Hello(points=points, declines="full" if short(setup.home, ROOM) else None)


def _only_opened(setup: Setup) -> tuple[Shard, Hello]:
    try:
        shard = _shard(setup)
        points = shard.stats().points
    except BaseException as error:
        raise CannotBegin(_said(error)) from error
    return shard, Hello(points=points, declines="full" if short(setup.home, ROOM) else None)


def serve(stream: io.BufferedRWPair, shard: Shard, setup: Setup) -> None:
    """Until the other end closes. Raises Damaged."""
    calls = msgspec.msgpack.Decoder(asks.Call)
    while len(head := stream.read(asks.LENGTH.size)) == asks.LENGTH.size:
        call = calls.decode(stream.read(asks.LENGTH.unpack(head)[0]))
        try:
            reply = asks.Reply(call.number, msgspec.Raw(msgspec.msgpack.encode(answered(shard, call.ask, setup.home))))
        except BaseException as failure:  # noqa: BLE001 - whatever the engine raises is the asker's to hear; a panic is no Exception
            declined = _declined(failure, setup.home)
            reply = asks.Reply(call.number, _NOTHING, _said(failure), declined, damaged=declined is None)
        _send(stream, reply)
        if reply.damaged:
            raise Damaged


def answered(shard: Shard, ask: asks.Ask, home: Path) -> asks.Answer:
    """Raises Declined, and whatever the engine raises."""
    match ask:
        case asks.Put():
            need(home, ROOM)
        case asks.Delete() | asks.Page(delete=True):
            need(home, LITTLE)
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


def _declined(error: BaseException, home: Path) -> str | None:
    return reason_of(error) or ("full" if short(home, LITTLE) else None)


def _said(error: BaseException) -> str:
    """For a log: what stands in quotes may be somebody's question."""
    return f"{type(error).__name__}: {_QUOTED.sub('...', str(error))}"[:500]


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
        if setup.home.is_dir() and not setup.as_it_is:
            setup.home.chmod(0o700)  # made by an engine that was less careful
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
