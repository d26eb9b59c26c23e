"""How many tokens to set aside for a request before it ran, without a tokenizer.

A tokenizer on the request path stalls every other request, so the prompt is judged by its bytes. The estimate need
not be right: it is settled to what the backend counted. It must not be zero, and no number in a request may turn it
into a credit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

BYTES_PER_TOKEN = 3.5
"""Where nothing else is known: English in JSON has more, code and most other scripts fewer. See `limits.density`."""


def prompt_tokens(n_bytes: int, bytes_per_token: float = BYTES_PER_TOKEN) -> int:
    """Tokens of a prompt of so many bytes, rounded up, at least one."""
    tokens = math.ceil(n_bytes / bytes_per_token)
    return tokens if tokens > 1 else 1


def longest(n: int, maximums: Iterable[int | None]) -> int | None:
    """The most output tokens of a request with `n` answers, each as long as the larger maximum allows; None: it names none.

    An explicit 0 is a value. `n` is the number of sequences that are generated, so the larger of n and best_of. Both are
    bounded below: a negative number is a zero, and there is at least one answer.
    """
    given = [value for value in maximums if value is not None]
    return max(1, n) * max(0, *given) if given else None


def reservation(prompt: int, n: int, most: int | None, default: int) -> int:
    """The most that a request may use: its prompt, and `most` tokens of answers, as `longest` tells, or `n` times the default."""
    if most is None:
        most = (n if n > 1 else 1) * (default if default > 0 else 0)
    return prompt + most if prompt > 0 else most
