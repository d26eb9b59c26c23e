"""Words that say no."""

from __future__ import annotations

from caches.guards.tables import words

NEGATORS = words("not no never without none nothing nobody neither nor nowhere hardly except excluding unless lacking non")
