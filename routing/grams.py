"""What a text is made of, as the learned classifier reads it: hashed words and word pairs, and a few capped amounts.

Rules
- A word is a run of letters of one script; numbers are all one word by their length; signs of mathematics and code are words too.
- Chinese has no word borders. Terms of the lexicon become the English words that they mean, longest first, so that both
  languages speak with the same weights; what the lexicon does not know becomes single characters. Pairs follow from either.
- Grams are 32-bit hashes (CRC-32 of the word, mixed for pairs): the same in every process and version of Python.
- A gram counts once a text. Of a long text its ends are read, and of many words the first and the last.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

from routing.features import Reading, read
from routing.lexicon import translated

# Letters in runs, digits in runs, Chinese and kana and hangul in runs, and signs one by one.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_TOKEN = re.compile(rf"[^\W\d_{_CJK}]+|\d+|[{_CJK}]+|[=^$\\{{}}<>?%+*|`]")
_DENSE = re.compile("[\u3040-\ufaff]")
_ASCII_TOKEN = re.compile(r"[a-z]+|[0-9]+|[=^$\\{}<>?%+*|`]")
# Of a long text these characters are read: what is asked for stands at its beginning or its end. Chinese says as much in fewer.
BEGINNING = 1000
END = 1500
DENSE = 600
# And of its words so many, when they are short or signs: what a text costs is bounded.
FIRST = 130
LAST = 200
SAMPLED = 16  # of so many characters one is looked at, to tell what is dense
_PAIR = 0x9E3779B1
_NUMBERS = frozenset({"#1", "#2", "#3", "#4"})
_DIGITS, _SIGNS = b"0123456789", b"=^$\\{}<>?%+*|`"
_LETTERS = bytes(range(ord("a"), ord("z") + 1))
_SPACED = bytes(byte if byte in _LETTERS + _DIGITS + _SIGNS else ord(" ") for byte in range(256))  # what is no word is space
_SILENT = frozenset({"a", "an", "the"})  # without a counterpart in Chinese

# The amounts, in the order of their weights.
AMOUNTS = (
    "length",
    "brevity",
    "proof",
    "domain",
    "work",
    "maths",
    "reasoning",
    "trace",
    "code",
    "quantities",
    "steps",
    "options",
    "constraint",
    "coding",
    "questions",
    "format",
    "brief",
    "creative",
    "fact",
    "chore",
    "arithmetic",
    "pleasantry",
    "digits",
)


@dataclass(slots=True)
class Grams:
    """A text's words in order, their hashes and then those of their pairs, the different ones of these, its amounts (0-1, by
    AMOUNTS).
    """

    words: list[str]
    hashed: list[int]
    ids: Collection[int]
    amounts: list[float]
    reading: Reading


def shortened(text: str) -> str:
    """What is read of a text: of a long one, its beginning and its end."""
    if len(text) <= DENSE:
        return text
    if not text.isascii() and SAMPLED * len(_DENSE.findall(text[::SAMPLED])) > DENSE:
        return f"{text[: DENSE // 3]}\n{text[-2 * DENSE // 3 :]}"
    return text if len(text) <= BEGINNING + END else f"{text[:BEGINNING]}\n{text[-END:]}"


def words_of(text: str) -> list[str]:
    """The words of a text, in order."""
    lower = text.lower()
    if lower.isascii():
        return _ascii_words(lower)
    words: list[str] = []
    for word in _TOKEN.findall(lower):
        if "\u3040" <= word[0] <= "\ufaff":
            words.extend(translated(word))
        elif word not in _SILENT:
            words.append(_worded(word))
    return words


def _ascii_words(lower: str) -> list[str]:
    """A text without digits is cut without a pattern, which takes a third of the time."""
    spaced = lower.encode("ascii").translate(_SPACED)
    signs = spaced.translate(None, _LETTERS + b" ")
    if signs and signs.translate(None, _SIGNS):
        return [word if word > ":" else _worded(word) for word in _ASCII_TOKEN.findall(lower) if word not in _SILENT]
    for sign in set(signs):
        spaced = spaced.replace(b"%c" % sign, b" %c " % sign)
    return [word for word in spaced.decode("ascii").split() if word not in _SILENT]


def _worded(word: str) -> str:
    return f"#{min(len(word), 4)}" if word[0] <= "9" and word.isdecimal() else word


def hashes(words: Sequence[str]) -> list[int]:
    return list(map(crc32, " ".join(words).encode("utf-8", "replace").split(b" "))) if words else []


def pairs(hashed: Sequence[int]) -> list[int]:
    """The hash of each word with the one before it: `(before * _PAIR ^ after) & 0xFFFFFFFF`.

    All of them at once, each in 64 bits of one number, where no product reaches its neighbour: a sixth of the time.
    """
    count = len(hashed) - 1
    if count < 1:
        return []
    words = int.from_bytes(struct.pack(f"<{count + 1}Q", *hashed), "little")
    mixed = (words * _PAIR ^ words >> 64) & _low_halves(count)
    return list(struct.unpack(f"<{count}Q", mixed.to_bytes(8 * count, "little")))


@lru_cache(FIRST + LAST)
def _low_halves(count: int) -> int:
    return int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")


def grams_of(text: str) -> Grams:
    """Reads a text of bounded length."""
    text = shortened(text)
    words = words_of(text)
    if len(words) > FIRST + LAST:
        words = words[:FIRST] + words[-LAST:]
    hashed = hashes(words)
    hashed += pairs(hashed)
    reading = read(text)
    return Grams(words, hashed, dict.fromkeys(hashed), _amounts(words, reading), reading)


def _amounts(words: list[str], reading: Reading) -> list[float]:
    values = reading.values
    size = len(words)
    values["length"] = min(1.0, math.log2(1 + size) / 10)
    values["brevity"] = 1.0 / (1.0 + size / 8)
    numbers = 0 if _NUMBERS.isdisjoint(words) else sum(map(_NUMBERS.__contains__, words))
    values["digits"] = min(1.0, 5 * numbers / (size + 5))
    return [values.get(name, 0.0) for name in AMOUNTS]
