"""What is known of a cross-encoder before it is loaded.

Its folder holds `model.onnx`, `tokenizer.json` and `verifier.json`:

    {
      "name": "minilm-cross-encoder",
      "max_tokens": 128,          of both questions together; what is longer is not approved
      "output": "logit",          logit: one number, any; probability: one number from 0 to 1; classes: a logit a class
      "same": 1,                  classes: which of them means that one answer serves both (the default is 1)
      "threshold": 0.8,           the least probability that approves
      "scripts": ["latin"],       what it reads: names of caches.embed.scripts, or "all" (the default)
      "sha256": {"model.onnx": "83…", "tokenizer.json": "5f…"}       optional: then other files are refused
    }
"""

from __future__ import annotations

from pathlib import Path

from caches.embed.description import About, Folder, described

OUTPUTS = ("logit", "probability", "classes")


class PairDescription(About, frozen=True, kw_only=True, forbid_unknown_fields=True):
    threshold: float
    output: str = "logit"
    same: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.threshold <= 1:
            raise ValueError("threshold is above 0, and at most 1")
        if self.output not in OUTPUTS:
            raise ValueError(f"output is one of {', '.join(OUTPUTS)}")
        if not 0 <= self.same < 100:
            raise ValueError("same is the place of a class")


def read_folder(path: Path) -> Folder[PairDescription]:
    """Raises ValueError, with a line for whoever named the folder."""
    return described(path, "verifier", PairDescription)
