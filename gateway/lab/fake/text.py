"""A tokenizer without a vocabulary file, and text made of its tokens.

A token is four bytes of UTF-8 (the last one may be shorter), so that counting is a division, a prefix of a text has a
prefix of its tokens, and ids turn back into text without a table. The words that replies are made of are three letters
and a space, one token each, so that a reply read back as a prompt counts the same.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Sequence

TOKEN_BYTES = 4
EOS = "<|im_end|>"
EOS_ID = 2
_MARK = b"\x01"  # in front of the bytes, so that leading zeros and short tokens keep their length

_LETTERS = (
    "theandforarebutnotyouallanycanhadherwasoneouroutdaygethashimhishownewnowoldseetwowaywhodiditsletputsayshetoo"
    "usemapkeylogrownetboxsetrunendtoplowfitaimactaddageairartaskbadbagbarbedbigbitbusbuycarcupcutdrydueeateggfar"
    "fewflyfungasgothoticejobjoykitlawledleglielotmixown"
)
_WORDS = tuple(_LETTERS[at : at + 3] for at in range(0, len(_LETTERS), 3))


def _ring(size: int) -> tuple[str, ...]:
    rng = random.Random(20)
    return tuple(rng.choice(_WORDS) + " " for _ in range(size))


RING = _ring(4096)
_QUOTED = tuple(json.dumps(word).encode() for word in RING)
_TEXTS2, _QUOTED2 = RING * 2, _QUOTED * 2


def count(data: bytes) -> int:
    return -(-len(data) // TOKEN_BYTES)


def encode(data: bytes) -> list[int]:
    return [int.from_bytes(_MARK + data[at : at + TOKEN_BYTES]) for at in range(0, len(data), TOKEN_BYTES)]


def token_bytes(token: int) -> bytes:
    """The bytes of one id; an id that no text has gives a question mark rather than an error."""
    raw = token.to_bytes(max(1, (token.bit_length() + 7) // 8))
    if raw[:1] == _MARK and 1 < len(raw) <= TOKEN_BYTES + 1:
        return raw[1:]
    return EOS.encode() if token == EOS_ID else b"?"


def decode(tokens: Iterable[int]) -> str:
    return b"".join(map(token_bytes, tokens)).decode("utf-8", "replace")


def pieces(text: str) -> list[str]:
    """`text` cut into what one token each would say: up to four bytes, never within a character."""
    if text.isascii():
        return [text[at : at + TOKEN_BYTES] for at in range(0, len(text), TOKEN_BYTES)]
    found, start, size = [], 0, 0
    for at, char in enumerate(text):
        width = len(char.encode("utf-8", "surrogatepass"))
        if size and size + width > TOKEN_BYTES:
            found.append(text[start:at])
            start, size = at, 0
        size += width
    return [*found, text[start:]]


def words(start: int, length: int) -> tuple[list[str], list[bytes]]:
    """`length` words from place `start` of the ring: as text and as JSON strings made beforehand."""
    start %= len(RING)
    if length <= len(RING):
        return list(_TEXTS2[start : start + length]), list(_QUOTED2[start : start + length])
    texts = itertools.islice(itertools.cycle(RING), start, start + length)
    quoted = itertools.islice(itertools.cycle(_QUOTED), start, start + length)
    return list(texts), list(quoted)


def quote(texts: Sequence[str]) -> list[bytes]:
    return [json.dumps(text, ensure_ascii=not text.isprintable()).encode("utf-8", "replace") for text in texts]
