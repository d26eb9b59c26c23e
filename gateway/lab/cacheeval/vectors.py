"""The vectors of all texts of a run, each made once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from caches.embed.types import Model, Vector

BATCH = 64  # texts between two looks at how far it is
THREADS = min(4, os.cpu_count() or 1)
Tell = Callable[[int, int], None]  # how many of how many are done


class Vectors:
    """Vectors by text. A text that the model does not read whole, or not at all, has none."""

    def __init__(self, model: Model, covers: Callable[[str], bool] = lambda _: True) -> None:
        self.model = model
        self._covers = covers
        self._known: dict[str, Vector | None] = {}

    def learn(self, texts: Iterable[str], tell: Tell = lambda _done, _of: None) -> None:
        """Make what is not there yet; in threads, which a model that runs one at a time makes wait."""
        new = sorted({text for text in texts if text not in self._known})
        batches = [new[start : start + BATCH] for start in range(0, len(new), BATCH)]
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(THREADS, "embedding"))
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)  # Ctrl-C waits for no more than a batch
            for number, made in enumerate(pool.map(lambda batch: dict(self._made(batch)), batches), 1):
                self._known.update(made)
                tell(min(number * BATCH, len(new)), len(new))

    def of(self, text: str) -> Vector | None:
        if text not in self._known:
            self._known.update(self._made([text]))
        return self._known[text]

    def cosine(self, a: str, b: str) -> float | None:
        """None where one of them has no vector."""
        one, other = self.of(a), self.of(b)
        return None if one is None or other is None else float(one @ other)

    def _made(self, texts: list[str]) -> Iterator[tuple[str, Vector | None]]:
        readable = [text for text in texts if self._covers(text)]
        vectors = dict(zip(readable, self.model.embed(readable), strict=True)) if readable else {}
        for text in texts:
            yield text, vectors.get(text)
