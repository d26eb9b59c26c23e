"""What the two processes of the embedded store say to each other: frames of MessagePack with a length before each.

The answer to an ask carries its number. An engine answers one ask after the other, in their order.
"""

from __future__ import annotations

import struct

import msgspec

from caches.vectors.backend import Numbers, Sheet
from caches.vectors.rows import Row, Where

LENGTH = struct.Struct("<I")
MAX_FRAME = 64 * 2**20


class Hello(msgspec.Struct, frozen=True):
    """The first frame, from the engine. `refused`: it cannot serve, and ends. `aside`: where a broken directory was moved."""

    points: int = 0
    declines: str | None = None  # why it writes nothing just now
    refused: str | None = None
    aside: str | None = None
    trouble: str | None = None  # what was wrong with it


class Search(msgspec.Struct, frozen=True, tag=True):
    where: Where
    vector: bytes
    limit: int


class Fetch(msgspec.Struct, frozen=True, tag=True):
    numbers: list[str]  # `rows.number`


class Put(msgspec.Struct, frozen=True, tag=True):
    rows: list[Row]


class Delete(msgspec.Struct, frozen=True, tag=True):
    numbers: list[str]


class Page(msgspec.Struct, frozen=True, tag=True):
    """The rows from `start` on, a page of them; of those that were meant, deleted if `delete`."""

    where: Where
    fields: list[str]
    limit: int
    start: str | None = None
    delete: bool = False


class Stats(msgspec.Struct, frozen=True, tag=True):
    pass


class Tidy(msgspec.Struct, frozen=True, tag=True):
    """Write everything down, and lay the points out anew where enough of them have changed."""


Ask = Search | Fetch | Put | Delete | Page | Stats | Tidy
Answer = list[Row] | Sheet | Numbers | bool | None


class Call(msgspec.Struct, frozen=True):
    number: int
    ask: Ask


class Reply(msgspec.Struct, frozen=True):
    number: int
    answer: msgspec.Raw
    error: str | None = None
    declined: str | None = None  # why that could not be done just now
    damaged: bool = False  # it cannot read what it has written, and ends


def framed(message: msgspec.Struct) -> bytes:
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body
