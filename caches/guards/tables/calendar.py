"""Words that place a question in time."""

from __future__ import annotations

_DAYS = "monday mon tuesday tue tues wednesday wed thursday thu thur thurs friday fri saturday sat sunday sun"
_MONTHS = {
    "january": "jan", "february": "feb", "march": "", "april": "apr", "may": "", "june": "jun", "july": "jul", "august": "aug",
    "september": "sep sept", "october": "oct", "november": "nov", "december": "dec",
}  # fmt: skip
_AS_THEY_ARE = """
today tonight tomorrow yesterday overmorrow ereyesterday now weekend weekday spring summer autumn winter easter christmas
halloween thanksgiving ramadan diwali eid am pm noon midday midnight q1 q2 q3 q4 h1 h2 bc ad bce ce nowadays yearly
""".split()


def _dates() -> dict[str, str]:
    found = {word: word for word in _AS_THEY_ARE if word not in {"ad", "yearly", "spring", "now", "nowadays"}}
    for day in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"):
        found[day] = found[day + "s"] = day
    found |= {"mon": "monday", "tue": "tuesday", "tues": "tuesday", "thu": "thursday", "thur": "thursday", "thurs": "thursday"}
    found |= {"fri": "friday", "weekends": "weekend", "weekdays": "weekday"}
    for month, short in _MONTHS.items():
        found[month] = month
        found |= dict.fromkeys(short.split(), month)
    found |= {"morning": "am", "mornings": "am", "afternoon": "pm", "afternoons": "pm", "evenings": "evening", "nights": "night"}
    found |= {"evening": "evening", "night": "night", "oclock": "oclock"}
    found.pop("may")
    found.pop("march")
    return found


DATES = _dates()
"""Word → the point of the calendar that it names."""

CAPITAL_DATES = {"May": "may", "March": "march", "Mar": "march", "Wed": "wednesday", "Sat": "saturday", "Sun": "sunday"}
"""Names of months and days that are other words in lower case."""

PERIODS = frozenset("week month year quarter night morning evening weekend season decade century day summer winter spring autumn".split())
RELATIVE = {"this": "this", "last": "last", "next": "next", "previous": "last", "past": "last", "coming": "next", "current": "this"}
"""Before a period: which one is meant."""
