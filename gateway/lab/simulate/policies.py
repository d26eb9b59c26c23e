"""The orders that are compared. All are settings of the product's own queue; what differs is written here."""

from __future__ import annotations

from dataclasses import dataclass

from limits.waiting import Order

PER_TOKEN, CAP = 0.03, 512  # as the product has them unless told otherwise
_FOREVER = 1e6


@dataclass(frozen=True, slots=True)
class Policy:
    """`known`: the true length is told to the queue, as no gateway can; else the product's predictor guesses it.

    `tenants`: they take turns by what they were served; else all requests stand in one line.
    """

    name: str
    about: str
    order: Order
    known: bool
    tenants: bool


def ours(order: Order) -> Policy:
    return Policy("ours", "tenants by what they were served, put back by predicted length", order, known=False, tenants=True)


POLICIES = (
    Policy("fcfs", "first come, first served", Order(), known=False, tenants=False),
    Policy("sjf", "shortest first, true lengths", Order(_FOREVER, 1 << 40), known=True, tenants=False),
    Policy("hybrid", "put back by true length", Order(0.005, 1 << 40), known=True, tenants=False),
    ours(Order(PER_TOKEN, CAP)),
)
BY_NAME = {policy.name: policy for policy in POLICIES}
