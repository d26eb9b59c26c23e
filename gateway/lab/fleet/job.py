"""One request of a simulated fleet."""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    """`at` seconds; `prompt` and `output` tokens, at least 1 each.

    `keys`: of the full blocks of the prompt, equal for equal prompts up to the block's end. `session`: where it is known.
    """

    number: int
    at: float
    prompt: int
    output: int
    keys: tuple[int, ...] = ()
    session: str | None = None
