"""What one run is asked to do, and with what: policies by name, embedders by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from caches.embed.types import Model
from gateway.lab.cacheeval.drawing import Plan
from gateway.lab.cacheeval.judge import Judge
from gateway.lab.cacheeval.pairs import Data
from gateway.lab.cacheeval.policies import Policy
from gateway.lab.cacheeval.shadow import SHARE


@dataclass(frozen=True, slots=True)
class Opened:
    """An embedder, ready."""

    name: str
    model: Model
    covers: Callable[[str], bool]


class Guards(Protocol):
    """What the product decides with, for one embedder."""

    def preset(self, name: str) -> Policy: ...

    def guarded(self, cut: float) -> Policy:
        """The guards, and a cut on the bare cosine."""
        ...

    def all(self, name: str) -> Policy:
        """Serves everything that no guard refuses, and tells the preset's score of it."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    data: tuple[Data, ...]
    presets: tuple[str, ...]
    thresholds: tuple[float, ...]
    guards: bool | None  # of the thresholds; None: with and without
    judge: Judge | None
    seed: int
    max_error: float
    calibrate: bool = False
    stream: Plan | None = None
    shadow: int | None = None
    shadow_share: float = SHARE
