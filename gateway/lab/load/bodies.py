"""The bodies of requests: made from prompts, or read from a file of JSON lines."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from gateway.lab.load.arrivals import Arrival
from gateway.lab.load.prompts import Lengths, Prompts

MAX_FILE = 1 << 28

Endpoint = Literal["chat", "completions"]


class Bodies(Protocol):
    def next(self, arrival: Arrival) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Form:
    """What every body of a run has in common. `model`: None leaves a file's own."""

    endpoint: Endpoint
    model: str | None
    stream: bool
    max_tokens: Lengths | None
    ignore_eos: bool = False

    def dress(self, body: dict[str, Any], max_tokens: int | None) -> dict[str, Any]:
        if self.model is not None:
            body["model"] = self.model
        if max_tokens is not None:
            body["max_tokens"] = max_tokens
        if self.ignore_eos:
            body["ignore_eos"] = True
        body["stream"] = self.stream
        if self.stream:
            body["stream_options"] = {"include_usage": True}  # the count of tokens is the server's, not a guess of ours
        else:
            body.pop("stream_options", None)
        return body


class Synthetic:
    def __init__(self, form: Form, prompts: Prompts, rng: random.Random) -> None:
        self._form = form
        self._prompts = prompts
        self._rng = rng

    def next(self, arrival: Arrival) -> bytes:
        most = self._form.max_tokens
        drawn = most.draw(self._rng) if most is not None else None
        body = self._form.dress(self._asked(*self._prompts.next(arrival)), arrival.output_tokens or drawn)
        return msgspec.json.encode(body)

    def _asked(self, prefix: str, prompt: str) -> dict[str, Any]:
        if self._form.endpoint == "completions":
            return {"prompt": prefix + prompt}
        system = [{"role": "system", "content": prefix}] if prefix else []
        return {"messages": [*system, {"role": "user", "content": prompt}]}


class FromFile:
    """The bodies of a file in turn, from the beginning again after the last. Raises ValueError, OSError."""

    def __init__(self, path: Path, form: Form, rng: random.Random) -> None:
        if path.stat().st_size > MAX_FILE:
            raise ValueError(f"{path.name} is larger than 256 MiB")
        bodies = list(_read(path, form, rng))
        if not bodies:
            raise ValueError(f"{path.name} holds no bodies")
        self.first = bodies[0]
        self._turn = itertools.cycle(bodies)

    def next(self, arrival: Arrival) -> bytes:
        del arrival  # the file says it all
        return next(self._turn)


def _read(path: Path, form: Form, rng: random.Random) -> Iterator[bytes]:
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            body = msgspec.json.decode(line, type=dict[str, Any])
        except (ValueError, RecursionError):
            raise ValueError(f"{path.name}, line {number}: not a JSON object") from None
        if form.model is None and not isinstance(body.get("model"), str):
            raise ValueError(f"{path.name}, line {number}: no model; give one with --model")
        yield msgspec.json.encode(form.dress(body, form.max_tokens.draw(rng) if form.max_tokens is not None else None))
