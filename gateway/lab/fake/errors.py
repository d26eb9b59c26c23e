"""vLLM's error bodies: `{"error": {"message", "type", "param", "code"}}`, the code an integer, always the HTTP status.

Two families: `bad` is what vLLM's own checks say; `invalid` is what the body's types say before them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

_SHOWN = 10
_INPUT_CHARS = 200


class VLLMError(Exception):
    """An answer that is an error, in vLLM's shape."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}}

    def event(self) -> bytes:
        """The same as an event of a stream; vLLM writes this one with spaces after the separators."""
        return b"data: " + json.dumps(self.body()).encode() + b"\n\n"


class UnreadableError(VLLMError):
    """A body that is no text, which the framework refuses in a shape of its own."""

    def __init__(self) -> None:
        super().__init__(400, "", "There was an error parsing the body")

    def body(self) -> dict[str, Any]:
        return {"detail": self.message}


def bad(message: str, param: str | None = None, value: object = None) -> VLLMError:
    """A 400 of vLLM's own; the message ends with the parameter and the value, as vLLM's do."""
    extras = [f"parameter={param}"] if param is not None else []
    if value is not None:
        extras.append(f"value={value}")
    suffix = f" ({', '.join(extras)})" if extras else ""
    return VLLMError(400, "BadRequestError", message + suffix, param)


def invalid(errors: Sequence[dict[str, Any]]) -> VLLMError:
    """A 400 of the body's types: every error with its place, at most ten of them."""
    label = "error" if len(errors) == 1 else "errors"
    lines = [f"{len(errors)} validation {label}:", *(f"  {_shown(error)}" for error in errors[:_SHOWN])]
    if len(errors) > _SHOWN:
        lines.append(f"  ...and {len(errors) - _SHOWN} more {label}")
    return VLLMError(400, HTTPStatus.BAD_REQUEST.phrase, "\n".join(lines), errors[0]["loc"])


def not_json_type() -> VLLMError:
    message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
    return VLLMError(400, HTTPStatus.BAD_REQUEST.phrase, message)


def unknown_model(model: object, served: Sequence[str]) -> VLLMError:
    message = f"The model `{model}` does not exist. Valid aliases: {', '.join(served)}."
    return VLLMError(404, "NotFoundError", message, "model")


def overflow() -> VLLMError:
    message = "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."
    return VLLMError(503, HTTPStatus.SERVICE_UNAVAILABLE.phrase, message)


def _shown(error: dict[str, Any]) -> dict[str, Any]:
    value = error.get("input")
    if isinstance(value, (list, dict)):
        value = f"<{type(value).__name__} of {len(value)} items>"
    else:
        value = str(value)
        if len(value) > _INPUT_CHARS:
            value = value[:_INPUT_CHARS] + "...[truncated]"
    return {**error, "input": value} if "input" in error else error
