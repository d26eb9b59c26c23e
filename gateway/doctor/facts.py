"""What was found out about a replica. Filled in as answers come, so that a deadline leaves what there was by then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gateway.doctor.certificates import Certificate

Question = Literal["health", "models", "version", "metrics", "deep"]
Trouble = Literal["dns", "connect", "timeout", "broken", "not_http", "certificate"]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `asked` and `seconds`: our own time when the question left, and how long the answer took."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    asked: float
    seconds: float

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True)
class Silence:
    """Why there is no answer."""

    trouble: Trouble
    why: str


@dataclass(slots=True)
class ReplicaFacts:
    """`stopped`: why nothing more could be asked."""

    addresses: tuple[str, ...] = ()
    certificate: Certificate | None = None
    replies: dict[Question, Reply] = field(default_factory=dict)
    silences: dict[Question, Silence] = field(default_factory=dict)
    stopped: Silence | None = None
    finished: bool = False
