"""Who was served which hit lately: what feedback on a request is about."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Served:
    """One hit, as its id says; `owner`: the tenant whose answer it was."""

    id: str
    point: str
    pair: bytes
    owner: str


class Recent:
    """By tenant and request. The oldest are forgotten."""

    def __init__(self) -> None:
        self._served: OrderedDict[tuple[str, str], Served] = OrderedDict()

    def add(self, tenant: str, request_id: str, served: Served) -> None:
        self._served[tenant, request_id] = served
        if len(self._served) > _MOST:
            self._served.popitem(last=False)

    def take(self, tenant: str, request_id: str) -> Served | None:
        """It is told of once."""
        return self._served.pop((tenant, request_id), None)
