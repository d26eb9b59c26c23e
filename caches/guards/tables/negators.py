"""Words that say no."""

from __future__ import annotations

NEGATORS = frozenset("not no never without none nothing nobody neither nor nowhere hardly except excluding unless lacking non".split())
