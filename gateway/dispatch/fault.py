"""An error on its way from one process to the other."""

from __future__ import annotations

import msgspec

from gateway.errors import ApiError


class Fault(msgspec.Struct):
    """An ApiError on its way from one process to the other."""

    status: int
    code: str
    message: str
    kind: str
    param: str | None
    headers: dict[str, str]
    outcome: str

    def error(self) -> ApiError:
        return ApiError(
            self.status, self.code, self.message, kind=self.kind, param=self.param, headers=self.headers, outcome=self.outcome
        )

    @classmethod
    def of(cls, error: ApiError) -> Fault:
        return cls(error.status, error.code, error.message, error.kind, error.param, error.headers, error.outcome)


def encoded(error: ApiError) -> bytes:
    return msgspec.json.encode(Fault.of(error))


def decoded(fault: bytes) -> ApiError:
    return msgspec.json.decode(fault, type=Fault).error()
