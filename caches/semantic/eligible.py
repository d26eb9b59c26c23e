"""Which questions may be looked up by meaning at all: a look at the text, before anything is embedded.

    empty      nothing to compare
    long       longer than any embedder that is meant for questions reads
    time       its answer depends on when it is asked: today, the latest, 现在
    varied     its answer is meant to be another one each time: a joke, a poem, "another", "random"
    context    it points at what is not in it: "this one", "the above", "continue"
    language   in Latin letters, but nothing says that it is English: the guards read English and Chinese
    personal   it is about whoever asks: my, we, I am, I bought, 我, an address, a telephone number, the number of an account;
               only where the policy says so. `I` and `me` are anybody where a method is asked for: how do I, show me

Every check is a word in a set or one compiled expression over a bounded text.
"""

from __future__ import annotations

import re

from caches.semantic.words import (
    CHANCE,
    CONTEXT,
    CONTEXT_ALONE,
    CREATIVE,
    ENGLISH,
    MAKING,
    OWN,
    POLITE,
    SELF,
    TIME,
    TIME_HAN,
    TIMELESS,
    VARIED,
    VARIED_HAN,
)

MAX_CHARS = 8000
_FEWEST_LETTERS = 2
_FEW_WORDS = 4  # fewer may be a command, a name, anything
_BEGINNING = 6  # words
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_WHAT_NOW = re.compile(r"\bwhat now\b")
_PERIOD = re.compile(
    r"\b(?:this|last|next|past|coming|previous) (?:week|month|year|quarter|season|weekend|morning|evening|night)\b"
)
_OF_THE_MOMENT = re.compile(
    r"\b(?:weather (?:in|like|at|for|forecast)|(?:the|is|what's) weather|is it (?:raining|snowing|sunny|cold|hot|warm)|raining in"
    r"|exchange rate|(?:stock|share) price|price of (?:bitcoin|ethereum|gold|silver|oil)|\w+ stock (?:doing|worth|at)"
    r"|what (?:day|date|time) is it|is the [\w ]{1,20} (?:open|closed|shipped|down)(?=\W*$)"
    r"|(?:order|parcel|package) (?:shipped|arrived)"
    r"|delays on|(?:score|standings) (?:of|in|for)|(?:game|match|\w+) score\b|who is (?:leading|winning|top of)|leads the)"
)
_OF_CHANCE = re.compile(
    r"\b(?:(?:flip|toss) a coin|(?:roll|throw) (?:a|the|two|three|some|\d+) (?:dice|die)|(?:word|quote|thought|fact) of the day"
    r"|something (?:interesting|funny|new|fun|cool|random)|tarot|lottery numbers"
    r"|shuffle (?:the|these|this|my) (?:letters|words|names|cards|deck)"
    r"|(?:pick|choose|draw) (?:a|any|one|some) (?:card|number|color|colour|letter|word|name))\b"
)
_DIGIT = re.compile(r"\d")
_HAN = re.compile("[\u3400-\u9fff]")
_TIME_HAN = re.compile("|".join(sorted(TIME_HAN)))
_VARIED_HAN = re.compile("|".join(sorted(VARIED_HAN)))
_SELF = re.compile(
    r"\bi (?:am|was|have (?!to\b)|had|live|work|feel|felt|got|took|bought|lost|ordered|paid|signed|earn|own|owe|weigh|said)\b"
    r"|\b(?:call|calls|called|email|text|about|against|near) me\b"
)
_NUMBERED = re.compile(
    r"\b(?:account|card|order|policy|customer)\b\D{0,12}\d{4}|\b\d{1,5} \w{1,30} (?:street|road|avenue|lane|drive|square)\b"
)
_PERSON_HAN = re.compile("我|咱|本人")
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}\.\w|(?<!\d)\+?\d(?:[ ().-]{0,2}\d){8,14}(?!\d)")


def refusal(text: str, *, personal: bool = False) -> str | None:
    """Why the question is not looked up; None: it may be. `personal`: questions about whoever asks are refused too."""
    if len(text) > MAX_CHARS:
        return "long"
    folded = text.lower().replace("’", "'")
    if "what now" in folded:
        folded = _WHAT_NOW.sub(" ", folded)  # what to do, and not what is the case
    words = _WORD.findall(folded)
    han = None if text.isascii() else _HAN.search(text)
    if not words and han is None and sum(map(str.isalnum, text)) < _FEWEST_LETTERS:
        return "empty"
    known = frozenset(words)
    if han is None and len(words) >= _FEW_WORDS and ENGLISH.isdisjoint(known):
        return "language"
    if _timely(folded, known) or (han and _TIME_HAN.search(text)):
        return "time"
    if _varied(folded, words, known) or (han and _VARIED_HAN.search(text)):
        return "varied"
    if not CONTEXT.isdisjoint(known) or (words and han is None and not _DIGIT.search(folded) and CONTEXT_ALONE.issuperset(known)):
        return "context"
    return "personal" if personal and _personal(text, folded, known) else None


def _personal(text: str, folded: str, known: frozenset[str]) -> bool:
    if not OWN.isdisjoint(known) or (not SELF.isdisjoint(known) and _SELF.search(folded)):
        return True
    if ("@" in text or _DIGIT.search(folded)) and (_ADDRESS.search(text) or _NUMBERED.search(folded)):
        return True
    return not text.isascii() and _PERSON_HAN.search(text) is not None


def _timely(folded: str, known: frozenset[str]) -> bool:
    if _PERIOD.search(folded):
        return True
    if not TIME.isdisjoint(known):
        return not any(phrase in folded for phrase in TIMELESS)
    return _OF_THE_MOMENT.search(folded) is not None


def _varied(folded: str, words: list[str], known: frozenset[str]) -> bool:
    """Asked to make something up: `write me a poem`, and not `who wrote this poem`; a password, and not how to make one."""
    if not VARIED.isdisjoint(known) or (not CREATIVE.isdisjoint(known) and not MAKING.isdisjoint(words[:_BEGINNING])):
        return True
    if not CHANCE.isdisjoint(known) and next((word for word in words if word not in POLITE), "") in MAKING:
        return True
    return _OF_CHANCE.search(folded) is not None
