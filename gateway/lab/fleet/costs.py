"""How long a step of an engine takes, and how much an engine holds.

The figures are those which vllm-project/router publishes as defaults of its program scheduling (docs/program_scheduling.md:
prefill_cost_model, decode_throughput_model): measured on one deployment, fit for comparing policies, not for sizing a fleet.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds. A step is one pass of the engine: a token for each request that decodes, and a piece of some prompts.

    `prefill` is paid once by a prompt, with its first piece; a piece from token a to b of a prompt then costs
    `token * (b - a) + square * (b² - a²)`: a token pays for all before it, cached or not.
    """

    prefill: float = 0.066
    token: float = 0.057e-3
    square: float = 0.0044e-6
    step: float = 0.0106
    request: float = 0.42e-3
    context: float = 1.42e-7

    def piece(self, begin: int, end: int) -> float:
        return self.token * (end - begin) + self.square * (end * end - begin * begin)

    def alone(self, prompt: int, cached: int = 0) -> float:
        """The time to the first token of a request that meets nobody."""
        return self.prefill + self.piece(cached, prompt)

    def decode(self, requests: int, context: int, steps: int = 1) -> float:
        """So many steps of `requests` that have `context` tokens together at first, and each one more after each."""
        tokens = context * steps + requests * (steps * (steps - 1) // 2)
        return steps * (self.step + self.request * requests) + self.context * tokens


@dataclass(frozen=True, slots=True)
class Shape:
    """`chunk`: tokens that a step computes at most. `blocks` of `block` tokens: KV memory, of what runs and what is cached."""

    chunk: int = 8192
    seats: int = 256
    blocks: int = 1000
    block: int = 512


_COSTS, _SHAPE = Costs(), Shape()


@dataclass(frozen=True, slots=True)
class Setting:
    """`error`: sigma of a lognormal error of the estimate of a prompt's tokens. `index`: its room, of that of the engine.

    `sessions`: clients name theirs, where the workload knows it. `gateways` share the requests at random; what one
    of them does the others hear of `tell` seconds later at most.
    """

    replicas: int = 12
    slots: int = 256
    costs: Costs = _COSTS
    shape: Shape = _SHAPE
    error: float = 0.0
    index: float = 1.0
    sessions: bool = False
    gateways: int = 1
    tell: float = 0.05
