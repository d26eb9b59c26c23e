"""What can be seen in a text without understanding it: how much of each feature, from 0 to 1.

Rules
- A feature saturates: after a few different words there is no more to gain, and the same word counts once.
- Words that say what to do count where instructions stand, at the beginning and the end (LEAD characters of each); words that say
  what it is about count everywhere.
- A feature is a matter of one pass at most: word sets and counts, no pattern with alternatives over a long text.
- `known` is False for a text in a language or script that the word lists do not cover: its silence means nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Set
from dataclasses import dataclass

from routing.lexicon import CHORES, CREATIVE, ENGLISH, KNOWN, PHRASES, TRIGGERS, WORDS, ZH_FIRST, ZH_WORDS

LEAD = 350
SHORT = 160  # units: an ask this short may be a mere question of fact

_LEAD_ONLY = frozenset({"work", "chore", "creative", "brief", "lookup", "lookup_weak", "reasoning", "format", "proof"})

_WORD = re.compile(r"[a-z][a-z-]*")
_NUMBER = re.compile(r"\d+")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]+")
_OTHER_SCRIPT = re.compile(r"[\u0370-\u1dff\u2c00-\u2dff\u3040-\u30ff\u3130-\u318f\uac00-\ud7ff\ua640-\uabff]+")
_LATEX = re.compile(r"\\(?:[a-zA-Z]{2,12}|[\[(])")
_EQUATION = re.compile(r"=(?:(?<=[^a-z][a-z]=)|(?<=[^a-z][a-z] =)) ?[-\d(a-z]")
_ITEM = re.compile(r"\n[ \t]{0,16}(?:[-*•]|\d{1,2}[.)、]|[一二三四五六七八九]、)")
_OPTION = re.compile(r"\n[ \t]{0,8}\(?[a-jA-J][.):]")
_ARITHMETIC = re.compile(
    r"(?:what(?:'s| is)|calculate|compute|solve|how much is|请?计算(?:一下)?|算一下|求)?[\s:：]*"
    r"[-(]*\d[\d\s.,+\-*/×÷x^%()加减乘除以]{1,60}(?:等于(?:多少|几)?|是多少|=)?\s*[?？=.。]*",
)
_CHORE = re.compile(
    r"(?:^|[.!?:\n]\s{0,4}|please |can you |could you |would you |help me |just |and |then |now |q: )(?:to )?(?:" + "|".join(sorted(CHORES)) + r")\b",
)
_WRITE = re.compile(
    r"\b(?:write|compose|tell|draft|create|give|make|generate|suggest|need|want|come up with)\b[^.!?\n]{0,60}\b(?:" + "|".join(sorted(CREATIVE)) + r")\b",
)
_FACT = re.compile(
    r"(?:please |hi,? |q: )?(?:who(?:'s|se)?|when|where|how (?:old|tall|far|high|big|deep)|define"
    r"|(?:what|who)(?:'s| is| was) the (?:name|capital|population|meaning|currency|definition|symbol)"
    r"|(?:in |on )?(?:what|which) (?:year|country|city|planet|river|team|film|movie|book|band|day|colou?r|state|ocean|continent|animal|element)"
    r"|what (?:does|is) [^?]{1,40} (?:mean|stand for|called))\b",
)
_FACT_INSIDE = re.compile(r"\b(?:who (?:is|was|plays?|played|sings?|sang|wrote|won|has|did)|(?:what|which) year|capital of|meaning of)\b")
_WHAT = re.compile(r"(?:please |hi,? |q: )?(?:what(?:'s| is| are| was| were| does| did)|name (?:a|an|the|one))\b")
_PLEASANTRY = re.compile(
    r"(?:(?:hi|hello|hey|howdy|thanks|thank you|thx|ty|cheers|bye|goodbye|good (?:morning|afternoon|evening|night|day)|how are you"
    r"|ok|so much|very much|a lot|again|there|everyone|all|today|doing|你好|您好|嗨|早上好|晚上好|早安|晚安|谢谢|多谢|感谢|謝謝|再见"
    r"|你|您|好的|啊|了|吗|在吗|在嗎)[\s,.!?~，。！？～]*)+",
)
_NICE = re.compile(r"hi|hello|hey|howdy|thank|thx|ty|cheers|bye|good|how|你好|您好|嗨|早|晚|谢|多谢|感|謝|再见|在吗|在嗎")
_CODE_MARKS = ("```", "def ", "class ", "return ", "import ", "#include", "SELECT ", "function(", "=> {", "();", "public ", "</", "==", ">>>")
_TRACES = ("Traceback (most recent", '\n  File "', "\n    at ", "Exception in thread", "panic:", "error[E", "Segmentation fault", "npm ERR!")
_SYMBOLS = frozenset("∑∫∏√≤≥≠≈∀∃∈∉⊂⊆∪∩→⇒⇔∂∇∞±π")


@dataclass(frozen=True, slots=True)
class Reading:
    """The features of one text. `units` is its length, a Chinese character counting as two."""

    values: dict[str, float]
    units: int
    words: int
    known: bool


def read(text: str) -> Reading:
    """The features of a text of bounded length."""
    lower = text.lower()
    words = set(_WORD.findall(lower))
    characters: Set[str] = frozenset() if text.isascii() else set(lower)
    han, known = _script(text, characters)
    units = len(text) + han
    lead = lower if len(lower) <= 2 * LEAD else lower[:LEAD] + "\n" + lower[-LEAD:]
    lead_words = words if lead is lower else set(_WORD.findall(lead))
    tally: dict[str, int] = {}
    _count_english(words, lead_words, lead, tally)
    _count_instructions(lead, lead_words, tally)
    if han:
        _count_chinese(lower, lead, characters, tally)
    values = _saturated(tally)
    _add_shape(text, lower, units, characters, tally, values)
    _add_simple(lower, units, tally, values)
    if "chore" in values:
        values["chore"] *= 1.0 - max(values.get("maths", 0.0), values.get("coding", 0.0) if han else 0.0)
    if han * 4 < len(words) * 5 and len(words) >= 8 and len(words & ENGLISH) < 2 and "code" not in values and "maths" not in values:
        known = False
    return Reading(values, units, len(words) + han // 2, known)


def _script(text: str, characters: Set[str]) -> tuple[int, bool]:
    """The number of Chinese characters, and whether enough of the text is in a script that is listened for."""
    alphabet = "".join(characters)
    han = sum(map(len, _HAN.findall(text))) if _HAN.search(alphabet) else 0
    other = sum(map(len, _OTHER_SCRIPT.findall(text))) if _OTHER_SCRIPT.search(alphabet) else 0
    return han, other * 7 < len(text)


def _count_english(words: set[str], lead_words: set[str], lead: str, tally: dict[str, int]) -> None:
    for word in words & KNOWN:
        kind = WORDS[word]
        if kind not in _LEAD_ONLY or word in lead_words:
            tally[kind] = tally.get(kind, 0) + 1
    for trigger in lead_words & TRIGGERS:
        for phrase, kind in PHRASES[trigger]:
            if phrase in lead:
                tally[kind] = tally.get(kind, 0) + 1


def _count_instructions(lead: str, lead_words: set[str], tally: dict[str, int]) -> None:
    if not CHORES.isdisjoint(lead_words) and _CHORE.search(lead):
        tally["chore"] = tally.get("chore", 0) + 1
    if not CREATIVE.isdisjoint(lead_words) and _WRITE.search(lead):
        tally["creative"] = tally.get("creative", 0) + 1


def _count_chinese(text: str, lead: str, characters: Set[str], tally: dict[str, int]) -> None:
    for first in ZH_FIRST & characters:
        for word, kind in ZH_WORDS[first]:
            if word in (lead if kind in _LEAD_ONLY else text):
                tally[kind] = tally.get(kind, 0) + 1


_NOT_PLAIN = frozenset({"proof", "maths", "quantities", "code", "reasoning"})

# How many different words it takes for a feature to be all there; less counts in proportion.
_ENOUGH = {"proof": 1, "reasoning": 1, "work": 2, "coding": 1, "constraint": 5, "chore": 1, "creative": 1, "format": 2, "brief": 1}


def _saturated(tally: dict[str, int]) -> dict[str, float]:
    values = {kind: min(1.0, tally[kind] / enough) for kind, enough in _ENOUGH.items() if kind in tally}
    field = min(tally.get("field", 0), 6)
    learned = tally.get("domain", 0) + max(0, field - 1) / 4
    if learned:
        values["domain"] = min(1.0, learned / 2)
    return values


def _add_shape(text: str, lower: str, units: int, characters: Set[str], tally: dict[str, int], values: dict[str, float]) -> None:
    values["length"] = min(1.0, max(0.0, math.log2(max(units, 1) / 80) / 6))
    marks = sum(mark in text for mark in _CODE_MARKS)
    if marks >= 2 or "```" in text:
        values["code"] = min(1.0, marks / 3 + 0.34)
    if any(trace in text for trace in _TRACES):
        values["trace"] = 1.0
    maths = _maths(text, lower, characters) + min(2, tally.get("sums", 0))
    if maths:
        values["maths"] = min(1.0, maths / 3)
    if "\n" in text:
        _add_lists(text, values)
    elif "(B)" in text and "(C)" in text:
        values["options"] = 1.0
    questions = text.count("?") + text.count("？")
    if questions > 1:
        values["questions"] = min(1.0, (questions - 1) / 3)
    _add_quantities(lower, values)


def _maths(text: str, lower: str, characters: Set[str]) -> int:
    found = 0
    if "\\" in text:
        found += min(3, len(_LATEX.findall(text)))
    if "=" in text:
        found += min(2, len(_EQUATION.findall(lower)))
    found += min(2, text.count("^"))
    return found + min(2, len(_SYMBOLS & characters))


def _add_lists(text: str, values: dict[str, float]) -> None:
    if len(_OPTION.findall(text)) >= 3:
        values["options"] = 1.0
    items = len(_ITEM.findall("\n" + text))
    if items >= 2:
        values["steps"] = min(1.0, items / 6)


_AMOUNTS = ("how many", "how much", "how long", "how far", "total", "average", "altogether", "percent", "%", "多少", "几", "一共", "平均")


def _add_quantities(lower: str, values: dict[str, float]) -> None:
    """Several numbers and a question of how much: a problem in words."""
    if len(lower) > 30 and any(amount in lower for amount in _AMOUNTS):
        numbers = len(_NUMBER.findall(lower[:2000]))
        if numbers >= 2:
            values["quantities"] = min(1.0, numbers / 3)


def _add_simple(lower: str, units: int, tally: dict[str, int], values: dict[str, float]) -> None:
    """The signs of an easy request. A question of fact only counts while nothing hard is about."""
    if units < 80 and _ARITHMETIC.fullmatch(lower):
        values["arithmetic"] = 1.0
    elif units < 60 and _NICE.match(lower) and _PLEASANTRY.fullmatch(lower):
        values["pleasantry"] = 1.0
    elif units <= SHORT and "options" not in values and len(_NUMBER.findall(lower)) < 2:
        fact = 1.0 if _FACT.match(lower) or _FACT_INSIDE.search(lower) or "lookup" in tally else 0.0
        if not fact and (_WHAT.match(lower) or "lookup_weak" in tally):
            fact = 0.6
        fact -= max(values.get("domain", 0.0), values.get("work", 0.0))
        if fact > 0 and values.keys().isdisjoint(_NOT_PLAIN):
            values["lookup"] = fact


def strongest(values: Iterable[tuple[str, float]], count: int) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(values, key=lambda term: -abs(term[1]))[:count])
