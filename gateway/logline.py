"""The log line of a request, field by field in this order. Times in milliseconds, `ts` in seconds since 1970.

The fields of the first part are on every line; those of the second only where there is something to say.
"""

from __future__ import annotations

from msgspec import Struct


class LogLine(Struct, omit_defaults=True, gc=False):  # a dict of so many fields takes five times as long to make
    ts: float
    request_id: str
    client: str
    tenant: str | None
    key: str | None
    method: str
    endpoint: str
    status: int
    outcome: str
    stream: bool
    requested: str
    model: str
    tier: str
    route: str
    score: float | None
    cache: str
    replica: str
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    charged_tokens: int
    queue_ms: float
    ttft_ms: float | None
    duration_ms: float
    overhead_ms: float

    client_request_id: str = ""
    preempted: str = ""
    error: str = ""
    cache_reason: str = ""
    semantic: str = ""
    semantic_score: float | None = None
    feedback_on: str | None = None
    feedback_score: float | None = None
    cascade: str = ""
    small_tokens: int | None = None
    classifier: str = ""
    classifier_failed: str = ""
    policy: str = ""
    cut: float | None = None
    terms: dict[str, float] | None = None
