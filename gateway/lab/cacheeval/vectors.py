"""The vectors of all texts of a run, each made once, in batches of like length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from caches.embed.types import Model, Vector

BATCH = 32
Tell = Callable[[int, int], None]  # how many of how many are done


class Vectors:
    """Vectors by text. A text that the model does not read whole, or not at all, has none."""

    def __init__(self, model: Model, covers: Callable[[str], bool] = lambda _: True) -> None:
        self.model = model
        self._covers = covers
        self._known: dict[str, Vector | None] = {}

    def learn(self, texts: Iterable[str], tell: Tell = lambda _done, _of: None) -> None:
        new = sorted({text for text in texts if text not in self._known}, key=lambda text: (len(text), text))
        for start in range(0, len(new), BATCH):
            self._embed(new[start : start + BATCH])
            tell(min(start + BATCH, len(new)), len(new))

    def of(self, text: str) -> Vector | None:
        if text not in self._known:
            self._embed([text])
        return self._known[text]

    def cosine(self, a: str, b: str) -> float | None:
        """None where one of them has no vector."""
        one, other = self.of(a), self.of(b)
        return None if one is None or other is None else float(one @ other)

    def _embed(self, texts: Sequence[str]) -> None:
        readable = [text for text in texts if self._covers(text)]
        self._known.update(dict.fromkeys(texts))
        if readable:
            self._known.update(zip(readable, self.model.embed(readable), strict=True))
