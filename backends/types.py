"""The small values that pools, leases and balance policies hand to each other."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(slots=True)  # made for every request: a frozen one takes three times as long to make
class Ask:
    """What a balance policy may know of a request. `tokens`: of its prompt and of the answer that it is thought to get."""

    session: str | None = None
    prompt_tokens: int = 0
    tokens: int = 0
    stream: bool = False


NOBODY = Ask()


class Outcome(enum.Enum):
    """What an attempt said about its replica, which is not the same as what the client was told.

    OK       the replica did its work: also a 400, which took a working engine to find
    FAILED   a 5xx, a broken connection, a deadline that passed
    NEUTRAL  it says nothing: 429 and other refusals, a 503 that named a time to come back, a client that left
    """

    OK = "ok"
    FAILED = "failed"
    NEUTRAL = "neutral"
