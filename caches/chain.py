"""What a prompt is, for finding out who has seen its beginning: a chain of digests.

One 8-byte digest for each whole block of its bytes, of everything up to that block's end. Two prompts have as many digests in
common as they have whole blocks in common from their start, so a set of digests is a tree of prompts.

Every chain is keyed: by the model, its adapter and whose cache it is. What is not to be shared has nothing in common, and nobody
without the key can tell from digests what was said. 8 bytes: a collision misplaces a request, and does no other harm.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Self

from msgspec import Struct

BLOCK = 256
"""Bytes of a block: some 60 tokens."""

MOST_BLOCKS = 2048
"""Of one prompt, some 128,000 tokens; what is beyond is not looked at, or one prompt would hold up others for milliseconds."""

_STEP = 512  # blocks
_KEY_BYTES = 32
_END = b"\xff"  # behind a prompt as a whole: it is no UTF-8, so the digest of that is never one of a block
_NONE = b"\0" * 8
_PACK = struct.Struct("=IIII8s8s").pack
_HEAD = struct.Struct("=IIIIQQ")  # the same, read: all that read it are of the machine that wrote it
_FIELDS = 6


def chain_key(*parts: bytes | str | None) -> bytes:
    """What a chain is keyed with, from all that makes two equal prompts different ones: model, adapter, salt."""
    digest = blake2b(digest_size=_KEY_BYTES)
    for part in parts:
        text = b"" if part is None else part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"%d:" % (-1 if part is None else len(text)) + text)
    return digest.digest()


def chain_root(key: bytes) -> blake2b:
    """What all chains with that key begin as."""
    return blake2b(key=key, digest_size=8)


def chain(key: bytes, parts: Sequence[bytes], block: int = BLOCK, answer: tuple[int, int] | None = None) -> bytes:
    """The chain of a prompt, packed; see `Chain` and `chain_from`."""
    return chain_from(chain_root(key), parts, block, answer)


def chain_from(root: blake2b, parts: Sequence[bytes], block: int = BLOCK, answer: tuple[int, int] | None = None) -> bytes:
    """`parts` are a prompt's canonical bytes; those numbered from `answer[0]` to before `answer[1]` are the last answer in it."""
    digests = [b""]
    for _ in chain_steps(digests, root, parts, block, answer):
        pass
    return b"".join(digests)


def chain_steps(
    digests: list[bytes], root: blake2b, parts: Sequence[bytes], block: int = BLOCK, answer: tuple[int, int] | None = None
) -> Iterator[None]:
    """As `chain_from`, in steps of at most a millisecond. `digests`, of one element, holds the pieces of the chain in the end."""
    data = b"".join(parts)
    size = len(data)
    whole = size - size % block
    bounded = whole > MOST_BLOCKS * block
    if bounded:
        whole = MOST_BLOCKS * block
    state, at, start, stop, asked = root.copy(), 0, 0, 0, _NONE
    if answer is not None and not bounded:
        start = sum(map(len, parts[: answer[0]]))
        stop = start + sum(map(len, parts[answer[0] : answer[1]]))
    for until in (start - start % block, whole):
        while at < until:
            rest = min(until, at + _STEP * block)
            for begin in range(at, rest, block):
                state.update(data[begin : begin + block])
                digests.append(state.copy().digest())
            at = rest
            yield
        if start and asked is _NONE:
            before = state.copy()
            before.update(data[at:start] + _END)
            asked = before.digest()
    if bounded:
        digests[0] = _PACK(size, block, start, stop, _NONE, asked)
    else:
        state.update(data[whole:] + _END)
        digests[0] = _PACK(size, block, start, stop, state.digest(), asked)


def pack(size: int, block: int, digests: Sequence[bytes]) -> bytes:
    """A chain whose digests were made elsewhere, without an answer in it."""
    return b"".join([_PACK(size, block, 0, 0, _NONE, _NONE), *digests])


@lru_cache(maxsize=512)
def _reader(length: int) -> Callable[[bytes], tuple[int, ...]]:
    """Of a chain of so many bytes: the fields of its head, and its digests. ValueError when none is so long."""
    if length < _HEAD.size or length % 8:
        raise ValueError("no chain")
    return struct.Struct(f"{_HEAD.format}{(length - _HEAD.size) // 8}Q").unpack


class Chain(Struct):  # made for every request, in a third of the time that a dataclass takes
    """A prompt. `size`, `block`, `start` and `stop` are bytes, or whatever else prompts are measured in."""

    blocks: Sequence[int]  # the digests of its whole blocks
    size: int
    block: int = BLOCK
    end: int = 0  # the digest of all of it; 0: unknown
    asked: int = 0  # that of the part which its last answer was given to; 0: there is no answer in it
    start: int = 0  # where that answer stands
    stop: int = 0

    def __post_init__(self) -> None:
        if self.block < 1 or not 0 <= self.start <= self.stop <= self.size:
            raise ValueError("no chain")

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """What `chain` packed. ValueError when it is something else."""
        found = _reader(len(packed))(packed)
        size, block, start, stop, end, asked = found[:_FIELDS]
        return cls(found[_FIELDS:], size, block, end, asked, start, stop)

    def pack(self) -> bytes:
        """What `unpack` reads."""
        head = _HEAD.pack(self.size, self.block, self.start, self.stop, self.end, self.asked)
        return head + struct.pack(f"={len(self.blocks)}Q", *self.blocks)

    def tokens_of(self, length: int, tokens: int) -> int:
        """Tokens in `length` of it, where all of it is so many."""
        size = self.size
        return (tokens if length >= size else length * tokens // size) if size else 0
