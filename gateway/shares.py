"""What tenants have of models for themselves, as `/metrics` and `/admin/status` show it: read when asked.

There are as many as the config names, and none without one; beyond the first 200 tenants they are summed as `other`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from gateway.dispatch.types import Lane
from gateway.families import Labels
from gateway.metrics import Metrics
from limits.waiting import ReservedStanding

_Values = Callable[[ReservedStanding], Iterator[tuple[Labels, float]]]


class Shares:
    """The reserved shares of all lanes."""

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        self._lanes = lanes

    def register(self, metrics: Metrics) -> None:
        """Add the families."""
        where = ("model", "tenant")

        def reading(values: _Values) -> Callable[[], list[tuple[Labels, float]]]:
            return lambda: self._read(metrics.tenant, values)

        metrics.gauge(
            "reserved_slots",
            "Slots that a tenant with a reserved share can count on now: fewer than configured where the model has too few.",
            where,
            reading(lambda share: iter([((), share.slots)])),
        )
        metrics.gauge(
            "reserved_slots_used", "Requests that run on a tenant's reserved share.", where,
            reading(lambda share: iter([((), share.used)])),
        )  # fmt: skip
        metrics.gauge(
            "reserved_tokens_left", "Tokens that are left now of a reserved share of tokens a minute.", where,
            reading(lambda share: iter([] if share.tokens_left is None else [((), share.tokens_left)])),
        )  # fmt: skip
        metrics.total(
            "reserved_requests",
            "Slots given to tenants with a reserved share: `reserved`: of that, `borrowed`: beyond it, in line with the others.",
            (*where, "kind"),
            reading(lambda share: iter([(("reserved",), share.reserved), (("borrowed",), share.borrowed)])),
        )

    def of(self, lane: Lane) -> list[dict[str, object]]:
        """For a report."""
        return [
            {
                "tenant": share.tenant,
                "slots": share.slots,
                "used": share.used,
                "tokens_left": share.tokens_left,
                "requests": {"reserved": share.reserved, "borrowed": share.borrowed},
            }
            for share in lane.scheduler.reserved()
        ]

    def _read(self, label: Callable[[str], str], values: _Values) -> list[tuple[Labels, float]]:
        sums: Counter[Labels] = Counter()
        for name, lane in self._lanes.items():
            for share in lane.scheduler.reserved():
                for more, value in values(share):
                    sums[name, label(share.tenant), *more] += int(value)
        return [(labels, float(value)) for labels, value in sums.items()]
