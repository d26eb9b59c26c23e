"""What the form of a text gives away: code, formulas, lists, word problems, and the forms of easy requests.

Rules
- Each function takes text of bounded length and is linear in it; patterns begin with a literal or run on short texts only.
- Amounts are counts; what is enough of them is said in `features`.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from routing.words_en import CHORES, CREATIVE, WRITING

_NUMBER = re.compile(r"\d+")
_DIGITS = bytes(byte if chr(byte) in "0123456789" else ord(" ") for byte in range(256))  # all else is space
_LATEX = re.compile(r"\\(?:[a-zA-Z]{2,12}|[\[(])")
_EQUATION = re.compile(r"=(?:(?<=[^a-z][a-z]=)|(?<=[^a-z][a-z] =)) ?[-\d(a-z]")
_ITEM = re.compile(r"\n[ \t]{0,16}(?:[-*•]|\d{1,2}[.)、]|[一二三四五六七八九]、)")
_OPTION = re.compile(r"\n[ \t]{0,8}\(?[a-jA-J][.):]")
_SYMBOLS = frozenset("∑∫∏√≤≥≠≈∀∃∈∉⊂⊆∪∩→⇒⇔∂∇∞±π")
# Marks to be looked for, under the rarest character or piece that they have in common: where it is absent, so are they.
_Marks = tuple[tuple[str, tuple[str, ...]], ...]
_AMOUNTS: _Marks = (
    ("%", ("%",)),
    ("how ", ("how many", "how much", "how long", "how far")),
    ("total", ("total",)),
    ("average", ("average",)),
    ("altogether", ("altogether",)),
    ("percent", ("percent",)),
)
_AMOUNTS_ZH: _Marks = (
    ("几", ("几",)),
    ("多少", ("多少",)),
    ("一共", ("一共",)),
    ("平均", ("平均",)),
)

_ARITHMETIC = re.compile(
    r"(?:what(?:'s| is)|calculate|compute|solve|how much is|请?计算(?:一下)?|算一下|求)?[\s:：]*"
    r"[-(]*\d[\d\s.,+\-*/×÷x^%()加减乘除以]{1,60}(?:等于(?:多少|几)?|是多少|=)?\s*[?？=.。]*",
)
_PLEASANTRY = re.compile(
    r"(?:(?:hi|hello|hey|hiya|howdy|thanks|thank you|thx|ty|cheers|bye|goodbye|good (?:morning|afternoon|evening|night|day)"
    r"|how are you|ok|so much|very much|a lot|again|there|everyone|all|today|doing|for (?:all )?(?:your|the) help"
    r"|你好|您好|嗨|哈喽|哈囉|早|早上好|晚上好|早安|晚安|谢谢|多谢|(?:非常|十分)?感[谢謝]|謝謝|再见|再見|你|您|的帮助|的幫助|好的|啊|了|吗|在吗|在嗎)"
    r"[\s,.!?~，。！？～:()\u2600-\u27bf\ufe0f\U0001f300-\U0001faff]*)+",
)
_NICE = re.compile(
    r"hi|hello|hey|howdy|thank|thx|ty|cheers|bye|good|how|你好|您好|嗨|哈喽|哈囉|早|晚|谢|多谢|(?:非常|十分)?感[谢謝]|謝|再见|再見|在吗|在嗎"
)
# After these an instruction begins, "to" between them or not.
_ASKING = ("please ", "can you ", "could you ", "would you ", "help me ", "just ", "and ", "then ", "now ")
_STOP = re.compile(r"[.!?:\n]\s{0,4}\Z")
_LONGEST_ASKING = 16
_WRITE = re.compile(
    r"\b(?:write|compose|tell|draft|create|give|make|generate|suggest|need|want|come up with)\b[^.!?\n]{0,60}"
    rf"\b(?:{'|'.join(sorted(map(bytes.decode, CREATIVE)))})\b",
)
_FACT = re.compile(
    r"(?:please |hi,? |q: )?(?:who(?:'s|se)?|when|where|how (?:old|tall|far|high|big|deep)|define"
    r"|(?:what|who)(?:'s| is| was) the (?:name|capital|population|meaning|currency|definition|symbol)"
    r"|(?:in |on )?(?:what|which) (?:year|country|city|planet|river|team|film|movie|book|band|day|colou?r|state|ocean|continent)"
    r"|what (?:does|is) [^?]{1,40} (?:mean|stand for|called))\b",
)
_FACT_INSIDE = re.compile(
    r"\b(?:who (?:is|was|plays?|played|sings?|sang|wrote|won|has|did)|(?:what|which) year|capital of|meaning of)\b",
)
_WHAT = re.compile(r"(?:please |hi,? |q: )?(?:what(?:'s| is| are| was| were| does| did)|name (?:a|an|the|one))\b")


def code(text: str) -> float:
    """From 0 to 1: a fenced block, or several marks of source code. Most texts lack the rarest character of each."""
    if "`" in text and "```" in text:
        return 1.0
    marks = ("def " in text) + ("class " in text) + ("return " in text) + ("import " in text) + ("public " in text)
    if "(" in text:
        marks += ("function(" in text) + ("();" in text)
    if "=" in text:
        marks += ("=> {" in text) + ("==" in text)
    if "<" in text:
        marks += "</" in text
    if ">" in text:
        marks += ">>>" in text
    if "#" in text:
        marks += "#include" in text
    if "S" in text:
        marks += "SELECT " in text
    return min(1.0, marks / 3) if marks >= 2 else 0.0


def has_trace(text: str) -> bool:
    """Whether a stack trace or a crash was pasted."""
    return (
        ("\n" in text and ('\n  File "' in text or "\n    at " in text))
        or ("(" in text and "Traceback (most recent" in text)
        or (":" in text and "panic:" in text)
        or ("[" in text and "error[E" in text)
        or ("E" in text and "Exception in thread" in text)
        or ("S" in text and "Segmentation fault" in text)
    )


def formulas(text: str, lower: str, characters: AbstractSet[str]) -> int:
    """Marks of written mathematics: LaTeX, powers, equations, symbols."""
    found = min(2, text.count("^")) if "^" in text else 0
    if "\\" in text:
        found += min(3, len(_LATEX.findall(text)))
    if "=" in text:
        found += min(2, len(_EQUATION.findall(lower)))
    return found + min(2, len(_SYMBOLS & characters)) if characters else found


def items(text: str) -> int:
    """Lines that are items of a list."""
    return len(_ITEM.findall("\n" + text)) if "\n" in text else 0


def has_options(text: str) -> bool:
    """Whether answers are offered to choose from, as in an examination."""
    if "\n" in text:
        return len(_OPTION.findall(text)) >= 3
    return "(" in text and "(B)" in text and "(C)" in text


def numbers(lower: str) -> int:
    """Runs of digits, of any script."""
    text = lower[:2000]
    if not text.isascii():
        return len(_NUMBER.findall(text))
    for digit in "0123456789":  # most texts have none, which takes a third of what it takes to look for numbers
        if digit in text:
            return len(text.encode().translate(_DIGITS).split())
    return 0


def quantities(lower: str) -> int:
    """Numbers in a text that asks how much of something there is; 0 where it does not ask, or there are fewer than two."""
    if len(lower) <= 30 or (count := numbers(lower)) < 2:
        return 0
    asks = _found(_AMOUNTS, lower) or (not lower.isascii() and _found(_AMOUNTS_ZH, lower))
    return count if asks else 0


def is_arithmetic(lower: str) -> bool:
    return _ARITHMETIC.fullmatch(lower) is not None


def is_pleasantry(lower: str) -> bool:
    return _NICE.match(lower) is not None and _PLEASANTRY.fullmatch(lower) is not None


def is_chore(lead: str, words: AbstractSet[bytes]) -> bool:
    """Whether a small chore is asked for: its verb stands where an instruction stands."""
    for verb in CHORES.intersection(words):  # noqa: SIM110 -- a loop costs half of what any() does, on the request path
        if _is_told(lead, verb.decode()):
            return True
    return False


def is_writing(lead: str, words: AbstractSet[bytes]) -> bool:
    """Whether a small piece of writing is asked for."""
    if CREATIVE.isdisjoint(words) or (WRITING.isdisjoint(words) and "-" not in lead):  # "re-write" is a word of its own
        return False
    return _WRITE.search(lead) is not None


def fact(lower: str) -> float:
    """From 0 to 1: how much a short text looks like a question for a single fact."""
    if _FACT.match(lower):
        return 1.0
    if ("who " in lower or " year" in lower or "ing of" in lower or "tal of" in lower) and _FACT_INSIDE.search(lower):
        return 1.0
    return 0.6 if _WHAT.match(lower) else 0.0


def _found(marks: _Marks, text: str) -> int:
    """How many of the marks are in the text."""
    found = 0
    for sign, those in marks:
        if sign in text:
            for mark in those:
                found += mark in text
    return found


def _is_told(lead: str, verb: str) -> bool:
    """Whether the verb stands somewhere as a whole word, at the beginning or behind what an instruction follows."""
    place = lead.find(verb)
    while place >= 0:
        after = lead[place + len(verb) : place + len(verb) + 1]
        if not (after.isalnum() or after == "_") and _opens(lead[max(0, place - _LONGEST_ASKING) : place]):
            return True
        place = lead.find(verb, place + len(verb))
    return False


def _opens(before: str) -> bool:
    """Whether an instruction may stand behind this: the text's beginning, or the end of what was said before."""
    before = before.removesuffix("to ")
    return not before or before.endswith(_ASKING) or _STOP.search(before) is not None
