"""A YAML file that lists replicas, read again whenever it has changed.

    - {name: a, url: "http://10.0.0.11:8000/v1"}      # name and api_key may be left out
    - {url: "http://10.0.0.12:8000/v1", api_key: …}

Rules:
- Changed is: another modification time, size or file (inode). So a rename onto it is noticed.
- A file that was renamed into place is whole, and believed at once. One that was written in place may be half written: it
  is believed when it has not changed from one look to the next, and had not changed while it was read.
- It is as strict as the config, and a bad one changes nothing; the error names the line. A list without entries (`[]`) is
  believed, for somebody wrote it; a file without anything in it is not.
- `${NAME}` is not filled in: whoever may write this file need not be one who may read the gateway's environment.
"""
# ruff: noqa: RUF009 - key() and its siblings return dataclasses.field(), which is what belongs there

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from backends.client import Origin
from gateway.config import types as t
from gateway.config.fields import key, required
from gateway.config.problems import ConfigError, Problems, quote
from gateway.config.reader import Reader
from gateway.config.schema import Replica
from gateway.config.secret import Secret
from gateway.config.tls import BackendTls
from gateway.config.yamltree import MAX_BYTES, TOO_LARGE, Mapping, Mark, Scalar, Sequence, compose
from gateway.discovery.single import Single
from gateway.discovery.types import Found, LookFailed, name_of
from gateway.fleet import MAX_REPLICAS

_SECONDS = 5.0
_Signature = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    name: t.Name | None = key(None, "Unique in the file; null: by the URL's host and port.")
    url: t.HttpUrl = required("Base URL of the engine's API.")
    api_key: t.HiddenText = key(Secret(), "The engine's --api-key; empty: the one that the config gives.")
    events: t.ZmqUrl | None = key(None, "Where its engine publishes KV cache events.")
    replay: t.ZmqUrl | None = key(None, "Where its engine replays them.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    replicas: tuple[Entry, ...] = key((), "The list.")


class File:
    """Kind file."""

    patience = 1  # what is not in the list was taken off it

    def __init__(self, path: Path, api_key: Secret, tls: BackendTls | None, *, seconds: float = _SECONDS) -> None:
        self.label = f"file {path}"
        self._path = path
        self._api_key = api_key
        self._tls = tls
        self._seen: _Signature | None = None  # at the last look
        self._read: _Signature | None = None  # of what `_last` was read from
        self._last: Found | LookFailed = LookFailed("it has not been read yet")
        self._reading = Single(partial(asyncio.to_thread, self._refresh), seconds)  # a disk may hang

    async def look(self) -> Found:
        await self._reading()
        if isinstance(self._last, LookFailed):
            raise LookFailed(str(self._last))
        return self._last

    def _refresh(self) -> None:
        try:
            self._look()
        except OSError as error:
            self._seen = self._read = None
            self._last = LookFailed(f"cannot be read: {error.strerror}")
        except LookFailed as failed:
            self._last = failed

    def _look(self) -> None:
        before = _signature(self._path.stat())
        settled = before == self._seen or self._seen is None or before[:2] != self._seen[:2]
        self._seen = before
        if before == self._read or not settled:
            return
        self._read = before
        text = _text(self._path, before)
        if text is not None:  # else it changed as we read: the next look will tell
            self._last = Found(self._parsed(text))

    def _parsed(self, text: str) -> tuple[Replica, ...]:
        try:
            entries = _entries(text, str(self._path))
        except ConfigError as error:
            more = f" (and {len(error.errors) - 1} more)" if len(error.errors) > 1 else ""
            raise LookFailed(f"{error.errors[0]}{more}") from None
        replicas = [self._replica(entry) for entry in entries]
        names = [replica.name for replica in replicas]
        twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
        if twice is not None:
            raise LookFailed(f"{self._path}: two replicas are called {twice}")
        heard: dict[str, str] = {}
        for replica in replicas:
            for address in (replica.events, replica.replay):
                if address is not None and address in heard:
                    raise LookFailed(f"{self._path}: {heard[address]} and {replica.name} both have {quote(address)}")
                if address is not None:
                    heard[address] = replica.name
        return tuple(replicas)

    def _replica(self, entry: Entry) -> Replica:
        name = entry.name or _name(entry.url)
        return Replica(
            name=name,
            url=entry.url,
            api_key=entry.api_key or self._api_key,
            tls=self._tls,
            events=entry.events,
            replay=entry.replay,
        )


def _entries(text: str, path: str) -> tuple[Entry, ...]:
    """The list in the file, or a ConfigError with all that is wrong."""
    problems = Problems(path)
    node = compose(text.removeprefix("\ufeff"), problems)
    if node is None:
        problems.raise_if_any()
        problems.add(1, 1, (), "empty; write [] for a list of nothing")
    elif not isinstance(node, Sequence):
        problems.add(node.mark.line, node.mark.column, (), "expected a list of replicas")
    elif len(node.items) > MAX_REPLICAS:
        problems.add(node.mark.line, node.mark.column, (), f"more than {MAX_REPLICAS} replicas")
    problems.raise_if_any()
    assert node is not None
    page = Reader({}, problems).root(_Page, Mapping(node.mark, ((Scalar(Mark(1, 1), "replicas", plain=True), node),)))
    problems.raise_if_any()
    assert isinstance(page, _Page)
    return page.replicas


def _name(url: str) -> str:
    origin = Origin.parse(url)
    return name_of(origin.host, origin.port)


def _signature(status: os.stat_result) -> _Signature:
    if not stat.S_ISREG(status.st_mode):
        raise LookFailed("it is no regular file")
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _text(path: Path, expected: _Signature) -> str | None:
    """What it holds; None when it is no longer the file of that signature."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe in its place must not hold us
    with os.fdopen(descriptor, "rb") as file:
        if _signature(os.fstat(descriptor)) != expected:
            return None
        data = file.read(MAX_BYTES + 1)
        if _signature(os.fstat(descriptor)) != expected:
            return None
    if len(data) > MAX_BYTES:
        raise LookFailed(TOO_LARGE)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LookFailed("not UTF-8 text") from None
