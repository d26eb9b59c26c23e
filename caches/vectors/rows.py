"""What lies in a row of Qdrant: names, the payload, and where a search may look. The same for both adapters, and without numpy.

- A point's number is a UUID made from the entry's id, which is in the payload as well.
- An answer is kept as zlib and base64: of what JSON can hold it is the smallest, and a search has to read past it. Measured with
  answers of 256 KiB: 0.17 ms a search of five, against 1.1 ms as plain base64 and 1.5 ms as text.
- A row that comes back is checked, whoever sent it: another type, another vector length or a bad answer is `BadRow`.
"""

from __future__ import annotations

import base64
import contextlib
import re
import uuid
import zlib
from array import array
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

SCHEMA = 1
"""Of the payload. Another one is another collection: no row of an older layout is ever read."""

MAX_ANSWER = 16 * 2**20  # of one that is unpacked: what lies in a database is not ours to trust

KEYWORDS = {"partition": True, "tenant": False, "model": False, "tags": False}
"""Fields that are looked up by value; True: the one that every search names, by which the engine lays the points out."""
NUMBERS = ("stored_at", "expires_at")
"""Fields that are looked up by range."""

NEIGHBOUR = ["id", "partition", "tenant", "text", "stored_at", "expires_at"]
"""What a search brings along: not the answers."""
KNOWN = ["id", "partition", "text", "stored_at", "expires_at"]

_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


class BadRow(Exception):  # noqa: N818 - it names what was met
    """What came back is no row of ours."""


class Row(msgspec.Struct, frozen=True):
    """A point as both processes of the embedded store write it to each other; what was not asked for is empty."""

    id: str
    partition: str = ""
    tenant: str = ""
    model: str = ""
    tags: tuple[str, ...] = ()
    stored_at: float = 0.0
    expires_at: float = 0.0
    text: str = ""
    answer: bytes = b""
    vector: bytes = b""  # float32, as the machine has them


class Where(msgspec.Struct, frozen=True):
    """All that are given must hold."""

    partition: str | None = None
    tenant: str | None = None
    model: str | None = None
    tag: str | None = None
    born_from: float | None = None
    born_by: float | None = None
    alive_at: float | None = None
    dead_by: float | None = None

    def values(self) -> list[tuple[str, str]]:
        named = (("partition", self.partition), ("tenant", self.tenant), ("model", self.model), ("tags", self.tag))
        return [(field, value) for field, value in named if value is not None]

    def ranges(self) -> list[tuple[str, str, float]]:
        named = (
            ("stored_at", "gte", self.born_from),
            ("stored_at", "lte", self.born_by),
            ("expires_at", "gt", self.alive_at),
            ("expires_at", "lte", self.dead_by),
        )
        return [(field, how, value) for field, how, value in named if value is not None]


def collection_name(model: str, fingerprint: str, dimension: int) -> str:
    """`tiergate-all-minilm-l6-v2-0f3a9c1e-384-v1`: vectors of different models never meet."""
    slug = _NOT_PLAIN.sub("-", model.lower()).strip("-")[:48] or "model"
    mark = _NOT_PLAIN.sub("", fingerprint.lower())[:8] or "none"
    return f"tiergate-{slug}-{mark}-{dimension}-v{SCHEMA}"


def number(entry: str) -> uuid.UUID:
    return uuid.UUID(bytes=blake2b(entry.encode("utf-8", "surrogatepass"), digest_size=16).digest())


def numbers(entries: Iterable[str]) -> list[str]:
    return [str(number(entry)) for entry in entries]


def payload(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "partition": row.partition,
        "tenant": row.tenant,
        "model": row.model,
        "tags": list(row.tags),
        "stored_at": row.stored_at,
        "expires_at": row.expires_at,
        "text": row.text,
        "answer": stowed(row.answer),
    }


def read(fields: object, vector: object = None) -> Row:
    """Raises BadRow."""
    try:
        if not isinstance(fields, Mapping):
            raise TypeError("no payload")  # noqa: TRY301 - one way out
        found = {**fields, "answer": unstowed(fields.get("answer", "")), "vector": _packed(vector)}
        return msgspec.convert(found, Row)
    except (TypeError, ValueError, OverflowError, zlib.error, msgspec.ValidationError) as error:
        raise BadRow(f"no row of ours: {type(error).__name__}") from error


def readable(payloads: Iterable[object]) -> list[Row]:
    """Those that can be read, so that one that cannot does not keep the others from being told, or deleted."""
    found = []
    for fields in payloads:
        with contextlib.suppress(BadRow):
            found.append(read(fields))
    return found


def _packed(vector: object) -> bytes:
    if vector is None:
        return b""
    if not isinstance(vector, list):
        raise TypeError("a vector is a list")
    return array("f", vector).tobytes()


def stowed(answer: bytes) -> str:
    return base64.b64encode(zlib.compress(answer, 1)).decode("ascii")


def unstowed(answer: object) -> bytes:
    """Raises TypeError, ValueError and zlib.error."""
    if not isinstance(answer, str):
        raise TypeError("an answer is a string")
    if not answer:
        return b""
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(base64.b64decode(answer, validate=True), MAX_ANSWER)
    if not unpacking.eof:
        raise ValueError("an answer that is cut, or too long")
    return data
