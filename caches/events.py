"""Server-sent events: the payloads in a stream's bytes, and an event with a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

_encode = msgspec.json.encode
_ERROR = b'{"type":"error","error":{}}'
_LF, _CR = 10, 13  # as numbers: `b"\r" in stream` makes and drops an exception first


def joined(events: Iterable[bytes]) -> bytes:
    """The stream, with line feeds alone at the ends of its lines."""
    stream = b"".join(events).removeprefix(b"\xef\xbb\xbf")
    if _CR in stream:  # never inside JSON text, where it is escaped
        stream = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return stream


def split(stream: bytes) -> list[bytes]:
    """What is between its empty lines: where each event is one line at less than splitting at two line feeds costs."""
    lines = stream.split(b"\n")
    return lines[::2] if len(lines) % 2 and not any(lines[1::2]) else stream.split(b"\n\n")


def payloads(events: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event, its lines joined; comments and other fields are left out."""
    for event in split(joined(events)):
        payload = payload_of(event)
        if payload is not None:
            yield payload


def payload_of(event: bytes) -> bytes | None:
    """The data of an event. One that is named `error` is told as an error, whatever its data."""
    if event.startswith(b"data:") and _LF not in event:
        return event[5:].strip()
    fields = event.split(b"\n")
    lines = [line[5:].removeprefix(b" ") for line in fields if line.startswith(b"data:")]
    if any(line.startswith(b"event:") and line[6:].strip() == b"error" for line in fields):
        return _ERROR
    return b"\n".join(lines).strip() if lines else None


def named(fields: Mapping[str, Any]) -> bytes:
    """One event that is called what its `type` says."""
    return b"event: %b\ndata: %b\n\n" % (fields["type"].encode(), _encode(fields))
