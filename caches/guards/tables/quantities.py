"""Number words and units of measure."""

from __future__ import annotations

from caches.guards.tables import lines, words

NUMBER_WORDS = {
    word: value
    for value, words in {
        0: "zero", 1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten",
        11: "eleven", 12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen",
        19: "nineteen", 20: "twenty", 30: "thirty", 40: "forty fourty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty",
        90: "ninety",
    }.items()
    for word in words.split()
}  # fmt: skip
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "lakh": 10**5, "crore": 10**7}
SUFFIXES = {"k": 1000, "m": 10**6, "mn": 10**6, "bn": 10**9, "b": 10**9, "t": 10**12}
"""Letters behind digits that multiply them; `m` only behind money, elsewhere it is metres."""

ORDINALS = {
    word: value
    for value, word in enumerate(
        [
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
            "thirteenth",
            "fourteenth",
            "fifteenth",
            "sixteenth",
            "seventeenth",
            "eighteenth",
            "nineteenth",
            "twentieth",
        ],
        start=1,
    )
}

CURRENCIES = {"$": "usd", "£": "gbp", "€": "eur", "¥": "jpy", "₹": "inr", "₩": "krw"}
TIME_UNITS = words(
    """
    second minute hour day week fortnight month quarter year decade century degree foot feet stone yard cup cent
    """
)
"""Units that are ordinary words too: only behind a number are they read as units."""

BARE_UNITS = words("c f g m s l v w a t b k j h in won em rem mi min")
"""Units that are read as such only behind digits."""

GLUED_UNITS = words("a in won em rem s t b k j h")
"""And of those, the ones that must be written together with them."""

_SINGULAR = {"centuries": "century", "feet": "foot", "kilometre": "kilometer", "kilometres": "kilometer", "metre": "meter",
             "metres": "meter", "centimetre": "centimeter", "centimetres": "centimeter", "millimetre": "millimeter",
             "millimetres": "millimeter", "litre": "liter", "litres": "liter", "millilitre": "milliliter",
             "millilitres": "milliliter"}  # fmt: skip


def _units() -> dict[str, tuple[str, float]]:
    found: dict[str, tuple[str, float]] = {}
    for base, factor, *names in map(str.split, lines("units.txt")):
        for name in names:
            found[name] = (base, float(factor))
            if len(name) > 2:
                found.setdefault(name + "s", found[name])
    return found | {name: found[singular] for name, singular in _SINGULAR.items()}


UNITS = _units()
"""Word → (what it measures in, how many of those)."""
