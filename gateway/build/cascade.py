"""Cascades, as the config says them. Each process has a switch of its own for each route."""

from __future__ import annotations

import math
from typing import Literal, cast

from gateway.cascade import Cascades, NoCascades
from gateway.config import Config
from gateway.config.routing import Cascade
from gateway.metrics import Metrics
from gateway.trying import Rules
from routing.cascade import Switch, Worth


def cascades_of(config: Config, metrics: Metrics) -> NoCascades:
    routing = config.routing
    routes = {
        "" if name == routing.auto else name: _rules(name, route.cascade)
        for name, route in routing.routes.items()
        if route.cascade is not None
    }
    return Cascades(routes, routing.tiers, metrics) if routes else NoCascades()


def _rules(name: str, own: Cascade) -> Rules:
    certain = own.check == "logprobs"
    return Rules(
        route=name,
        certainty=math.log(max(own.certainty, 1e-9)) if certain else None,
        temperature=own.temperature,
        floor=own.floor,
        max_tokens=own.max_tokens,
        charge=cast(Literal["both", "answered"], own.charge),
        switch=Switch(Worth(1.0 / own.price, 1 if certain else 2, own.floor)),
    )
