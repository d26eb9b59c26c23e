"""Words that say no."""

from __future__ import annotations

from caches.guards.tables import words

NEGATORS = words(
    "not no never without none nothing nobody neither nor nowhere hardly except unless lacking non sans excluding barring"
)

IMPLICIT = words(
    """
    exclude exclusion ban prohibit forbid disallow refuse deny reject decline avoid prevent stop quit lack block fail illegal
    unlawful wrong false
    """
)
"""Verbs and adjectives that say no to the rest. `stop my plan from renewing` and `I do not want it to renew` are the same."""
