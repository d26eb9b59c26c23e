"""How far a run is: a bar on a terminal, else a line when a step begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

_EVERY = 0.1
_WIDTH = 30


class Progress:
    def __init__(self, stream: TextIO, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._name = name
        self._live = stream.isatty()
        self._clock = clock
        self._shown = 0.0

    def say(self, text: str) -> None:
        print(f"{self._name}: {text}", file=self._stream, flush=True)

    def step(self, what: str, of: int) -> Callable[[int, int], None]:
        """Takes how many of how many are done."""
        if not self._live:
            self.say(f"{what}: {of:,}")
            return lambda _done, _of: None
        return lambda done, of: self._bar(what, done, of)

    def _bar(self, what: str, done: int, of: int) -> None:
        now = self._clock()
        if done < of and now - self._shown < _EVERY:
            return
        self._shown = now
        full = _WIDTH * done // max(1, of)
        end = "\n" if done >= of else ""
        self._stream.write(f"\r{self._name}: {what} [{'=' * full}{' ' * (_WIDTH - full)}] {done:,}/{of:,}{end}")
        self._stream.flush()
