"""What a fake vLLM is told when it starts: its models, its speed, its size and its switches.

The names are those of vLLM's own flags where vLLM has one. A profile is a set of speeds; a flag beside it wins over it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m)?")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, None: 1.0}


class Profile(NamedTuple):
    """Seconds: before the first token, between tokens, and for each prompt token that the prefix cache does not hold."""

    ttft: float
    itl: float
    prefill: float


PROFILES = {
    "instant": Profile(0.0, 0.0, 0.0),
    "8b": Profile(0.020, 0.007, 0.00005),
    "70b": Profile(0.060, 0.025, 0.0004),
}


def duration(text: str) -> float:
    """`20ms`, `0.5s`, `1m` or plain seconds, as seconds."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a duration: write 20ms, 0.5s or plain seconds")
    return float(found[1]) * _UNITS[found[2]]


@dataclass(frozen=True, slots=True)
class Options:
    """The default is an instant server of one model, `fake`, which is what most tests want."""

    models: tuple[str, ...] = ("fake",)
    lora_modules: tuple[str, ...] = ()
    profile: str = "instant"
    ttft: float | None = None
    itl: float | None = None
    prefill: float | None = None
    tokens: int = 16
    max_num_seqs: int = 256
    max_num_queued_reqs: int | None = None
    max_model_len: int = 32768
    block_size: int = 16
    kv_blocks: int = 16384
    seed: int = 0
    api_key: str | None = field(default=None, repr=False)
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    strict_priority: bool = False
    enable_prompt_tokens_details: bool = False
    tool_call_parser: str | None = None
    guided_json: bool = False
    dimensions: int = 64
    script: str | None = None
    host: str = "127.0.0.1"
    port: int = 0

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("a fake vLLM needs the name of at least one model")
        if self.profile not in PROFILES:
            raise ValueError(f"profile {self.profile!r} is none of {', '.join(PROFILES)}")
        for name in ("tokens", "max_num_seqs", "max_model_len", "block_size", "kv_blocks", "dimensions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.kv_blocks * self.block_size < self.max_model_len:
            raise ValueError(
                f"a request of max_model_len={self.max_model_len} tokens does not fit into "
                f"{self.kv_blocks} blocks of {self.block_size}: raise kv_blocks or lower max_model_len"
            )

    @property
    def speed(self) -> Profile:
        base = PROFILES[self.profile]
        return Profile(
            base.ttft if self.ttft is None else self.ttft,
            base.itl if self.itl is None else self.itl,
            base.prefill if self.prefill is None else self.prefill,
        )
