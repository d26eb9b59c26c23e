"""One form for the inflections of a word: `cancelled`, `cancelling`, `cancels` → `cancel`.

Not a linguist's stems: two words of different meaning must not meet here, so that endings which change the meaning
(employer, employee; harmful, harmless) stay. `root` goes further and is trusted less.
"""

from __future__ import annotations

from functools import lru_cache

_MEMORY = 16_384
_VOWELS = frozenset("aeiouy")
_IRREGULAR = {
    form: base
    for base, forms in {
        "be": "being", "begin": "began begun", "break": "broke broken", "bring": "brought", "build": "built", "buy": "bought",
        "catch": "caught", "choose": "chose chosen", "come": "came", "do": "did done doing", "drink": "drank drunk",
        "drive": "drove driven", "eat": "ate eaten", "fall": "fell fallen", "feel": "felt", "find": "found",
        "fly": "flew flown flies",
        "forget": "forgot forgotten", "get": "got gotten", "give": "gave given", "go": "went gone goes going",
        "grow": "grew grown",
        "have": "had has having", "hear": "heard", "hold": "held", "keep": "kept", "know": "knew known", "leave": "left",
        "lend": "lent", "lose": "lost", "make": "made", "mean": "meant", "meet": "met", "pay": "paid", "ride": "rode ridden",
        "run": "ran", "say": "said", "see": "saw seen", "sell": "sold", "send": "sent", "show": "shown",
        "sing": "sang sung",
        "speak": "spoke spoken", "spend": "spent", "steal": "stole stolen", "swim": "swam", "take": "took taken",
        "teach": "taught",
        "tell": "told", "think": "thought", "throw": "threw thrown", "understand": "understood", "wear": "wore worn", "win":"won",
        "write": "wrote written", "use": "using used uses", "die": "dying died dies", "lie": "lying lied lies",
        "tie": "tying tied ties",
        "child": "children", "man": "men", "woman": "women", "foot": "feet", "tooth": "teeth", "mouse": "mice", "life": "lives",
        "knife": "knives", "wife": "wives", "shelf": "shelves", "leaf": "leaves", "half": "halves", "datum": "data",
        "analysis": "analyses", "matrix": "matrices", "index": "indices", "vertex": "vertices", "add": "adding added adds",
        "news": "news", "bus": "buses", "gas": "gases", "lens": "lenses", "dice": "dices", "cost": "costed",
        "size": "sized sizing",
        "big": "bigger", "good": "better", "bad": "worse", "shoe": "shoes", "movie": "movies", "cookie": "cookies", "bed": "beds",
        "need": "needed needing", "visa": "visas", "video": "videoing", "speed": "speeding speeded sped", "feed": "feeding fed",
    }.items()
    for form in forms.split()
}  # fmt: skip
_SUFFIXES = (
    "ations", "ation", "itions", "ition", "ments", "ment", "anc", "enc", "icalli", "ical", "iti",
    "ions", "ion", "abl", "ibl", "alli", "al", "ness", "ativ", "iv", "at", "ic", "li", "i", "y",
)  # fmt: skip


@lru_cache(_MEMORY)
def stem(word: str) -> str:
    """The inflection taken off a lower-case word."""
    if word in _IRREGULAR:
        word = _IRREGULAR[word]
    elif len(word) > 3:
        if word.endswith("s"):
            word = _singular(word)
        if word.endswith("ing") and len(word) > 5:
            word = _bare(word, 3)
        elif word.endswith("ed") and len(word) > 4 and word[-3] != "e":
            word = _bare(word, 2)
        word = _IRREGULAR.get(word, word)
    if len(word) > 4 and word[-1] == "e":
        return word[:-1]
    if len(word) > 5 and word.endswith("ll"):
        return word[:-1]
    if len(word) > 4 and word[-1] == "y" and word[-2] not in _VOWELS:
        return word[:-1] + "i"
    return word


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return word[:-2] if word.endswith(("sses", "xes", "zzes", "ches", "shes")) else word[:-1]
    return word if word.endswith(("ss", "us", "is")) else word[:-1]


def _bare(word: str, ending: int) -> str:
    """Without `ing` or `ed`, and with the `e` or without the doubled letter that came with it."""
    bare = word[:-ending]
    if len(bare) < 3 or not _VOWELS.intersection(bare):
        return word
    if bare[-1] == bare[-2] and bare[-1] not in "lsz" and len(bare) > 3:
        return bare[:-1]
    if len(bare) == 3 and bare[-1] not in "aeiouywx" and bare[-2] in _VOWELS and bare[-3] not in _VOWELS:
        return bare + "e"
    if bare[-1] in "vzuc" or bare.endswith(("at", "iz", "bl", "pl", "tl", "dl", "gl")):
        return bare + "e" if not bare.endswith(("eat", "oat")) else bare
    return bare


@lru_cache(_MEMORY)
def root(word: str) -> str:
    """A stem without the endings that turn a verb into a noun or an adjective: deliver and delivery, renew and renewal."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            word = word[: -len(suffix)]
            break
    return word[:-1] if len(word) > 4 and word[-1] == word[-2] else word
