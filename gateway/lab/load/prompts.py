"""Synthetic prompts of a wanted length.

They are made of short common words, four bytes each with their space: a token each for tokenizers of today, and exactly so
for fake-vllm. What a real tokenizer and chat template make of them is in the answers' usage, which is reported. Each prompt
begins with 16 bytes that no other one has, so that no cache knows it, unless a prefix is shared on purpose.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from gateway.lab.load.arrivals import Arrival
from gateway.lab.load.traces import BLOCK

MAX_TOKENS = 2_000_000
MARK_TOKENS = 4  # what the beginning that tells prompts apart takes

TOKEN_BYTES = 4  # three letters and a space
RING = 4_096  # words until they begin again

_WORDS = (
    "and ask big bit box boy bus but buy can car cat cup cut day did dog dry ear eat egg end eye far few fit fly for fun get "
    "got had has her him his hot how ice ink its job joy key law lay leg let low man map may mix new not now odd off oil old "
    "one our out own pay pen put ran red row run sad sat saw say sea see set she sit six sky son sun tax tea ten the tie too "
    "top toy try two use van war was way wet who why win yes yet you zoo"
)
_TEXT = " ".join(random.Random(1).choices(_WORDS.split(), k=RING)) + " "


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of lengths: `512`, `uniform:100:800`, `lognormal:MEDIAN:SIGMA` and, to cut its tail, `:MAX`."""

    text: str
    draw: Callable[[random.Random], int]

    @classmethod
    def parse(cls, text: str) -> Lengths:
        kind, *figures = text.split(":") if ":" in text else ("fixed", text)
        try:
            numbers = [float(figure) for figure in figures]
        except ValueError:
            numbers = []
        match kind, numbers:
            case "fixed", [value]:
                return cls(text, _fixed(_whole(value)))
            case "uniform", [low, high] if low <= high:
                return cls(text, _uniform(_whole(low), _whole(high)))
            case "lognormal", [median, sigma] if 0 <= sigma <= 5:
                return cls(text, _lognormal(_whole(median), sigma, MAX_TOKENS))
            case "lognormal", [median, sigma, most] if 0 <= sigma <= 5:
                return cls(text, _lognormal(_whole(median), sigma, _whole(most)))
        raise ValueError(f"{text!r} is no length: write 512, uniform:100:800 or lognormal:512:0.8:4096 (median, sigma, most)")


@dataclass(frozen=True, slots=True)
class Prefixes:
    """`groups` texts of `tokens` each, shared by the requests of a group, as system prompts are."""

    groups: int = 0
    tokens: int = 0


class Prompts:
    """`salt`: up to six characters that set this run's prompts apart from another's."""

    def __init__(self, lengths: Lengths, prefixes: Prefixes, salt: str, rng: random.Random) -> None:
        self._lengths = lengths
        self._prefixes = prefixes
        self._salt = salt
        self._rng = rng
        self._number = 0

    def next(self, arrival: Arrival) -> tuple[str, str]:
        """The shared prefix, or nothing, and the prompt."""
        self._number += 1
        if arrival.blocks:
            return "", self._of_blocks(arrival)
        tokens = arrival.prompt_tokens or self._lengths.draw(self._rng)
        prefix = self._prefix(self._rng.randrange(self._prefixes.groups)) if self._prefixes.groups else ""
        return prefix, self._marked("-", self._number, tokens, self._rng.randrange(RING))

    def _prefix(self, group: int) -> str:
        return self._marked("p", group, self._prefixes.tokens, group)

    def _of_blocks(self, arrival: Arrival) -> str:
        """Equal blocks are equal text, so that requests share prefixes as those of the trace did."""
        blocks = arrival.blocks
        tokens = arrival.prompt_tokens or len(blocks) * BLOCK
        text = "".join(self._marked("b", block % 16**8, BLOCK, block) for block in blocks)
        return text[: tokens * TOKEN_BYTES]

    def _marked(self, kind: str, number: int, tokens: int, start: int) -> str:
        return f"{self._salt:>6}{kind}{number:08x} " + words(start, tokens - MARK_TOKENS)


def words(start: int, count: int) -> str:
    """`count` words from place `start` of a long list that begins again at its end."""
    begin = start % RING * TOKEN_BYTES
    end = begin + max(0, count) * TOKEN_BYTES
    return (_TEXT * -(-end // len(_TEXT)))[begin:end]


def _whole(value: float) -> int:
    if not 1 <= value <= MAX_TOKENS or value != int(value):
        raise ValueError(f"a length is a whole number from 1 to {MAX_TOKENS:,}, not {value:g}")
    return int(value)


def _fixed(value: int) -> Callable[[random.Random], int]:
    return lambda _: value


def _uniform(low: int, high: int) -> Callable[[random.Random], int]:
    return lambda rng: rng.randint(low, high)


def _lognormal(median: int, sigma: float, most: int) -> Callable[[random.Random], int]:
    return lambda rng: max(1, min(most, round(median * rng.lognormvariate(0, sigma))))
