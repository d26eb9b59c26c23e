"""Checks of how much a replica is given at once, against what its engine tells of its KV cache.

How many sequences an engine runs at most (vLLM's --max-num-seqs) it tells nobody, so that is not compared.
"""

from __future__ import annotations

from backends.engine import read_engine
from gateway.config import Model
from gateway.config.problems import Path
from gateway.doctor.facts import ReplicaFacts
from gateway.doctor.findings import Finding, warn

_LEAST = 512  # tokens of the KV cache for each slot: a short chat


def capacity(where: Path, model: Model, number: int, facts: ReplicaFacts) -> list[Finding]:
    """`concurrency` fits the engine."""
    reply, own, replica = facts.replies.get("metrics"), model.concurrency, model.replicas[number].name
    view = None if reply is None or reply.status != 200 else read_engine(reply.body)
    place = (*where[:2], "concurrency")
    if own.kind == "adaptive":
        if view is not None or reply is None:
            return []
        what = f"replica {replica} has no /metrics of vLLM's: its slots follow the first bytes of streams alone"
        return [warn((*place, "kind"), what, "Let /metrics through, or set the number that you know: kind: fixed.")]
    kv_tokens = None if view is None else view.kv_tokens
    if kv_tokens is None or own.tokens is not None or kv_tokens >= own.max * _LEAST:
        return []
    what = f"{own.max} slots, and replica {replica} has a KV cache of {kv_tokens:.0f} tokens: {kv_tokens / own.max:.0f} for each"
    return [warn((*place, "max"), what, "Write `kind: adaptive`, or fewer: what does not fit waits inside the engine.")]
