"""What a config may say, and is hardly meant by whoever wrote it."""

from __future__ import annotations

from gateway.config.problems import Path
from gateway.config.schema import Config

UNUSED = "what is learned changes nothing: routing.classifier.kind is {}, not learned"


def doubts(config: Config) -> list[tuple[Path, str]]:
    routing = config.routing
    learning, kind = routing.learning, routing.classifier.kind
    if kind == "learned":
        return []
    name = "enabled" if learning.enabled else "calibrate" if learning.calibrate is not None else ""
    return [(("routing", "learning", name), UNUSED.format(kind))] if name else []
