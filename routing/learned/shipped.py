"""The policy that is shipped (how it is made: `sources`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from routing.learned.policy import Policy

SHIPPED = Path(__file__).with_name("shipped.policy")


@cache
def shipped() -> Policy:
    return Policy.load(SHIPPED)
