"""What `/v1/responses` and `/v1/messages` share: streams of named events, a conversation made of the request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gateway.lab.fake.exchange import encode
from gateway.lab.fake.reply import Reply


def event(name: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode({"type": name, **fields}))


def text_of(content: Any) -> Any:
    """The content of a message: text, or parts of which those with a `text` are text."""
    return content if isinstance(content, str | list) else ""


def function(name: Any, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": str(name), "parameters": parameters}}


def joined(steps: Iterable[Sequence[bytes]], closing: bytes, reply: Reply) -> list[bytes]:
    """One piece a token: those of all blocks, and the end of it all as the end token's, or with the last piece."""
    pieces = [piece for step in steps for piece in step]
    if reply.eos or not pieces:
        return [*pieces, closing]
    return [*pieces[:-1], pieces[-1] + closing]
