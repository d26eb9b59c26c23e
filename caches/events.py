"""Server-sent events: the payloads in a stream's bytes, and an event with a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

_encode = msgspec.json.encode
_ERROR = b'{"type":"error","error":{}}'


def payloads(events: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event, its lines joined; comments and other fields are left out.

    An event that is named `error` is told as an error, whatever its data.
    """
    stream = b"".join(events).removeprefix(b"\xef\xbb\xbf")
    if b"\r" in stream:  # never inside JSON text, where it is escaped
        stream = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for event in stream.split(b"\n\n"):
        if event.startswith(b"data:") and b"\n" not in event:
            yield event[5:].strip()
            continue
        fields = event.split(b"\n")
        lines = [line[5:].removeprefix(b" ") for line in fields if line.startswith(b"data:")]
        if any(line.startswith(b"event:") and line[6:].strip() == b"error" for line in fields):
            yield _ERROR
        elif lines:
            yield b"\n".join(lines).strip()


def named(fields: Mapping[str, Any]) -> bytes:
    """One event that is called what its `type` says."""
    return b"event: %b\ndata: %b\n\n" % (fields["type"].encode(), _encode(fields))
