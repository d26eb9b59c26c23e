"""Within which answers are shared: one tenant, or a group that the operator lets share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """A tenant's own by default. A shared scope and a tenant may have the same name, and are never the same scope."""

    name: str
    shared: bool = False

    @property
    def tag(self) -> str:
        """The scope as one text, different for every scope: what a partition is told apart by."""
        return f"{'s' if self.shared else 't'}:{self.name}"
