"""How many bytes of a prompt make a token of one model, learned from what its backends counted.

Rules of this file
- A ratio of two sums, of bytes and of tokens, which forget: they never weigh more than `_WINDOW` bytes, so that the last
  thousand kilobytes of prompts decide, whoever sent them. Each prompt counts in the sums as it is long, for the reservation of
  a long one matters most, but for no more than `_MOST` bytes.
- They begin as if `_PRIOR` bytes had been seen at the usual ratio, so that it takes some evidence to move them.
- Prompts of fewer than `_LEAST` bytes teach nothing: what a chat template adds outweighs them.
- Each prompt is believed between one and eight bytes a token, and so is their ratio: a backend that counts nonsense, or a
  tenant who sends it, cannot move the estimate of others beyond that.
"""

from __future__ import annotations

from limits.estimate import BYTES_PER_TOKEN, prompt_tokens

LOWEST, HIGHEST = 1.0, 8.0
_LEAST = 256
_MOST = 8 * 1024.0
_PRIOR = 128 * 1024.0
_WINDOW = 1024 * 1024.0


class Density:
    """One model's, in one process. `ratio`: bytes per token."""

    __slots__ = ("_bytes", "_tokens", "ratio")

    def __init__(self) -> None:
        self._bytes = _PRIOR
        self._tokens = _PRIOR / BYTES_PER_TOKEN
        self.ratio = BYTES_PER_TOKEN

    def estimate(self, n_bytes: int) -> int:
        """Tokens of a prompt of so many bytes, at least one."""
        return prompt_tokens(n_bytes, self.ratio)

    def learn(self, n_bytes: int, tokens: int) -> bool:
        """A backend has counted so many tokens in a prompt of so many bytes. Whether that says anything."""
        if n_bytes < _LEAST or tokens <= 0:
            return False
        weight = min(_MOST, n_bytes)
        self._bytes += weight
        self._tokens += weight * min(max(tokens / n_bytes, 1 / HIGHEST), 1 / LOWEST)
        if self._bytes > _WINDOW:
            self._tokens *= _WINDOW / self._bytes
            self._bytes = _WINDOW
        self.ratio = min(max(self._bytes / self._tokens, LOWEST), HIGHEST)
        return True
