"""What flushes and deletes leave behind, so that an answer which was being made meanwhile is not kept afterwards.

A mark is a moment under a field: whatever began at or before that moment, and has that field, is not to be stored. A field is
what a flush may name, (tenant, model, tag), None where it names nothing; or one entry's id.

The number of marks is bounded. What is too many is not forgotten but made coarser: a tenant's oldest deletes become a mark on all
of that tenant, the oldest marks of all become one on everything. So the guarantee always holds, and the worst is that an
answer which could have been kept is not. A tenant that deletes without end coarsens its own marks alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import product

from caches.types import Entry
from caches.which import Which

Field = tuple[str | None, str | None, str | None]

EVERYTHING: Field = (None, None, None)
NEVER = float("-inf")
MOST_TAGS = 16  # of an entry: each doubles nothing, but adds four fields
_MOST = 1024
_MOST_IDS = 64  # of one tenant


def field_of(which: Which) -> Field:
    return which.tenant, which.model, which.tag


def fields_of(tenant: str, model: str, tags: Sequence[str]) -> list[Field]:
    """Every field that a flush which takes such an entry can have. The first is everything, the second its tenant alone."""
    return [(t, m, g) for g, m, t in product((None, *tags), (None, model), (None, tenant))]


class Marks:
    """In this process. Of two marks on one field the later moment counts."""

    __slots__ = ("_flushed", "_ids")

    def __init__(self) -> None:
        self._flushed: OrderedDict[Field, float] = OrderedDict()  # longest ago first
        self._ids: OrderedDict[str | None, OrderedDict[str, float]] = OrderedDict()  # by tenant; None: the operator

    def flushed(self, field: Field, at: float) -> None:
        flushed = self._flushed
        flushed[field] = max(at, flushed.pop(field, NEVER))
        while len(flushed) > _MOST:
            dropped, moment = flushed.popitem(last=False)
            if dropped == EVERYTHING:  # it covers the next one, and keeps its place at the young end
                dropped, other = flushed.popitem(last=False)
                moment = max(moment, other)
            flushed[EVERYTHING] = max(moment, flushed.pop(EVERYTHING, NEVER))

    def deleted(self, id: str, tenant: str | None, at: float) -> None:  # noqa: A002 - the name of the field it is
        ids = self._ids.setdefault(tenant, OrderedDict())
        self._ids.move_to_end(tenant)
        ids[id] = max(at, ids.pop(id, NEVER))
        if len(ids) > _MOST_IDS:
            self.flushed((tenant, None, None), ids.popitem(last=False)[1])
        if len(self._ids) > _MOST:
            tenant, ids = self._ids.popitem(last=False)
            self.flushed((tenant, None, None), max(ids.values()))

    def bars(self, entry: Entry) -> bool:
        """Whether a flush or a delete since its making began is meant for it."""
        if not self._flushed and not self._ids:
            return False
        born, flushed = entry.born, self._flushed
        if any(flushed.get(field, NEVER) >= born for field in fields_of(entry.tenant, entry.model, entry.tags)):
            return True
        return any(tenant in self._ids and self._ids[tenant].get(entry.id, NEVER) >= born for tenant in (entry.tenant, None))
