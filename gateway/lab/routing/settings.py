"""What a run of `tiergate route-eval` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.lab.routing.metrics import DRAWS, Side
from routing.learned.policy import Policy

Protocol = Literal["own", "task", "cross"]
PROTOCOLS: tuple[Protocol, ...] = ("own", "task", "cross")
LABELS = (100, 300, 1500, 5000)
BUDGETS = (0.1, 0.3, 0.5)


@dataclass(frozen=True, slots=True)
class Settings:
    """`labels`: of `own`, each by itself. `jobs`: processes that train at once. `base`: what `own` begins with where there is no
    other set; `base_ships`: it is the one that comes along. `budgets`: of streams, if any.
    """

    protocols: tuple[Protocol, ...] = PROTOCOLS
    labels: tuple[int, ...] = LABELS
    default: Side = "large"
    draws: int = DRAWS
    seed: int = 0
    jobs: int = 2
    base: Policy | None = None
    base_ships: bool = False
    budgets: tuple[float, ...] = ()
