"""Goodput: the requests that met every target of a service level objective. An error, a cut or a drop meets none.

A TPOT needs two tokens: an answer of one met it. A TTFT needs a stream, and an answer without a token did not meet it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.lab.load.sample import Sample
from gateway.units import parse_duration

TARGETS = ("ttft", "tpot", "e2e")


@dataclass(frozen=True, slots=True)
class Slo:
    """Seconds; None: no such target."""

    text: str
    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    @classmethod
    def parse(cls, text: str) -> Slo:
        """`ttft=200ms,tpot=50ms`. Raises ValueError."""
        found: dict[str, float] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            if name not in TARGETS or name in found:
                raise ValueError(f"{text!r} is no SLO: write for example ttft=200ms,tpot=50ms,e2e=10s, each at most once")
            try:
                found[name] = parse_duration(value)
            except ValueError:
                raise ValueError(f"{value!r} is no duration: write for example {name}=200ms") from None
        return cls(text, **found)

    def met(self, sample: Sample) -> bool:
        return (
            sample.ok
            and (self.ttft is None or (sample.ttft is not None and sample.ttft <= self.ttft))
            and (self.tpot is None or sample.tpot is None or sample.tpot <= self.tpot)
            and (self.e2e is None or sample.e2e <= self.e2e)
        )
