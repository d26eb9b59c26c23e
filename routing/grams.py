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
import sys
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

from routing.features import LETTERS, Reading, read
from routing.lexicon import translated

# Letters in runs, digits in runs, Chinese and kana and hangul in runs, and signs one by one.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_TOKEN = re.compile(rf"[^\W\d_{_CJK}]+|\d+|[{_CJK}]+|[=^$\\{{}}<>?%+*|`]")
_DENSE = re.compile("[\u3040-\ufaff]")
# Of a long text these characters are read: what is asked for stands at its beginning or its end. Chinese says as much in fewer.
BEGINNING = 1000
END = 1500
DENSE = 600
# And of its words so many, when they are short or signs: what a text costs is bounded.
FIRST = 130
LAST = 200
SAMPLED = 16  # of so many characters one is looked at, to tell what is dense
_PAIR = 0x9E3779B1
_NUMBERS = frozenset({b"#1", b"#2", b"#3", b"#4"})
_NUMBER_HASHES = frozenset(map(crc32, _NUMBERS))
_SIGNS = b"=^$\\{}<>?%+*|`"
# Of an ASCII text in small letters: letters and signs are themselves, every digit is a 0, and what is no word is space.
_SPACED = bytes(byte if byte in LETTERS + _SIGNS else ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
_LETTERS_AND_SPACE = LETTERS + b" "
_LONG_NUMBER = re.compile(b"0{4,}")
_SILENT = frozenset({b"a", b"an", b"the"})  # without a counterpart in Chinese
_SILENT_TEXT = frozenset(map(bytes.decode, _SILENT))

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


_PLACES = {name: place for place, name in enumerate(AMOUNTS)}


@dataclass(slots=True)
class Grams:
    """A text's words in order (UTF-8), the hashes of these and then of their pairs (32 bits each, little end first), which are
    different, and its amounts (0-1) that are not 0, each behind its place in AMOUNTS. Of a text that is gone, `ids` and `told`.
    """

    words: list[bytes]
    packed: bytes
    ids: Collection[int]
    told: Sequence[tuple[int, float]]
    reading: Reading

    @property
    def hashed(self) -> list[int]:
        return [*_unpacked(self.packed)]

    @property
    def amounts(self) -> list[float]:
        amounts = [0.0] * len(AMOUNTS)
        for place, amount in self.told:
            amounts[place] = amount
        return amounts

    def in_order(self) -> Collection[int]:
        """The ids as they come in the text, where it is still there."""
        return dict.fromkeys(self.hashed) or self.ids

    def name(self, gram: int) -> str:
        """The word or pair that a hash stands for in this text, which has it, in quotation marks: it is no feature."""
        wanted = gram.to_bytes(4, "little")
        found = self.packed.index(wanted)  # a third of what it takes to compare numbers
        while found % 4:
            found = self.packed.index(wanted, found + 1)
        words, place = self.words, found // 4
        if place < len(words):
            return f'"{words[place].decode()}"'
        place -= len(words)
        return f'"{words[place].decode()} {words[place + 1].decode()}"'


def shortened(text: str) -> str:
    """What is read of a text: of a long one, its beginning and its end."""
    if len(text) <= DENSE:
        return text
    if not text.isascii() and SAMPLED * len(_DENSE.findall(text[::SAMPLED])) > DENSE:
        return f"{text[: DENSE // 3]}\n{text[-2 * DENSE // 3 :]}"
    return text if len(text) <= BEGINNING + END else f"{text[:BEGINNING]}\n{text[-END:]}"


def words_of(lower: str) -> list[bytes]:
    """The words of a text in small letters, in order."""
    if lower.isascii():
        return _ascii_words(lower.encode("ascii"))
    words: list[str] = []
    for word in _TOKEN.findall(lower):
        if "\u3040" <= word[0] <= "\ufaff":
            words.extend(translated(word))
        elif word not in _SILENT_TEXT:
            words.append(_worded(word))
    return " ".join(words).encode("utf-8", "replace").split(b" ") if words else []


def _ascii_words(lower: bytes) -> list[bytes]:
    """A text is cut without a pattern, which takes a third of the time."""
    spaced = b" %b " % lower.translate(_SPACED)
    for sign in {*spaced.translate(None, _LETTERS_AND_SPACE)}:
        spaced = _numbered(spaced) if sign == ord("0") else spaced.replace(b"%c" % sign, b" %c " % sign)
    # Most of what is silent goes before there are words: that takes half of the time.
    words = spaced.replace(b" the ", b" ").replace(b" a ", b" ").replace(b" an ", b" ").split()
    return words if _SILENT.isdisjoint(words) else [word for word in words if word not in _SILENT]


def _numbered(spaced: bytes) -> bytes:
    """Numbers, whose digits are all 0, become words."""
    if b"0000" in spaced:
        spaced = _LONG_NUMBER.sub(b" #4 ", spaced)
    return spaced.replace(b"000", b" #3 ").replace(b"00", b" #2 ").replace(b"0", b" #1 ")


def _worded(word: str) -> str:
    return f"#{min(len(word), 4)}" if word[0] <= "9" and word.isdecimal() else word


def pairs(packed: bytes) -> bytes:
    """The hash of each word with the one before it, of packed ones: `(before * _PAIR ^ after) & 0xFFFFFFFF`.

    All of them at once, as one number of which every other word has 64 bits, where no product reaches its neighbour.
    """
    size = len(packed) - 4
    if size < 4:
        return b""
    words, low = int.from_bytes(packed, "little"), _low_halves(size)
    even, odd = (words & low) * _PAIR & low, (words >> 32 & low) * _PAIR & low
    return ((even | odd << 32) ^ words >> 32).to_bytes(size + 8, "little")[:size]


@lru_cache(FIRST + LAST)
def _low_halves(size: int) -> int:
    """The lower half of every 64 bits, for so many bytes."""
    return int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * (size // 8 + 1), "little")


def _packed(hashed: Sequence[int]) -> bytes:
    return _little(array("I", hashed)).tobytes()


def _unpacked(packed: bytes) -> array[int]:
    return _little(array("I", packed))


def _little(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def grams_of(text: str) -> Grams:
    """Reads a text of bounded length."""
    text = shortened(text)
    words = whole = words_of(text.lower())
    if len(words) > FIRST + LAST:
        words = words[:FIRST] + words[-LAST:]
    hashed = list(map(crc32, words))
    packed = _packed(hashed)
    paired = pairs(packed)
    ids, reading = {*hashed, *_unpacked(paired)}, read(text, whole)
    numbers = 0 if _NUMBER_HASHES.isdisjoint(ids) else sum(map(_NUMBERS.__contains__, words))
    return Grams(words, packed + paired, ids, _told(len(words), numbers, reading), reading)


def _told(size: int, numbers: int, reading: Reading) -> list[tuple[int, float]]:
    values = reading.values
    values["length"] = min(1.0, math.log2(1 + size) / 10)
    values["brevity"] = 1.0 / (1.0 + size / 8)
    values["digits"] = min(1.0, 5 * numbers / (size + 5))
    return sorted([(_PLACES[name], amount) for name, amount in values.items() if amount])
