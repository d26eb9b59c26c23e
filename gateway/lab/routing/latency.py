"""What one decision costs: CPU time of all threads, so that a busy machine does not make it longer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from gateway.lab.routing.scored import Judge

MOST = 500  # prompts
LONG = 4000  # characters of a long ask
LONGS = 40
_WARM = 20


def prompts_of(prompts: Sequence[str], count: int = MOST) -> list[str]:
    """Evenly out of the set."""
    step = max(1, len(prompts) // count)
    return list(prompts[::step][:count])


def long_asks(prompts: Sequence[str]) -> list[str]:
    """Asks of LONG characters, made of the set's prompts one after the other."""
    text = "\n".join(prompts_of(prompts, 4 * MOST))
    while 0 < len(text) < LONG:
        text = f"{text}\n{text}"
    starts = np.linspace(0, max(0, len(text) - LONG), LONGS).astype(int)
    return [text[start : start + LONG] for start in starts]


def latency(judge: Judge, prompts: Sequence[str], clock: Callable[[], int] = time.process_time_ns) -> dict[str, float]:
    """Milliseconds at the middle and at the end. Each prompt has a number before it: what was remembered of it helps nobody."""
    for prompt in prompts[:_WARM]:
        judge(prompt)
    took = []
    for number, prompt in enumerate(prompts):
        asked = f"{number}. {prompt}"
        start = clock()
        judge(asked)
        took.append(clock() - start)
    p50, p99 = np.quantile(np.array(took) / 1e6, [0.5, 0.99])
    return {"p50_ms": float(p50), "p99_ms": float(p99)}
