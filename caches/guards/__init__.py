"""What tells two questions apart that an embedding takes for one: `Reading.of` parses a text once, `veto` compares two readings."""

from __future__ import annotations

from caches.guards.reading import Reading
from caches.guards.veto import veto

__all__ = ["Reading", "veto"]
