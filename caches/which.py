"""Which entries of a cache are meant: by a flush, or by a mark that one leaves behind."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Which:
    """All conditions that are given must hold. None at all is refused, unless `everything`: a forgotten one empties nothing.

    `older_than` is an age in seconds, counted from when an answer began to be made. Raises ValueError.
    """

    tenant: str | None = None
    model: str | None = None
    tag: str | None = None
    older_than: float | None = None
    everything: bool = False

    def __post_init__(self) -> None:
        if not self.everything and all(it is None for it in (self.tenant, self.model, self.tag, self.older_than)):
            raise ValueError("a flush needs a condition, or to be told that everything is meant")

    def born_by(self, now: float) -> float | None:
        """The moment that an entry must have been stored by; None: any."""
        return None if self.older_than is None else now - self.older_than

    def takes(self, tenant: str, model: str, tags: Collection[str], stored_at: float, now: float) -> bool:
        born_by = self.born_by(now)
        return (
            (self.tenant is None or tenant == self.tenant)
            and (self.model is None or model == self.model)
            and (self.tag is None or self.tag in tags)
            and (born_by is None or stored_at <= born_by)
        )
