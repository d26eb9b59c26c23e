"""How many bytes of a prompt make a token of one model, learned from what its backends counted.

Rules of this file
- A ratio of two sums, of bytes and of tokens, which forget: they never weigh more than `_WINDOW` bytes, so that the last
  thousand kilobytes of prompts decide, whoever sent them. Each prompt counts in the sums as it is long, for the reservation of
  a long one matters most, but for no more than `_MOST` bytes.
- They begin as if `_PRIOR` bytes had been seen at the usual ratio, so that it takes some evidence to move them.
- Prompts of fewer than `_LEAST` bytes teach nothing: what a chat template adds outweighs them.
- A prompt of less than one byte a token, or of more than `_ODD`, teaches nothing: what was counted is not what was measured.
  Between eight and that, where text in escapes is, it counts as eight.
- So the ratio stays between one and eight: a backend that counts nonsense, or a tenant who sends it, cannot move the estimate of
  others beyond that.
"""

from __future__ import annotations

from limits.estimate import BYTES_PER_TOKEN, prompt_tokens

LOWEST, HIGHEST = 1.0, 8.0
_SPARSEST = 1 / HIGHEST
_LEAST = 256
_ODD = 16
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

    def learn(self, n_bytes: int, tokens: int) -> tuple[float, float] | None:
        """A backend has counted so many tokens in a prompt of so many bytes. What is believed of it, as (bytes, tokens)."""
        if n_bytes < _LEAST or not LOWEST * tokens <= n_bytes <= _ODD * tokens:
            return None
        size, share = (n_bytes if n_bytes < _MOST else _MOST), tokens / n_bytes
        believed = size * (share if share > _SPARSEST else _SPARSEST)
        self._bytes += size
        self._tokens += believed
        if self._bytes > _WINDOW:
            self._tokens *= _WINDOW / self._bytes
            self._bytes = _WINDOW
        ratio = self._bytes / self._tokens
        self.ratio = LOWEST if ratio < LOWEST else HIGHEST if ratio > HIGHEST else ratio
        return size, believed
