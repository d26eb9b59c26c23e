"""How many tokens to set aside for a request before it ran, without a tokenizer.

A tokenizer on the request path stalls every other request, so the prompt is judged by its bytes. The estimate need
not be right: it is settled to what the backend counted. It must not be zero, and no number in a request may turn it
into a credit.
"""

from __future__ import annotations

import math


def prompt_tokens(n_bytes: int, bytes_per_token: float = 3.5) -> int:
    """Tokens of a prompt of so many bytes, rounded up, at least one."""
    return max(1, math.ceil(n_bytes / bytes_per_token))


def reservation(prompt: int, n: int, max_tokens: int | None, max_completion_tokens: int | None, default: int) -> int:
    """The most that a request may use: its prompt and `n` answers, each as long as the larger maximum allows.

    `default` counts only where neither maximum is given: an explicit 0 is a value. `n` is the number of sequences
    that are generated, so the larger of n and best_of. Both are bounded below: a negative number is a zero, and
    there is at least one answer.
    """
    given = [value for value in (max_tokens, max_completion_tokens) if value is not None]
    each = max(given, default=default)
    return max(0, prompt) + max(1, n) * max(0, each)
