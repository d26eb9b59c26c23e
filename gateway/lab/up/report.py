"""What the one who started the trial is told: progress on stderr while things load, how to use it on stdout at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gateway.lab.up.engines import Backend
from gateway.lab.up.settings import Keys, semantic

# Within the means of a tiny model, and short: an answer that was cut off is not cached.
EASY, OTHER_WORDS, HARD = "Who wrote Hamlet?", "Who is the author of Hamlet?", "Compare a list and a tuple in Python."


class Progress:
    """Lines that stay. While there is only waiting: on a terminal one line with the seconds, else a line now and then."""

    EVERY = 15

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._passing = ""
        self._said = 0

    def line(self, text: str) -> None:
        if self._passing:
            print("\r\x1b[K", end="", file=self._stream)
            self._passing = ""
        print(f"tiergate up: {text}", file=self._stream, flush=True)

    def waiting(self, seconds: float, names: str) -> None:
        text = f"waiting for {names}, {int(seconds)} s"
        if self._live and text != self._passing:
            print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)
            self._passing = text
        elif not self._live and int(seconds) % self.EVERY == 0 and int(seconds) not in (0, self._said):
            self._said = int(seconds)
            self.line(text)


@dataclass(frozen=True, slots=True)
class Ready:
    """A trial that answers."""

    host: str
    port: int
    keys: Keys
    backends: Sequence[Backend]
    note: str
    folder: Path

    @property
    def base_url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1"

    def as_json(self) -> str:
        return json.dumps(
            {
                "base_url": self.base_url,
                "api_key": self.keys.client,
                "admin_key": self.keys.admin,
                "models": ["auto", *(backend.model for backend in self.backends)],
                "folder": str(self.folder),
                "note": self.note,
            }
        )

    def as_text(self) -> str:
        tiers = ", ".join(f"{backend.model} ({backend.tier})" for backend in self.backends)
        note = [self.note, ""] if self.note else []
        other = ["The same in other words: from the semantic cache:", "", f"  {self.curl(OTHER_WORDS)}", ""] if semantic() else []
        return "\n".join(
            [
                "",
                f"base_url   {self.base_url}",
                f"api key    {self.keys.client}",
                f"admin key  {self.keys.admin}",
                f"models     auto, {tiers}",
                f"files      {self.folder}  (config.yaml and the logs; removed at the end)",
                "",
                *note,
                "An easy question: `auto` takes the small tier, x-tiergate-* say why (the same again comes from the cache):",
                "",
                f"  {self.curl(EASY)}",
                "",
                *other,
                "A harder one, as a stream: the large tier:",
                "",
                f"  {self.curl(HARD, stream=True)}",
                "",
                "Ctrl-C ends all of it.",
            ]
        )

    def curl(self, content: str, *, stream: bool = False) -> str:
        body: dict[str, Any] = {"model": "auto", "messages": [{"role": "user", "content": content}], "max_tokens": 100}
        body |= {"stream": True} if stream else {"temperature": 0}  # 0: its best guess, which is short
        headers = f"-H 'Authorization: Bearer {self.keys.client}' -H 'Content-Type: application/json'"
        return f"curl {'-iN' if stream else '-i'} {self.base_url}/chat/completions {headers} -d '{json.dumps(body)}'"
