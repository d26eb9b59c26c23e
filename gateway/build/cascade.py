"""Cascades, as the config says them. The processes of a node share the switch of each route."""

from __future__ import annotations

import math
from typing import Literal, cast

from gateway.cascade import Cascades, NoCascades
from gateway.config import Config
from gateway.config.routing import Cascade
from gateway.loads import Memory
from gateway.metrics import Metrics
from gateway.trying import Rules
from routing.cascade import RECORD, SIZE, Switch, Worth


def cascades_of(config: Config, metrics: Metrics, memory: Memory) -> NoCascades:
    """`memory`: SIZE bytes for the switches. Of more routes than that has room for each process has its own."""
    routing = config.routing
    records, places = memoryview(memory), iter(range(0, SIZE, RECORD))
    routes = {
        "" if name == routing.auto else name: _rules(
            name, route.cascade, None if (place := next(places, None)) is None else records[place : place + RECORD]
        )
        for name, route in routing.routes.items()
        if route.cascade is not None
    }
    return Cascades(routes, routing.tiers, metrics) if routes else NoCascades()


def _rules(name: str, own: Cascade, memory: memoryview | None) -> Rules:
    certain = own.check == "logprobs"
    return Rules(
        route=name,
        certainty=math.log(max(own.certainty, 1e-9)) if certain else None,
        models=2 if own.check == "models" else 1,
        temperature=own.temperature,
        floor=own.floor,
        max_tokens=own.max_tokens,
        charge=cast(Literal["both", "answered"], own.charge),
        switch=Switch(Worth(1.0 / own.price, 1 if certain else 2, own.floor), route=name, memory=memory),
    )
