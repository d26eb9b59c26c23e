"""An error answer on its way from one process to another."""

from __future__ import annotations

import msgspec

from gateway.errors import ApiError, BackendAnswer
from gateway.outcomes import RequestOutcome


class Fault(msgspec.Struct, omit_defaults=True):
    """An ApiError. With `answer` it is a backend's own, which passes on byte for byte."""

    status: int
    code: str
    message: str
    kind: str
    param: str | None
    headers: dict[str, str]
    outcome: RequestOutcome
    content_type: str = ""
    answer: bytes | None = None

    def error(self) -> ApiError:
        if self.answer is not None:
            error: ApiError = BackendAnswer(self.status, self.content_type.encode("latin-1"), self.answer, self.headers)
        else:
            error = ApiError(self.status, self.code, self.message, kind=self.kind, param=self.param, headers=self.headers)
        error.outcome = self.outcome
        return error

    @classmethod
    def of(cls, error: ApiError) -> Fault:
        fault = cls(error.status, error.code, error.message, error.kind, error.param, error.headers, error.outcome)
        if isinstance(error, BackendAnswer):
            fault.content_type, fault.answer = error.content_type.decode("latin-1"), error.answer
        return fault


def encoded(error: ApiError) -> bytes:
    return msgspec.json.encode(Fault.of(error))


def decoded(fault: bytes) -> ApiError:
    return msgspec.json.decode(fault, type=Fault).error()
