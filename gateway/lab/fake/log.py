"""What the fake server received, for tests to look at: the last 10,000 requests, long bodies shortened.

An entry exists from the moment its request was read; what happens later (tokens, the end, a departure) is written into it.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

KEPT = 10_000
KEPT_BYTES = 64 * 1024 * 1024
LONGEST_BODY = 64 * 1024


@dataclass(slots=True, eq=False)
class Entry:
    """One request. Times are seconds since the epoch."""

    id: int
    time: float
    method: str
    path: str
    raw_headers: list[tuple[bytes, bytes]]
    raw: bytes
    size: int = 0
    sha256: str | None = None
    status: int | None = None
    request_id: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    first_token_at: float | None = None
    ended_at: float | None = None
    aborted: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """By lower-case name; the last of several equal ones."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.raw_headers}

    @property
    def text(self) -> str:
        return self.raw.decode("utf-8", "replace")

    @property
    def body(self) -> Any:
        """The JSON body; None when there is none, it is not JSON, or it was too long to keep."""
        try:
            return json.loads(self.raw)
        except ValueError:
            return None

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "time": self.time,
            "method": self.method,
            "path": self.path,
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self.raw_headers],
            "body": self.body,
            "raw": self.text,
            "size": self.size,
            "sha256": self.sha256,
            "status": self.status,
            "request_id": self.request_id,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "tokens": self.tokens,
            "first_token_at": self.first_token_at,
            "ended_at": self.ended_at,
            "aborted": self.aborted,
        }


class Log:
    """Iterates from the oldest entry to the newest."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._made = 0

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, time: float, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes) -> Entry:
        self._made += 1
        entry = Entry(self._made, time, method, path, headers, body, len(body))
        if len(body) > LONGEST_BODY:
            entry.raw, entry.sha256 = body[:LONGEST_BODY], hashlib.sha256(body).hexdigest()
        self._entries.append(entry)
        self._bytes += len(entry.raw)
        while len(self._entries) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._entries.popleft().raw)
        return entry

    def clear(self) -> None:
        self._entries.clear()
        self._bytes = 0
