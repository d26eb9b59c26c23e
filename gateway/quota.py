"""The `x-ratelimit-*` headers: what is left, in the forms that OpenAI's clients read."""

from __future__ import annotations

import math

from limits.types import Standing


def wire_duration(seconds: float) -> str:
    """A time in OpenAI's form: `0s`, `20ms`, `7.66s`, `6m0s`, `1h0m3s`. Rounded up: who waits so long has waited enough."""
    if seconds <= 0:
        return "0s"
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    hundredths = math.ceil(seconds * 100)
    if hundredths < 6000:
        return f"{hundredths / 100:g}s"
    hours, rest = divmod(math.ceil(seconds), 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}h{minutes}m{left}s" if hours else f"{minutes}m{left}s"


def rate_lines(standing: Standing) -> list[str]:
    """Header lines without their ends. A resource without a limit has none."""
    lines = []
    if standing.request_limit is not None:
        lines.append(
            f"x-ratelimit-limit-requests: {standing.request_limit}\r\n"
            f"x-ratelimit-remaining-requests: {max(0, standing.request_remaining or 0)}\r\n"
            f"x-ratelimit-reset-requests: {wire_duration(standing.request_reset or 0)}"
        )
    if standing.token_limit is not None:
        lines.append(
            f"x-ratelimit-limit-tokens: {standing.token_limit}\r\n"
            f"x-ratelimit-remaining-tokens: {max(0, standing.token_remaining or 0)}\r\n"
            f"x-ratelimit-reset-tokens: {wire_duration(standing.token_reset or 0)}"
        )
    return lines
