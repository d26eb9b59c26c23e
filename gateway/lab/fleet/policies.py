"""The policies that are compared: kinds of the product, as it has them, and rules of others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from backends.balance import Balance, make_balance
from backends.balance.sticky import Sticky
from backends.balance.work_cost import WorkCost
from caches.prefix import PrefixIndex
from gateway.lab.fleet.costs import Setting
from gateway.lab.fleet.engine import Engine
from gateway.lab.fleet.rules import CacheAware, Knowing, Longest, PrefixCache
from gateway.lab.simulate.timeline import Timeline


class Sight(Protocol):
    """What a policy may be made with: the clock and the index are the product's, the engines nobody's."""

    timeline: Timeline
    index: PrefixIndex
    setting: Setting

    @property
    def engines(self) -> Mapping[str, Engine]: ...


Make = Callable[[int, Sight], Balance]
_EIGHTEEN_SECONDS = 18 * 15_928.0
_BEGINNING = 1024  # tokens: what 16 blocks of the product are
BETWEEN = ("shared", "floor", "apart", "one")
_TREE = 67_108_864 // 4  # SGLang's default of max_tree_size is in characters


@dataclass(frozen=True, slots=True)
class Policy:
    """`room`: tokens of a replica that its index holds, where the rule has a size of its own for that.

    `between`: of several gateways, one of `BETWEEN`.
    """

    name: str
    about: str
    make: Make
    room: int | None = None
    between: str = "shared"


def _kind(name: str, about: str) -> Policy:
    return Policy(name, about, lambda seed, sight: make_balance(name, seed=seed, clock=sight.timeline.clock))


class _Own(WorkCost):
    __slots__ = ()
    wants_crowd = False


def _work_cost(
    seed: int,
    sight: Sight,
    own: float = 2.0,
    request: float = 105.0,
    relief: float = 8192.0,
    kind: type[WorkCost] = WorkCost,
) -> Balance:
    beginning = max(1, _BEGINNING // sight.setting.shape.block)
    return kind(random.Random(seed), own=own, request=request, relief=relief, beginning=beginning)


def work_cost(own: float, request: float, relief: float) -> Policy:
    return Policy(
        f"work_cost:{own:g}:{request:g}:{relief:g}",
        "work_cost with other weights",
        lambda seed, sight: _work_cost(seed, sight, own, request, relief),
    )


POLICIES = (
    Policy("work_cost", "the least prefill to wait for and to bring", _work_cost),
    Policy("work_cost_fixed", "the same, with its own tokens counted twice however busy all are",
           lambda seed, sight: _work_cost(seed, sight, relief=math.inf)),
    Policy("work_cost_own", "the same, with all of its own tokens, however many prompts begin alike",
           lambda seed, sight: _work_cost(seed, sight, kind=_Own)),
    _kind("sticky", "llm-d's: 80 % cached, until that is 80,000 tokens (5 s) behind; then the least prefill"),
    Policy("sticky_18s", "the same with llm-d's default of 18 s",
           lambda seed, _sight: Sticky(random.Random(seed), patience=_EIGHTEEN_SECONDS)),
    Policy("aibrix", "AIBrix's prefix-cache: the longest match that is not far above the mean in flight",
           lambda seed, _sight: PrefixCache(random.Random(seed))),
    Policy("cache_aware", "SGLang's: the longest match above 30 %, else the fewest in flight, while those are in balance",
           lambda seed, _sight: CacheAware(random.Random(seed)), room=_TREE),
    Policy("cache_aware_tree", "the same as it was: the smallest tree instead of the fewest in flight",
           lambda seed, sight: CacheAware(random.Random(seed), sight.index.tokens), room=_TREE),
    _kind("prefix_hash", "by the prompt's beginning, bounded load"),
    _kind("least_requests", "the fewest in flight"),
    _kind("power_of_two", "the fewer in flight of two at random"),
    _kind("round_robin", "each in turn"),
    Policy("knowing", "the least seconds to wait and to compute, by a look into the engines",
           lambda seed, sight: Knowing(random.Random(seed), sight.engines, sight.setting.costs)),
    Policy("longest", "the longest match alone", lambda seed, _sight: Longest(random.Random(seed))),
)  # fmt: skip
BY_NAME = {policy.name: policy for policy in POLICIES} | {
    "least_latency": _kind("least_latency", "the first byte expected soonest"),
    "queue_depth": _kind("queue_depth", "as least_requests: no engine here has a queue that the gateway does not count"),
    "consistent_hash": _kind("consistent_hash", "by the session, bounded load"),
}
UNASKED = tuple(policy.name for policy in POLICIES if policy.name != "longest")


def policy_of(text: str) -> Policy:
    """A name, or `work_cost:A:C:B`, where B may be left out; `@` and how several gateways go together may follow. ValueError."""
    plain, apart, between = text.partition("@")
    if apart:
        if between not in BETWEEN:
            raise ValueError(f"gateways are {', '.join(BETWEEN)}: not {between!r}")
        return replace(policy_of(plain), name=text, between=between)
    name, *weights = text.split(":")
    if text in BY_NAME:
        return BY_NAME[text]
    try:
        own, request, relief = map(float, weights if len(weights) == 3 else [*weights, "8192"])
    except ValueError:
        own = request = relief = -1.0
    if name != "work_cost" or not (0 <= own < 1e6 and 0 <= request < 1e9 and relief > 0):
        raise ValueError(f"no policy {text!r}; there are {', '.join(BY_NAME)}, and work_cost:A:C:B")
    return work_cost(own, request, relief)
