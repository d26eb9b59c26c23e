"""How a text is cut for a replay: several pieces, between characters, or where its tokens end.

Not in front of a mark or a joiner that belongs to the character before.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

_MOST_PIECES = 64  # of one text: enough to look alive, few enough to cost little
_SHORTEST_PIECE = 8  # characters, about two tokens
_LONGEST_CLUSTER = 32  # characters that are kept together at most, whatever they are
_JOINER = "\u200d"
_STICKS = frozenset({_JOINER, "\ufe0e", "\ufe0f", *map(chr, range(0x1F3FB, 0x1F400))})  # variation selectors, skin tones


def cut(text: str) -> Iterator[str]:
    size, start, ascii_only = _piece_size(text), 0, text.isascii()
    while start < len(text):
        stop = start + size
        if not ascii_only:
            limit = min(len(text), stop + _LONGEST_CLUSTER)
            while stop < limit and _belongs_before(text, stop):
                stop += 1
        yield text[start:stop]
        start = stop


def cut_at(text: str, tokens: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Pieces of a text that its tokens make up, each with the numbers of its first token and of the one behind its last."""
    size, start, piece = _piece_size(text), 0, ""
    for stop, token in enumerate(tokens, 1):
        piece += token
        if len(piece) >= size or stop == len(tokens):
            yield piece, start, stop
            start, piece = stop, ""


def tokens_of(text: str, entries: Any) -> list[str]:
    """The text of each token, of objects with a `token` or of a plain list; none unless they make up the text."""
    if type(entries) is not list:
        return []
    told = (entry.get("token") if type(entry) is dict else entry for entry in entries)
    tokens = [token for token in told if type(token) is str]
    return tokens if len(tokens) == len(entries) and "".join(tokens) == text else []


def _piece_size(text: str) -> int:
    return max(_SHORTEST_PIECE, -(-len(text) // _MOST_PIECES))


def _belongs_before(text: str, at: int) -> bool:
    """Whether the character at a place goes with the one before it."""
    character = text[at]
    return character in _STICKS or text[at - 1] == _JOINER or unicodedata.category(character).startswith("M")
