"""The framing of HTTP/1.1's chunks, as far as a read that is one chunk and nothing else can be told by its length alone."""

from __future__ import annotations

LONGEST = 2048  # bytes of a frame: a chunk with its size before it and its line end behind it
TAIL = b"\r\n"


def frame(piece: bytes) -> bytes:
    """A chunk."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def _heads() -> list[bytes]:
    heads = [b"-"] * LONGEST  # begins no chunk
    for size in range(1, LONGEST):
        head = b"%x\r\n" % size
        if len(head) + size + len(TAIL) < LONGEST:
            heads[len(head) + size + len(TAIL)] = head
    return heads


HEADS = _heads()
"""By the length of a frame: what it begins with. Some senders write capitals or zeros in front: those are read the long way."""
