"""What a config may say, and is hardly meant by whoever wrote it."""

from __future__ import annotations

from gateway.config.ends import comparable
from gateway.config.problems import Path
from gateway.config.schema import Config

BLIND = "nothing is learned: no route has models of two tiers that are the cheapest and the dearest of all routes"
UNUSED = "what is learned changes nothing: routing.classifier.kind is {}, not learned"


def doubts(config: Config) -> list[tuple[Path, str]]:
    return [*_unused(config), *_blind(config)]


def _blind(config: Config) -> list[tuple[Path, str]]:
    return [(("routing", "learning", "enabled"), BLIND)] if config.routing.learning.enabled and not comparable(config) else []


def _unused(config: Config) -> list[tuple[Path, str]]:
    routing = config.routing
    learning, kind = routing.learning, routing.classifier.kind
    if kind == "learned":
        return []
    name = "enabled" if learning.enabled else "calibrate" if learning.calibrate is not None else ""
    return [(("routing", "learning", name), UNUSED.format(kind))] if name else []
