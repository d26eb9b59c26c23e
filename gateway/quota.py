"""The `x-ratelimit-*` headers: what is left, in the forms that OpenAI's clients read."""

from __future__ import annotations

from math import ceil

from limits.types import Standing


def wire_duration(seconds: float) -> str:
    """A time in OpenAI's form: `0s`, `20ms`, `7.66s`, `6m0s`, `1h0m3s`. Rounded up: who waits so long has waited enough."""
    if seconds <= 0:
        return "0s"
    milliseconds = ceil(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    hundredths = ceil(seconds * 100)
    if hundredths < 6000:
        return f"{hundredths / 100:g}s"
    hours, rest = divmod(ceil(seconds), 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}h{minutes}m{left}s" if hours else f"{minutes}m{left}s"


def rate_lines(standing: Standing) -> str:
    """Header lines, each with its end. A resource without a limit has none."""
    lines = ""
    if standing.request_limit is not None:
        left, reset = standing.request_remaining, standing.request_reset
        lines = (
            f"x-ratelimit-limit-requests: {standing.request_limit}\r\n"
            f"x-ratelimit-remaining-requests: {left if left and left > 0 else 0}\r\n"
            f"x-ratelimit-reset-requests: {wire_duration(reset) if reset else '0s'}\r\n"
        )
    if standing.token_limit is not None:
        left, reset = standing.token_remaining, standing.token_reset
        lines += (
            f"x-ratelimit-limit-tokens: {standing.token_limit}\r\n"
            f"x-ratelimit-remaining-tokens: {left if left and left > 0 else 0}\r\n"
            f"x-ratelimit-reset-tokens: {wire_duration(reset) if reset else '0s'}\r\n"
        )
    return lines
