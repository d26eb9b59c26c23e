"""The semantic cache, wired. Loaded only where some tenant has it: it brings numpy along."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from caches.semantic.cache import SemanticCache
from gateway.config import Config
from gateway.dispatch.types import Lane

Clock = Callable[[], float]


def build_semantic(config: Config, lanes: Mapping[str, Lane], clock: Clock, wall: Clock, secret: bytes) -> SemanticCache:
    raise NotImplementedError
