"""What `vllm bench serve` counted, as docs/vllm-bench.json has it, and its part of docs/conformance.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import msgspec

DATA = "vllm-bench.json"
TARGETS = ("straight", "tiergate before one", "tiergate before two")


class Spread(msgspec.Struct, frozen=True):
    """Milliseconds."""

    mean: float
    median: float
    p99: float


class Taken(msgspec.Struct, frozen=True):
    """One run. `counted`: what the gateway counted of it, warm-ups included: whole answers, others, tokens made."""

    target: str
    endpoint: str
    asked: int
    warm_ups: int
    completed: int
    errors: int
    seconds: float
    tokens: int
    ttft: Spread
    tpot: Spread
    itl: Spread
    counted: dict[str, int] = {}

    def right(self) -> bool:
        """Nothing failed, and the gateway, where there is one, counted what the client did."""
        whole = self.completed == self.asked and not self.errors
        return whole and self.counted in ({}, {"ok": self.asked + self.warm_ups, "others": 0, "tokens": self.expected()})

    def expected(self) -> int:
        """Tokens of all answers: each of a run is as long as the others."""
        return self.tokens // self.completed * (self.asked + self.warm_ups)

    def told(self) -> str:
        times = (f"{name} {of.median} ms" for name, of in (("TTFT", self.ttft), ("TPOT", self.tpot), ("ITL", self.itl)))
        return f"{self.completed} completed, {self.errors} errors, {', '.join(times)}"


class Served(msgspec.Struct):
    date: str
    version: str  # of tiergate
    engine: str  # of vLLM
    load: str
    busy: tuple[float, float]  # the machine's load average (15 min) before and after
    runs: list[Taken]


def section(folder: Path) -> Iterator[str]:
    """Nothing where it was not run."""
    file = folder / DATA
    if not file.is_file():
        return
    served = msgspec.json.decode(file.read_bytes(), type=Served)
    yield "## vLLM's own `vllm bench serve`, before real vLLM\n"
    yield (
        f"Made by `python -m bench.conformance.vllm_bench` with the environment of `make e2e`, on {served.date}: vLLM "
        f"{served.engine} on the CPU, SmolLM2-135M, tiergate {served.version}. Each run sends {served.load}; each round sends "
        "every target the same prompts, over prefix caches that were emptied before. Medians over the rounds, in ms. Servers, "
        "gateway and client share two cores, so two servers are no faster than one here. "
        f"Load average of the machine before and after: {served.busy[0]:.1f}, {served.busy[1]:.1f}; on a busy one the times are "
        "its neighbours' as well, and what counts is that nothing is lost.\n"
    )
    yield "| endpoint | target | runs | completed | errors | TTFT median, p99 | TPOT median, p99 | ITL median, p99 | tokens/s |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for endpoint in dict.fromkeys(run.endpoint for run in served.runs):
        for target in TARGETS:
            runs = [run for run in served.runs if (run.endpoint, run.target) == (endpoint, target)]
            if runs:
                yield f"| `{endpoint}` | {target} | {' | '.join(_cells(runs))} |"
    yield ""


def _cells(runs: list[Taken]) -> Iterator[str]:
    yield str(len(runs))
    yield str(sum(run.completed for run in runs))
    yield str(sum(run.errors for run in runs))
    for of in ("ttft", "tpot", "itl"):
        spreads: list[Spread] = [getattr(run, of) for run in runs]
        yield f"{statistics.median(one.median for one in spreads):.1f}, {statistics.median(one.p99 for one in spreads):.1f}"
    yield f"{statistics.median(run.tokens / run.seconds for run in runs):.0f}"
