"""Failures on demand: rules that a test or `POST /fake/faults` adds, drawn for each request.

A rule names one or more faults and may carry `times` (it heals after so many requests), `probability` (drawn from a seeded
RNG) and `path` (a part of the path it is for). Without `path` a rule is for every POST; `unhealthy` is for `/health`.
Several rules that hit the same request add up; of two that set the same fault the older one wins.

    status                   answer with this status, at once; `body` (any JSON, or a string as it is) and `headers` go with it
    close_before_headers     read the request, then close the connection without a byte
    hang_before_headers      true: no answer ever; a number: that many seconds later
    hang_before_first_token  the same between the response head and the first token (of a stream)
    cut_after_tokens         close the connection after N tokens of a stream; of a JSON answer, in the middle of its body
    reset                    with `cut_after_tokens` or `close_before_headers`: a TCP reset rather than an end of file
    error_in_stream          true, N or {"after": N, "error": {...}}: an error event after N tokens, then `[DONE]`, as vLLM does
    malformed_chunk          true or N: one event that is not JSON, after N tokens, in a stream that is good otherwise
    slow                     seconds more for each token
    drop_done                no `data: [DONE]`
    hang_at_end              true, or so many seconds between the last event of a stream and the end of its body
    usage_missing            no usage, asked for or not
    usage_on_content_chunk   the usage rides on the last chunk with choices, and there is no chunk of its own
    split                    the body in pieces of N bytes
    unhealthy                /health answers 503
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(slots=True, kw_only=True)
class Fault:
    """One rule, or several merged for one request."""

    status: int | None = None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    close_before_headers: bool = False
    hang_before_headers: bool | float = False
    hang_before_first_token: bool | float = False
    cut_after_tokens: int | None = None
    reset: bool = False
    error_in_stream: bool | int | Mapping[str, Any] | None = None
    malformed_chunk: bool | int | None = None
    slow: float = 0.0
    drop_done: bool = False
    hang_at_end: bool | float = False
    usage_missing: bool = False
    usage_on_content_chunk: bool = False
    split: int | None = None
    unhealthy: bool = False
    times: int | None = None
    probability: float = 1.0
    path: str | None = None

    def hits(self, method: str, path: str) -> bool:
        if self.times is not None and self.times <= 0:
            return False
        if self.path is not None:
            return self.path in path
        return path == "/health" if self.unhealthy else method == "POST"

    def error_after(self) -> int | None:
        """Tokens before the error event; None without one. `true` is at once."""
        where = self.error_in_stream
        if isinstance(where, Mapping):
            return int(where.get("after", 0))
        return None if where is None or where is False else 0 if where is True else int(where)

    def malformed_after(self) -> int | None:
        where = self.malformed_chunk
        return None if where is None or where is False else 1 if where is True else int(where)

    def shown(self) -> dict[str, Any]:
        """Only what is set."""
        return {spec.name: value for spec in fields(self) if (value := getattr(self, spec.name)) != _UNSET[spec.name]}


_UNSET = {spec.name: getattr(Fault(), spec.name) for spec in fields(Fault)}


class Faults:
    """The rules in force."""

    def __init__(self, seed: int = 0) -> None:
        self.rules: list[Fault] = []
        self._rng = random.Random(seed)

    def add(self, **rule: Any) -> Fault:
        """Raises ValueError for a fault that is not known."""
        self.extend([rule])
        return self.rules[-1]

    def extend(self, rules: Sequence[Any]) -> None:
        """All of them or, when one is wrong, none."""
        for rule in rules:
            unknown = sorted(rule.keys() - _UNSET.keys()) if isinstance(rule, Mapping) else [repr(rule)]
            if unknown:
                raise ValueError(f"unknown fault {', '.join(unknown)}; known: {', '.join(sorted(_UNSET))}")
        self.rules += [Fault(**rule) for rule in rules]

    def clear(self) -> None:
        self.rules.clear()

    def draw(self, method: str, path: str) -> Fault | None:
        """The faults of this request; counts them, so it is called once for each."""
        if not self.rules:
            return None
        drawn = [rule for rule in self.rules if rule.hits(method, path)]
        drawn = [rule for rule in drawn if rule.probability >= 1 or self._rng.random() < rule.probability]
        for rule in drawn:
            if rule.times is not None:
                rule.times -= 1
        self.rules = [rule for rule in self.rules if rule.times is None or rule.times > 0]
        return _merge(drawn) if drawn else None


def _merge(rules: list[Fault]) -> Fault:
    if len(rules) == 1:
        return rules[0]
    merged: dict[str, Any] = {}
    for rule in rules:
        for name, value in rule.shown().items():
            merged.setdefault(name, value)
    return Fault(**merged)
