"""The requests that `tiergate fake-vllm` and vLLM are both asked: those of fake_cases.yaml, raw bodies, keys and paths."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

GROUPS = yaml.safe_load(Path(__file__).with_name("fake_cases.yaml").read_text(encoding="utf-8"))["groups"]
CHAT = "/v1/chat/completions"
GOOD = json.dumps(GROUPS[0]["body"]).encode()
ABSENT = {"$absent": True}

BODIES = {
    "empty": b"",
    "half": b'{"model":',
    "array": b"[]",
    "text": b'"hello"',
    "number": b"1",
    "null": b"null",
    "trailing": GOOD + b"x",
    "comma": b'{"model": "e2e-small",}',
    "not utf-8": b'{"model": "\xff"}',
    "nan": b'{"temperature": NaN, ' + GOOD[1:],
    "surrogate": b'{"model": "e2e-small", "messages": [{"role": "user", "content": "\\ud800"}], "max_tokens": 4}',
    "twice": b'{"max_tokens": 1, ' + GOOD[1:],
    "bom": b"\xef\xbb\xbf" + GOOD,
}
TYPES = ("text/plain", "application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json", "multipart/form-data")
PATHS = """
GET /v1/models, HEAD /v1/models, POST /v1/models, GET /v1/models/, GET /v1/models/e2e-small, GET /v1/models/none, GET /V1/models,
GET /health, HEAD /health, POST /health, GET /health/, GET /ping, POST /ping, GET /version, GET /load, GET /, GET /none, GET /v1,
GET /v1/chat/completions, PUT /v1/chat/completions, DELETE /v1/chat/completions, OPTIONS /v1/chat/completions, GET //v1/models,
GET /v1/completions, GET /tokenize, GET /tokenizer_info, GET /is_sleeping, GET /sleep, GET /fake, POST /reset_prefix_cache,
GET /v1/models/?a=b, GET /server_info, POST /metrics
"""


@dataclass(frozen=True)
class Case:
    name: str
    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


def cases(key: str) -> Iterator[Case]:
    auth = {"authorization": f"Bearer {key}"}
    typed = {**auth, "content-type": "application/json"}
    for group in GROUPS:
        for name, change in group["cases"].items():
            body = {member: _expanded(value) for member, value in {**group["body"], **change}.items() if value != ABSENT}
            yield Case(f"{group['name']}: {name}", "POST", group["path"], json.dumps(body).encode(), typed)
    for name, body in BODIES.items():
        yield Case(f"body: {name}", "POST", CHAT, body, typed)
    for kind in TYPES:
        yield Case(f"content type: {kind}", "POST", CHAT, GOOD, {**auth, "content-type": kind})
    yield Case("content type: none", "POST", CHAT, GOOD, auth)
    yield Case("header: x-request-id", "POST", CHAT, GOOD, {**typed, "x-request-id": "abc"})
    yield Case("header: origin", "POST", CHAT, GOOD, {**typed, "origin": "http://page"})
    yield Case("a slash too many", "POST", CHAT + "/", GOOD, typed)
    yield Case("embeddings", "POST", "/v1/embeddings", json.dumps({"model": "e2e-small", "input": "x"}).encode(), typed)
    yield from _keys(key)
    for line in PATHS.replace("\n", " ").split(","):
        method, path = line.split()
        yield Case(f"{method} {path}", method, path, None, auth)


def _keys(key: str) -> Iterator[Case]:
    for name, headers in {
        "none": {},
        "wrong": {"authorization": "Bearer no"},
        "basic": {"authorization": f"Basic {key}"},
        "lower": {"authorization": f"bearer {key}"},
        "api-key": {"api-key": key},
        "x-api-key": {"x-api-key": key},
    }.items():
        yield Case(f"key: {name}", "GET", "/v1/models", None, headers)
    yield Case("key: none, and no such path", "GET", "/v1/none")


def _expanded(value: Any) -> Any:
    """`{$repeat: [text, n]}` written out, wherever it stands."""
    if isinstance(value, dict):
        if "$repeat" in value:
            what, times = value["$repeat"]
            return what * times
        return {name: _expanded(inner) for name, inner in value.items()}
    return [_expanded(inner) for inner in value] if isinstance(value, list) else value
