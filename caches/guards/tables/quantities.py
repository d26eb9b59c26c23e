"""Number words and units of measure."""

from __future__ import annotations

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
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth"
        " sixteenth seventeenth eighteenth nineteenth twentieth".split(),
        start=1,
    )
}

_UNITS = """
s 1 second sec secs
s 60 minute min mins
s 3600 hour hr hrs
s 86400 day
s 604800 week wk wks
s 1209600 fortnight
month 1 month
month 3 quarter
month 12 year yr yrs
month 120 decade
month 1200 century
ms 1 ms millisecond
g 0.000001 microgram mcg µg
g 0.001 mg milligram
g 1 g gram gm gms gramme
g 1000 kg kilo kilogram kgs
g 1000000 tonne
lb 1 lb lbs
lb 0.0625 oz ounce
lb 14 stone
m 0.001 mm millimeter
m 0.01 cm centimeter
m 1 meter
m 1000 km kilometer kms
ft 0.0833333333 inch inches
ft 1 ft foot
ft 3 yard yd
ft 5280 mile mi
l 0.001 ml milliliter
l 0.01 cl
l 1 liter ltr
gal 1 gallon
gal 0.25 quart
gal 0.125 pint
gal 0.0625 cup
tbsp 1 tablespoon tbsp
tsp 1 teaspoon tsp
byte 1 byte
byte 1000 kb kilobyte
byte 1000000 mb megabyte
byte 1000000000 gb gigabyte gig gigs
byte 1000000000000 tb terabyte
bit 1000 kbps
bit 1000000 mbps
bit 1000000000 gbps
hz 1 hz hertz
hz 1000 khz
hz 1000000 mhz
hz 1000000000 ghz
w 1 watt
w 1000 kw kilowatt
wh 1000 kwh
v 1 volt
a 1 amp ampere
a 0.001 mah
cal 1 kcal calorie
j 1 joule
kmh 1 kmh kph
mph 1 mph
celsius 1 celsius centigrade c
fahrenheit 1 fahrenheit f
kelvin 1 kelvin
pct 1 percent percentage pct
usd 1 usd dollar buck
usd 0.01 cent
eur 1 eur euro
gbp 1 gbp quid
gbp 0.01 pence penny
jpy 1 jpy yen
cny 1 cny rmb yuan
inr 1 inr rupee
krw 1 krw won
chf 1 chf franc
cad 1 cad
aud 1 aud
btc 1 btc bitcoin
eth 1 eth ethereum
acre 1 acre
hectare 1 hectare
sqft 1 sqft
sqm 1 sqm
degree 1 degree
radian 1 radian
px 1 px pixel
rem 1 rem
em 1 em
"""
CURRENCIES = {"$": "usd", "£": "gbp", "€": "eur", "¥": "jpy", "₹": "inr", "₩": "krw"}
TIME_UNITS = frozenset("second minute hour day week fortnight month quarter year decade century degree foot stone yard cup cent".split())
"""Units that are ordinary words too: only behind a number are they read as units."""

BARE_UNITS = frozenset("c f g m s l v w a t b k j h in won em rem mi min".split())
"""Units that are read as such only when written behind digits."""


def _units() -> dict[str, tuple[str, float]]:
    found: dict[str, tuple[str, float]] = {}
    for line in filter(None, _UNITS.splitlines()):
        base, factor, *words = line.split()
        for word in words:
            found[word] = (base, float(factor))
            if len(word) > 4 and not word.endswith("s"):
                found[word + "s"] = (base, float(factor))
    for plural, singular in (("days", "day"), ("centuries", "century"), ("feet", "foot"), ("metre", "meter"), ("metres", "meter"),
                             ("litre", "liter"), ("litres", "liter"), ("kilometre", "kilometer"), ("kilometres", "kilometer"),
                             ("millilitre", "milliliter"), ("millilitres", "milliliter"), ("centimetre", "centimeter"),
                             ("centimetres", "centimeter"), ("millimetre", "millimeter"), ("millimetres", "millimeter"),
                             ("yards", "yard"), ("cups", "cup"), ("pints", "pint"), ("acres", "acre"), ("cents", "cent"),
                             ("bytes", "byte"), ("miles", "mile"), ("watts", "watt"), ("volts", "volt"), ("amps", "amp"),
                             ("euros", "euro"), ("weeks", "week"), ("hours", "hour"), ("years", "year"), ("months", "month"),
                             ("grams", "gram"), ("kilos", "kilo"), ("bucks", "buck")):  # fmt: skip
        found[plural] = found[singular]
    return found


UNITS = _units()
"""Word → (what it measures in, how many of those)."""
