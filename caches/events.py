"""Server-sent events: the payloads in a stream's bytes, and an event with a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

_encode = msgspec.json.encode


def payloads(events: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event, its lines joined; comments and other fields are left out."""
    stream = b"".join(events).removeprefix(b"\xef\xbb\xbf")
    if b"\r" in stream:  # never inside JSON text, where it is escaped
        stream = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for event in stream.split(b"\n\n"):
        if event.startswith(b"data:") and b"\n" not in event:
            yield event[5:].strip()
            continue
        lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
        if lines:
            yield b"\n".join(lines).strip()


def named(fields: Mapping[str, Any]) -> bytes:
    """One event that is called what its `type` says."""
    return b"event: %b\ndata: %b\n\n" % (fields["type"].encode(), _encode(fields))
