"""Words that place a question in time."""

from __future__ import annotations

from caches.guards.tables import words

_NAMES = {
    "monday": "mondays mon", "tuesday": "tuesdays tue tues", "wednesday": "wednesdays",
    "thursday": "thursdays thu thur thurs", "friday": "fridays fri", "saturday": "saturdays", "sunday": "sundays",
    "january": "jan", "february": "feb", "april": "apr", "june": "jun", "july": "jul", "august": "aug",
    "september": "sep sept", "october": "oct", "november": "nov", "december": "dec", "weekend": "weekends",
    "weekday": "weekdays", "am": "morning mornings", "pm": "afternoon afternoons", "evening": "evenings", "night": "nights",
    "today": "", "tonight": "", "tomorrow": "", "yesterday": "", "overmorrow": "", "ereyesterday": "", "oclock": "",
    "noon": "midday", "midnight": "", "summer": "", "autumn": "", "winter": "", "easter": "", "christmas": "xmas",
    "halloween": "", "thanksgiving": "", "ramadan": "", "diwali": "", "eid": "", "q1": "", "q2": "", "q3": "", "q4": "",
    "h1": "", "h2": "", "bc": "bce", "ce": "",
}  # fmt: skip

DATES = {word: name for name, others in _NAMES.items() for word in (name, *others.split())}
"""Word → the point of the calendar that it names."""

CAPITAL_DATES = {"May": "may", "March": "march", "Mar": "march", "Wed": "wednesday", "Sat": "saturday", "Sun": "sunday"}
"""Names of months and days that are other words in lower case."""

PERIODS = words("week month year quarter night morning evening weekend season decade century day summer winter spring autumn")
RELATIVE = {
    "this": "this",
    "last": "last",
    "next": "next",
    "previous": "last",
    "past": "last",
    "coming": "next",
    "current": "this",
}
"""Before a period: which one is meant."""
