"""A prompt as an engine reads it: its token ids, and a digest for each 16 of them, of all up to there.

16 divides the block size of nearly every engine, so one chain fits them all: a block of 128 tokens is eight digests of ours.

Chains are rooted in what makes two equal prompts different ones to the engine: the adapter and the `cache_salt`. The root is made
with a secret, so that nobody without it can tell from digests what was said.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from hashlib import blake2b

from caches.chain import chain_key, pack

STEP = 16
"""Tokens for which a digest stands."""

MOST_STEPS = 4096
"""Of one prompt, 65,536 tokens: more would hold up others for milliseconds."""

_MASK = 0xFFFF_FFFF
WIDTH = array("I").itemsize
_STEP_BYTES = STEP * WIDTH


def root(secret: bytes, lora: str | None, salt: str | None) -> bytes:
    """Where the chains of an adapter and a salt begin."""
    return chain_key(secret, "tokens", lora, salt)[:8]


def ids_of(tokens: Sequence[int]) -> bytes:
    """Token ids as they are digested, of larger ones their last 32 bits. ValueError when they are none."""
    try:
        return array("I", tokens).tobytes()
    except OverflowError:
        return array("I", [token & _MASK for token in tokens]).tobytes()
    except TypeError:
        raise ValueError("no token ids") from None


def steps(above: bytes, ids: bytes) -> list[bytes]:
    """The digests of whole steps of `ids` behind the digest `above`."""
    digests = []
    for at in range(0, len(ids) - _STEP_BYTES + 1, _STEP_BYTES):
        above = blake2b(above + ids[at : at + _STEP_BYTES], digest_size=8).digest()
        digests.append(above)
    return digests


def aside(above: bytes, what: bytes) -> bytes:
    """Where a chain goes on that depends on something which is no token."""
    return blake2b(b"\xff" + above + what, digest_size=8).digest()


def numbers(digests: Sequence[bytes]) -> tuple[int, ...]:
    """The digests as a `Chain` has them."""
    return tuple(memoryview(b"".join(digests)).cast("Q").tolist()) if digests else ()


def above_of(number: int) -> bytes:
    """The digest behind which the next step stands."""
    return number.to_bytes(8, sys.byteorder)


def token_chain(start: bytes, tokens: Sequence[int]) -> bytes:
    """The chain of a prompt, packed; empty when it is longer than what is looked at. ValueError when these are no token ids."""
    if len(tokens) >= (MOST_STEPS + 1) * STEP:
        return b""
    ids = ids_of(tokens)
    return pack(len(ids), _STEP_BYTES, steps(start, ids))
