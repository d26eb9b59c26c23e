"""From tokens to words: folded, contractions spelt out, manners dropped at both ends, turns of phrase made one."""

from __future__ import annotations

from dataclasses import dataclass, field

from caches.guards.scan import tokens
from caches.guards.tables.calendar import CAPITAL_DATES
from caches.guards.tables.english import CLOSINGS, CONTRACTIONS, OPENINGS, SPEECH, THANKS, WITH_THANKS
from caches.guards.tables.names import KNOWN, SHORT_TOOLS
from caches.guards.tables.phrases import PHRASES

_MANNERS = CLOSINGS | THANKS | WITH_THANKS
_OPERATORS = frozenset("+*=<>^|")


@dataclass(slots=True)
class Words:
    """What a pass over the tokens found. Only made and read while a Reading is built."""

    line: list[str] = field(default_factory=list)
    capitals: set[str] = field(default_factory=set)  # words with a capital that no sentence's beginning explains
    identifiers: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    signs: list[str] = field(default_factory=list)
    han: list[str] = field(default_factory=list)
    lower: int = 0  # words within a sentence that begin with a small letter


def read(text: str) -> Words:
    found = Words()
    fresh = True  # at the beginning of a sentence
    sentence = last = 0  # where the last one that says anything begins
    for kind, piece in tokens(text):
        sentence = last
        if kind == "word":
            _word(found, piece, fresh)
            fresh = False
        elif kind == "number":
            found.line.append(piece.rstrip(",").lower().removeprefix("v"))
            fresh = False
        elif kind == "end":
            fresh = True
            last = len(found.line)
        elif kind == "sign":
            found.signs.append(piece)
        elif kind == "han":
            found.han.append(piece)
            found.line.append(piece)
        elif kind == "flag":
            found.identifiers.add(piece)
            found.line.append(piece.lstrip("-").lower())
        else:
            found.links.append(piece.rstrip(".,)!?"))
    if len(found.capitals) > found.lower:  # Every Word Has One, or NONE HAS NOT: they tell nothing
        found.capitals.clear()
    if _OPERATORS.isdisjoint(found.signs):
        found.signs.clear()
    found.line = phrased(_bare(found.line, sentence))
    return found


def _word(found: Words, piece: str, fresh: bool) -> None:
    word = "usa" if piece == "US" else piece.lower()
    if "'" in piece or "’" in piece:
        word = word.replace("’", "'")
        known = CONTRACTIONS.get(word)
        if known is None:
            word, _, ending = word.partition("'")
            known = (word[:-1], "not") if ending == "t" and word.endswith("n") and len(word) > 1 else (word,)
        found.line.extend(known)
        word = known[0]
    elif word in CONTRACTIONS and not (len(piece) == 1 and piece.isupper()):
        found.line.extend(CONTRACTIONS[word])
        return
    else:
        _plain(found, piece, word)
        word = found.line[-1]
    if piece[0] >= "a":
        found.lower += not fresh
    elif (not fresh or (len(piece) > 1 and piece.isupper())) and word != "i":
        found.capitals.add(CAPITAL_DATES.get(piece, word))


def _plain(found: Words, piece: str, word: str) -> None:
    if "." in word or "_" in word or word.endswith("()"):
        if word in KNOWN:
            found.line.append(word)
        elif all(len(part) == 1 for part in word.split(".")):
            short = word.replace(".", "")
            found.line.append("usa" if short == "us" else short)  # U.S.
        else:
            parts = [part for part in word.removesuffix("()").replace(".", "_").split("_") if part]
            found.identifiers.add(word.removesuffix("()"))
            found.line.extend(parts or [word])
        return
    if (
        piece in SHORT_TOOLS
        or (len(piece) == 1 and piece.isupper() and piece not in "AI")
        or (not word.isalpha() and word not in KNOWN)
    ):
        found.identifiers.add(word)
    if piece in CAPITAL_DATES:
        word = CAPITAL_DATES[piece]
    found.line.append(word)


def _bare(line: list[str], sentence: int) -> list[str]:
    """Without greetings and thanks."""
    start = 0
    while start < len(line) - 1 and line[start] in OPENINGS:
        start += 1
    if start < len(line) - 2 and line[start] == "good" and line[start + 1] in OPENINGS:
        start += 2
    if start < len(line) - 2 and line[start] == "no" and "not" in line:
        start += 1  # the beginning of an answer
    return line[start : max(_close(line, start + 2, sentence), start)]


def _close(line: list[str], least: int, sentence: int) -> int:
    """Where the thanks begin."""
    end = len(line)
    if not SPEECH.isdisjoint(line):  # words are what is asked about: only a sentence of its own is thanks
        return sentence if _MANNERS.issuperset(line[sentence:]) else end
    while end > least:
        at = end
        while at > least and line[at - 1] in WITH_THANKS:
            at -= 1
        if line[at - 1] in THANKS:
            end = at - 1
        elif line[end - 1] in CLOSINGS:
            end -= 1
        else:
            break
    return max(end, min(least, len(line)))


def phrased(line: list[str]) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(line):
        entries = PHRASES.get(line[at])
        if entries is not None:
            for said, meant in entries:
                if line[at] == said[0] and tuple(line[at : at + len(said)]) == said:
                    out.extend(meant)
                    at += len(said)
                    break
            else:
                out.append(line[at])
                at += 1
        else:
            out.append(line[at])
            at += 1
    return out
