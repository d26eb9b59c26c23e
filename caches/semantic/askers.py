"""Who has asked a question, in a scope that tenants share: until enough of them have, nobody is served another's answer to it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from caches.semantic.types import Asked

_MOST = 10_000  # questions


@dataclass(slots=True)
class Asking:
    """Of one question. `kept`: it has an answer that all are served."""

    tenants: set[str] = field(default_factory=set)
    kept: bool = False


class Askers:
    """`enough`: so many different tenants. The questions that were asked longest ago are forgotten first."""

    def __init__(self, enough: int) -> None:
        self._enough = enough
        self._questions: OrderedDict[tuple[str, str], Asking] = OrderedDict()

    def count(self, asked: Asked) -> Asking | None:
        """Its tenant is one of them. None: there are not enough yet."""
        question = (asked.partition, " ".join(asked.text.casefold().split()))
        known = self._questions.setdefault(question, Asking())
        self._questions.move_to_end(question)
        if len(self._questions) > _MOST:
            self._questions.popitem(last=False)
        if len(known.tenants) < self._enough:
            known.tenants.add(asked.tenant)
        return known if len(known.tenants) >= self._enough else None
