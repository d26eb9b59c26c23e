"""Rules that turn a question into another one: in another manner (one answer still serves both), or about another matter.

Each takes a text and gives None where it has nothing to work on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

Edit = Callable[[str, Random], str | None]

_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_SHORT = {
    "What is": "What's", "Where is": "Where's", "Who is": "Who's", "How is": "How's", "do not": "don't", "does not": "doesn't",
    "cannot": "can't", "is not": "isn't", "I am": "I'm", "I would": "I'd", "I have": "I've", "we are": "we're", "It is": "It's",
}  # fmt: skip
_SPELT = {
    "colour": "color", "litre": "liter", "metre": "meter", "centre": "center", "favourite": "favorite", "organise": "organize",
    "summarise": "summarize", "tyre": "tire", "licence": "license", "cheque": "check", "programme": "program", "grey": "gray",
}  # fmt: skip
_ALIKE = {
    "How do I": ("How can I", "How would I", "How does one"), "How can I": ("How do I", "In what way can I"),
    "What's the way to": ("How do I", "What is the best way to"), "What is the price of": ("How much is",),
    "Can I": ("May I", "Am I able to", "Is it possible for me to"), "Do I need": ("Do I require", "Must I have"),
    "How long does": ("How much time does",), "buy": ("purchase",), "get": ("obtain",), "show": ("display",), "big": ("large",),
    "start": ("begin",), "fix": ("repair",), "phone number": ("telephone number",), "help": ("assistance",),
    "How many": ("What number of",),
    "Is it okay": ("Is it fine", "Is it all right"), "delete": ("remove",), "choose": ("pick",), "sign up": ("register",),
}  # fmt: skip
_BEFORE = (
    "Hi, ",
    "Hello! ",
    "Hey, ",
    "Please tell me: ",
    "Quick question: ",
    "So, ",
    "Um, ",
    "I was wondering, ",
    "Sorry, ",
    "Excuse me, ",
)
_AFTER = (" Thanks!", " Thank you.", " please", " Cheers", " Many thanks in advance.", " pls")
_ASKING = ("Could you tell me ", "Do you know ", "I'd like to know ", "Can you explain ")

_OPPOSITES = """
on/off up/down open/close open/shut start/stop enable/disable increase/decrease raise/lower add/remove buy/sell send/receive
accept/decline accept/reject lock/unlock mute/unmute install/uninstall upload/download import/export encrypt/decrypt
best/worst cheapest/dearest fastest/slowest largest/smallest highest/lowest most/least first/last earliest/latest
minimum/maximum before/after with/without inside/outside above/below more/less longer/shorter higher/lower faster/slower
hot/cold safe/unsafe legal/illegal possible/impossible included/excluded always/never all/none everyone/nobody
win/lose join/leave arrive/depart borrow/lend push/pull attach/detach connect/disconnect subscribe/unsubscribe
gain/lose freeze/thaw hire/fire approve/deny allow/forbid show/hide expand/collapse login/logout
old/new adult/child men/women parents/children buyer/seller tenant/landlord employer/employee
online/offline public/private paid/free monthly/yearly single/double indoor/outdoor domestic/international
morning/evening summer/winter north/south east/west left/right weekday/weekend breakfast/dinner
"""
_OTHER: dict[str, list[str]] = {}
for _pair in _OPPOSITES.split():
    _one, _two = _pair.split("/")
    _OTHER.setdefault(_one, []).append(_two)
    _OTHER.setdefault(_two, []).append(_one)
_UNITS = (
    ("miles", "kilometres", "metres"), ("kg", "lb", "g"), ("pounds", "kilograms", "grams", "ounces"),
    ("minutes", "hours", "seconds"),
    ("days", "weeks", "months", "years"), ("Celsius", "Fahrenheit", "Kelvin"), ("litres", "gallons", "cups"), ("MB", "GB", "TB"),
    ("km", "mi"), ("words", "sentences", "pages"), ("euros", "dollars", "pounds"),
)  # fmt: skip
_SCOPES = (
    "for children", "for students", "for business customers", "as a beginner", "online", "by post", "in Germany",
    "in Canada", "at weekends",
    "on a Mac", "on my phone", "without an account", "for the second time", "with a discount", "abroad", "after midnight",
    "for two people",
    "if I am under 18", "as a non-resident", "in winter", "by bus", "on foot", "by credit card", "for a company",
    "without paying",
    "when I am pregnant", "for free", "from home", "during the trial", "in the app", "with a dog",
)  # fmt: skip
_QUANTITIES = {
    "all": "some", "every": "any", "some": "all", "only": "also", "both": "either", "any": "all", "a few": "all", "many": "few",
}  # fmt: skip
_MODES = {
    "Can I": "Must I", "Must I": "Can I", "Should I": "May I", "May I": "Do I have to", "Do I have to": "May I", "can": "must",
    "must": "can", "should": "should not", "Is it possible to": "Is it necessary to",
}  # fmt: skip
_NOT = {
    "do I": "do I not", "can I": "can I not", "Can I": "Can't I ever", "is": "is not", "are": "are not", "does": "does not",
    "should": "should not",
    "may": "may not", "want": "don't want", "need": "don't need", "will": "will not", "did": "did not",
    "have to": "don't have to",
}  # fmt: skip


# -- another manner


def polite(text: str, random: Random) -> str:
    if random.random() < 0.5:
        return random.choice(_BEFORE) + _uncapitalised(text)
    return text.rstrip() + random.choice(_AFTER)


def wondering(text: str, random: Random) -> str | None:
    return random.choice(_ASKING) + _uncapitalised(text) if text.startswith(("What", "How", "Where", "When", "Who")) else None


def plain(text: str, random: Random) -> str:
    bare = text.lower()
    return bare.rstrip("?.! ") if random.random() < 0.7 else bare


def shouted(text: str, _: Random) -> str:
    return text.upper()


def typo(text: str, random: Random) -> str | None:
    """A letter left out, doubled, or changed with its neighbour, in a long word of small letters."""
    words = text.split(" ")
    long = [place for place, word in enumerate(words) if len(word) > 4 and word.isalpha() and word.islower()]
    if not long:
        return None
    place = random.choice(long)
    word, at = words[place], random.randrange(1, len(words[place]) - 2)
    kind = random.randrange(3)
    words[place] = (
        word[:at] + word[at + 1 :] if kind == 0 else word[:at] + word[at] + word[at:] if kind == 1
        else word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    )  # fmt: skip
    return " ".join(words)


def contracted(text: str, random: Random) -> str | None:
    return _swapped(text, _SHORT | {short: long for long, short in _SHORT.items()}, random)


def spelt(text: str, random: Random) -> str | None:
    return _swapped(text, _SPELT | {us: uk for uk, us in _SPELT.items()}, random, whole=False)


def reworded(text: str, random: Random) -> str | None:
    return _swapped(text, {phrase: random.choice(others) for phrase, others in _ALIKE.items()}, random)


def counted(text: str, random: Random) -> str | None:
    """5 is five."""
    told = {str(number): word for number, word in enumerate(_WORDS)}
    return _swapped(text, told | {word: number for number, word in told.items()}, random)


def fronted(text: str, _: Random) -> str | None:
    """The end of it first: "How do I travel with a cat?" is "With a cat, how do I travel?"."""
    found = re.fullmatch(r"((?:How|Where|When|Can|What)\b.+?) ((?:from|in|at|on|for|with|without|before|after) [^?]+)\?", text)
    return None if found is None else f"{found[2][0].upper()}{found[2][1:]}, {_uncapitalised(found[1])}?"


# -- another matter


def opposite(text: str, random: Random) -> str | None:
    return _swapped(text, {word: random.choice(others) for word, others in _OTHER.items()}, random)


def negated(text: str, random: Random) -> str | None:
    return _swapped(text, _NOT, random)


def other_number(text: str, random: Random) -> str | None:
    found = list(re.finditer(r"\d+", text))
    if not found:
        return None
    number = random.choice(found)
    value = number[0]
    changed = random.choice(
        (str(int(value[:9]) + random.choice((1, 2, 5, 10))), value + "0", value[::-1], str(int(value[:9]) * 2))
    )
    return None if int(changed) == int(value) else text[: number.start()] + changed + text[number.end() :]


def other_unit(text: str, random: Random) -> str | None:
    return _swapped(text, {unit: random.choice([it for it in units if it != unit]) for units in _UNITS for unit in units}, random)


def narrowed(text: str, random: Random) -> str:
    """A condition that the one has and the other has not."""
    scope, end = random.choice(_SCOPES), text[-1:] if text[-1:] in ("?", ".", "!") else ""
    if random.random() < 0.25 and text:
        return f"{scope[0].upper()}{scope[1:]}, {_uncapitalised(text)}"
    return f"{text[: len(text) - len(end)]} {scope}{end}"


def other_quantity(text: str, random: Random) -> str | None:
    return _swapped(text, _QUANTITIES, random)


def other_mode(text: str, random: Random) -> str | None:
    return _swapped(text, _MODES, random)


def turned(text: str, _: Random) -> str | None:
    """From here to there becomes from there to here; so does who is compared with whom."""
    for shape in (
        r"(.*\bfrom )(\S+)( to )([^\s?.,]+)(.*)",
        r"(.*\b)(\S+)( into )([^\s?.,]+)(.*)",
        r"(.*\b(?:Is|Are|Does) )(\S+)( .+ than )([^\s?.,]+)(.*)",
    ):
        found = re.fullmatch(shape, text)
        if found is not None and found[2].casefold() != found[4].casefold():
            return found[1] + found[4] + found[3] + found[2] + found[5]
    return None


MANNERS: tuple[Edit, ...] = (
    polite,
    wondering,
    plain,
    typo,
    contracted,
    spelt,
    reworded,
    counted,
    fronted,
    plain,
    typo,
    reworded,
    shouted,
)
MATTERS: tuple[Edit, ...] = (
    opposite, negated, other_number, other_unit, narrowed, other_quantity, other_mode, turned, opposite, negated, narrowed,
)  # fmt: skip


def any_of(edits: tuple[Edit, ...], text: str, random: Random) -> str | None:
    """What one of the rules makes of it, tried in an order that is drawn."""
    for edit in random.sample(edits, len(edits)):
        made = edit(text, random)
        if made is not None and made != text:
            return made
    return None


def _swapped(text: str, table: dict[str, str], random: Random, *, whole: bool = True) -> str | None:
    """One of the phrases that are in it, in place of which the other stands."""
    edge = r"(?![\w])" if whole else ""
    found = [(hit, other) for phrase, other in table.items() for hit in re.finditer(rf"(?<!\w){re.escape(phrase)}{edge}", text)]
    if not found:
        return None
    hit, other = random.choice(found)
    return text[: hit.start()] + other + text[hit.end() :]


def _uncapitalised(text: str) -> str:
    return text if text[:2] in ("I ", "I'") or not text else text[0].lower() + text[1:]
