"""The framing of HTTP/1.1's chunks as nearly all senders write it, and how a frame that is a whole read is told by its length."""

from __future__ import annotations

LONGEST = 2048  # bytes of a frame: a chunk with its size before it and its line end behind it
TAIL = b"\r\n"
LONGEST_HEAD = 8  # bytes of a chunk's size and the line end behind it


def frame(piece: bytes) -> bytes:
    """A chunk."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def length_of(head: bytes) -> int:
    """Of the chunk behind its head, as `frame` writes that: else 0, which no chunk has."""
    try:
        length = int(head, 16)
    except ValueError:
        return 0
    return length if b"%x\r\n" % length == head else 0


def _heads() -> list[bytes]:
    heads = [b"-"] * LONGEST  # begins no chunk
    for size in range(1, LONGEST):
        head = b"%x\r\n" % size
        if len(head) + size + len(TAIL) < LONGEST:
            heads[len(head) + size + len(TAIL)] = head
    return heads


HEADS = _heads()
"""By the length of a frame: what it begins with. Some senders write capitals or zeros in front: those are read the long way."""
