"""From a request's body to the library's arguments.

Rules:
1. An allow-list. Nearly every name is an argument of litellm: where to send, with which key, mocks, retries, callbacks. What
   is not one of OpenAI's own parameters is left out, and so are those that choose how the operator is billed.
2. What the library would act upon itself is refused: tools other than functions (it may connect to a server named in
   one), and links that lead to the operator's own storage. The images it may not fetch are `library`'s business.
3. A shape that the library would stumble over is refused here, so that it says nothing about the provider's health; and
   so is a schema that would grow without bound in it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from backends.litellm.schemas import too_large

Operation = Literal["chat", "completions", "embeddings"]

_SAMPLING = frozenset(
    {
        "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "n", "presence_penalty", "seed", "stop",
        "temperature", "top_p", "user",
    }
)  # fmt: skip
_CHAT = frozenset(
    {
        "audio", "function_call", "functions", "max_completion_tokens", "messages", "modalities", "parallel_tool_calls",
        "prediction", "reasoning_effort", "response_format", "tool_choice", "tools", "top_logprobs", "verbosity",
    }
)  # fmt: skip
ALLOWED: dict[Operation, frozenset[str]] = {
    "chat": _SAMPLING | _CHAT,
    "completions": _SAMPLING | {"best_of", "echo", "prompt", "suffix"},
    "embeddings": frozenset({"dimensions", "encoding_format", "input", "user"}),
}
_PATHS: dict[bytes, Operation] = {
    b"/chat/completions": "chat",
    b"/completions": "completions",
    b"/embeddings": "embeddings",
}
_PARTS = frozenset({"text", "image_url", "input_audio", "refusal"})
_LINKS = ("data:", "https://", "http://")
_FIELDS = msgspec.json.Decoder(dict[str, Any])


class Unusable(ValueError):  # noqa: N818 - a verdict on a request, answered with a 400
    """The request cannot be given to the library; `param` is the field at fault."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


def operation_of(path: bytes) -> Operation | None:
    """What is asked for; None: nothing that the library is used for."""
    return _PATHS.get(path)


def arguments_of(operation: Operation, body: bytes) -> dict[str, Any]:
    """The arguments that the request itself decides. Raises Unusable."""
    fields = _FIELDS.decode(body)
    allowed = ALLOWED[operation]
    arguments = {name: value for name, value in fields.items() if name in allowed and value is not None}
    if operation == "chat":
        _check_messages(arguments.get("messages"))
        _check_tools(arguments.get("tools", []))
        _check_schemas(arguments)
    else:
        _check_prompt(arguments, "input" if operation == "embeddings" else "prompt")
    if fields.get("stream") is True and operation != "embeddings":
        arguments["stream"] = True
        arguments["stream_options"] = {"include_usage": True}
    return arguments


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise Unusable("`messages` must be a list of at least one message.", "messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Unusable("Each of `messages` must be an object with a `role`.", "messages")
        content = message.get("content")
        if isinstance(content, list):
            for part in content:
                _check_part(part)
        elif content is not None and not isinstance(content, str):
            raise Unusable("The `content` of a message must be a string or a list of parts.", "messages")


def _check_part(part: Any) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in _PARTS:
        raise Unusable(f"This model takes parts of type {', '.join(sorted(_PARTS))} only.", "messages")
    if kind != "image_url":
        return
    image = part.get("image_url")
    link = image.get("url") if isinstance(image, dict) else image
    if not isinstance(link, str) or not link[:8].lower().startswith(_LINKS):
        raise Unusable("The `url` of an image must be a data URL or an address on the web.", "messages")


def _check_tools(tools: Any) -> None:
    if not isinstance(tools, list) or any(not isinstance(tool, dict) for tool in tools):
        raise Unusable("`tools` must be a list of objects.", "tools")
    if any(tool.get("type") != "function" or not isinstance(tool.get("function"), dict) for tool in tools):
        raise Unusable("This model takes tools of type `function` only.", "tools")


def _check_schemas(arguments: dict[str, Any]) -> None:
    functions = arguments.get("functions")
    schemas = [("tools", tool) for tool in arguments.get("tools", [])]
    schemas += [("functions", function) for function in functions] if isinstance(functions, list) else []
    schemas += [("response_format", arguments.get("response_format"))]
    for name, schema in schemas:
        if too_large(schema):
            raise Unusable(f"A schema in `{name}` becomes too large once its references are written out.", name)


def _check_prompt(arguments: dict[str, Any], name: str) -> None:
    if not isinstance(arguments.get(name), str | list) or not arguments[name]:
        raise Unusable(f"`{name}` must be a string or a list, and not empty.", name)
