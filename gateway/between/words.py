"""What gateways say to each other.

    News     who, the how manieth, what is in flight where, and what happened since the last one
    Event    PLACED    a prompt was sent: `what` is its chain (`caches.chain`), `tokens` its length
             ANSWERED  an answer of so many `tokens` was made to the prompt whose digest is `what`
             FORGOT    that replica has turned out to hold nothing

A replica is a digest of its model and its URL: where both are the same it is the same engine, whatever it is called. A message is
sealed with a digest under the gateways' secret: who does not have that is not heard, and gateways of different secrets, whose
chains have nothing in common, do not hear each other.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from typing import Annotated, Final

import msgspec
from msgspec import Meta

VERSION: Final = 1
PLACED, ANSWERED, FORGOT = range(3)
MOST_REPLICAS: Final = 4096
MOST_EVENTS: Final = 4096
LONGEST: Final = 512 * 1024  # bytes of a message
_CHAIN: Final = 32 * 1024  # bytes; twice what a chain has at most
_SEAL: Final = 16

Count = Annotated[int, Meta(ge=0, le=1 << 40)]
Load = tuple[int, Count, Count]
"""Engine, uncached tokens before their first byte, requests in flight."""


class Event(msgspec.Struct, array_like=True, frozen=True, gc=False):
    kind: Annotated[int, Meta(ge=PLACED, le=FORGOT)]
    engine: int
    tokens: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    what: Annotated[bytes, Meta(max_length=_CHAIN)] = b""


class News(msgspec.Struct, array_like=True, frozen=True):
    version: Annotated[int, Meta(ge=VERSION, le=VERSION)]
    node: Annotated[bytes, Meta(min_length=8, max_length=8)]
    number: Annotated[int, Meta(ge=1, le=1 << 60)]
    loads: Annotated[list[Load], Meta(max_length=MOST_REPLICAS)]
    events: Annotated[list[Event], Meta(max_length=MOST_EVENTS)]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(News).decode


class Seal:
    """`secret`: the one that all gateways have."""

    def __init__(self, secret: bytes) -> None:
        self._key = blake2b(b"between gateways", key=secret, digest_size=32).digest()

    @property
    def channel(self) -> str:
        """The last part of the name of the channel; gateways of another secret have another one."""
        return blake2b(b"channel", key=self._key, digest_size=8).hexdigest()

    def engine(self, model: str, address: str) -> int:
        name = f"{len(model)}:{model}{address}".encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(name, key=self._key, digest_size=8).digest())

    def close(self, news: News) -> bytes:
        said = _encode(news)
        return self._of(said) + said

    def open(self, data: bytes) -> News | None:
        """None where it is no message of a gateway with the same secret."""
        if len(data) > LONGEST or not compare_digest(data[:_SEAL], self._of(data[_SEAL:])):
            return None
        try:
            return _decode(data[_SEAL:])
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def _of(self, said: bytes) -> bytes:
        return blake2b(said, key=self._key, digest_size=_SEAL).digest()
