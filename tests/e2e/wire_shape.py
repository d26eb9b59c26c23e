"""One HTTP exchange on a bare socket, and what is comparable of it between two servers.

Kept of an answer: the status, the header names in their order and the values that do not vary, how the body is framed, and
the shape of the body: keys in their order, types and nulls. An error's message is kept in full. Left out: what must differ,
that is words, numbers, times and ids.
"""

import itertools
import json
import socket
from dataclasses import dataclass
from typing import Any

_VARYING = {b"date", b"content-length", b"set-cookie"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[bytes, bytes]]
    chunks: list[bytes] | None  # the pieces of a chunked body
    body: bytes

    def header(self, name: bytes) -> bytes:
        return next((value for key, value in self.headers if key == name), b"")


def ask(
    port: int, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, seconds: float = 300
) -> Answer:
    lines = [f"{method} {path} HTTP/1.1", "host: engine", "connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        return _parsed(b"".join(iter(lambda: connection.recv(65536), b"")))


def _parsed(raw: bytes) -> Answer:
    head, _, rest = raw.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    chunked = (b"transfer-encoding", b"chunked") in headers
    chunks = list(_dechunked(rest)) if chunked else None
    return Answer(int(first.split()[1]), headers, chunks, rest if chunks is None else b"".join(chunks))


def _dechunked(rest: bytes):
    while True:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            assert rest == b"\r\n", "something stands behind the last chunk"
            return
        assert rest[length : length + 2] == b"\r\n"
        yield rest[:length]
        rest = rest[length + 2 :]


def shape(answer: Answer) -> dict[str, Any]:
    headers = [f"{n.decode()}: {'*' if n in _VARYING else v.decode()}" for n, v in answer.headers]
    told = {"status": answer.status, "headers": headers}
    if answer.header(b"content-type").startswith(b"text/event-stream"):
        return {**told, **_stream(answer)}
    return {**told, "body": _body(answer.body)}


def _body(body: bytes) -> Any:
    if not body:
        return "empty"
    try:
        value = json.loads(body)
    except ValueError:
        return body.decode(errors="replace")[:200]
    spaced = json.dumps(value, ensure_ascii=False).encode() == body and b": " in body
    layout = "spaced" if spaced else "compact"
    return {"layout": layout, "json": value if _is_error(value) else outline(value)}


def _is_error(value: Any) -> bool:
    return isinstance(value, dict) and ("error" in value or "detail" in value)


def _stream(answer: Answer) -> dict[str, Any]:
    events = answer.body.split(b"\n\n")
    assert events.pop() == b"", "the stream does not end with an empty line"
    shapes = [_event(event) for event in events]
    whole = all(chunk.endswith(b"\n\n") and chunk.count(b"\n\n") == 1 for chunk in answer.chunks or ())
    return {"one event a chunk": whole, "events": [one for one, _ in itertools.groupby(shapes)]}


def _event(event: bytes) -> Any:
    assert event.startswith(b"data: "), event
    payload = event[6:]
    if payload == b"[DONE]":
        return "[DONE]"
    return _body(payload)


def outline(value: Any) -> Any:
    """Keys in order, types for values; a list is the outlines that its elements have, repeated ones once."""
    if isinstance(value, dict) and value and all(isinstance(inner, float) for inner in value.values()):
        return "tokens and their probabilities"
    if isinstance(value, dict):
        return {key: _literal(key, inner) if key in _LITERAL else outline(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [one for one, _ in itertools.groupby(map(outline, value))]
    return None if value is None else type(value).__name__


_LITERAL = {"object", "role", "finish_reason", "type", "owned_by", "is_blocking", "organization"}


def _literal(key: str, value: Any) -> Any:
    return value if isinstance(value, str | int | None) else outline(value)


def differences(real: Any, fake: Any, where: str = "") -> list[str]:
    """Where two shapes part, one line each."""
    if isinstance(real, dict) and isinstance(fake, dict):
        found = []
        if list(real) != list(fake):
            only_real, only_fake = [k for k in real if k not in fake], [k for k in fake if k not in real]
            what = (
                f"real has {only_real}, fake has {only_fake}" if only_real or only_fake else f"order {list(real)} / {list(fake)}"
            )
            found.append(f"{where}: keys: {what}")
        return found + [line for key in real if key in fake for line in differences(real[key], fake[key], f"{where}.{key}")]
    if isinstance(real, list) and isinstance(fake, list) and len(real) == len(fake):
        return [line for at, pair in enumerate(zip(real, fake, strict=True)) for line in differences(*pair, f"{where}[{at}]")]
    return [] if real == fake and type(real) is type(fake) else [f"{where}: real {_short(real)} / fake {_short(fake)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 700 else text[:700] + "…"
