"""What was measured of one request. Times are of one clock, in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    OK = "ok"
    HTTP_ERROR = "http_error"  # a status from 400 on
    STREAM_ERROR = "stream_error"  # an error told in an answer that began as a 200
    CUT = "cut"  # a stream that ended without saying that it was complete
    BROKEN = "broken"  # the connection ended before the answer, or what came was no HTTP
    BAD_ANSWER = "bad_answer"  # a 200 that is not what was asked for
    TIMEOUT = "timeout"
    CONNECT_FAILED = "connect_failed"
    UNFINISHED = "unfinished"  # still running when the run was ended


@dataclass(slots=True)
class Sample:
    due: float  # when it should have been sent: latencies count from here
    sent: float
    ended: float
    outcome: Outcome
    status: int = 0
    code: str = ""  # of the error
    message: str = ""
    first: float | None = None  # the first token
    last: float | None = None  # the last one
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)  # what the gateway's headers told

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def lag(self) -> float:
        return self.sent - self.due

    @property
    def e2e(self) -> float:
        return self.ended - self.due

    @property
    def ttft(self) -> float | None:
        return None if self.first is None else self.first - self.due

    @property
    def tpot(self) -> float | None:
        """Mean time from a token to the next, after the first."""
        if self.first is None or self.last is None or self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.last - self.first) / (self.output_tokens - 1)
