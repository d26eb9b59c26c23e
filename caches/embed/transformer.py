"""Any model of the sentence-transformers library, by name or folder. It brings torch along, so it is an extra."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from caches.embed.description import Description, digest
from caches.embed.types import Vector
from caches.embed.vector import unit

_TELLING = ("*.safetensors", "*.json", "*/config.json", "*.txt", "*.model")
"""Files of a folder that decide what its vectors are."""


class Tokens(Protocol):
    """What is used of its tokenizer."""

    unk_token_id: int | None

    def __call__(self, text: str, /) -> Mapping[str, list[int]]: ...


class Encoder(Protocol):
    """What is used of `sentence_transformers.SentenceTransformer`."""

    max_seq_length: int | None
    tokenizer: Tokens

    def encode(self, sentences: list[str], /, *, show_progress_bar: bool) -> NDArray[np.float32]: ...


class TransformerModel:
    """Asked by one thread at a time: its tokenizer says "already borrowed" otherwise. Pools as the model's files say."""

    def __init__(self, about: Description, encoder: Encoder) -> None:
        """Raises ValueError."""
        self.about = about
        self.fingerprint = about.fingerprint
        self.dimension = about.dimension
        self.max_tokens = about.max_tokens
        self._encoder = encoder
        self._one_at_a_time = threading.Lock()
        if encoder.max_seq_length is not None and encoder.max_seq_length < about.max_tokens:
            raise ValueError(f"{about.name} reads {encoder.max_seq_length} tokens, and cuts what is longer")
        (vector,) = self.embed(["How long does a parcel take?"])
        if vector is None or vector.shape != (self.dimension,):
            raise ValueError(f"{about.name} does not make vectors of {self.dimension} numbers")

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        with self._one_at_a_time:
            read = [self._reads(text) for text in texts]
            asked = [self.about.prefix + text for text, readable in zip(texts, read, strict=True) if readable]
            rows = iter(self._encoder.encode(asked, show_progress_bar=False) if asked else ())
            return [unit(np.asarray(next(rows), np.float32)) if readable else None for readable in read]

    def _reads(self, text: str) -> bool:
        if len(text) > self.about.max_chars or not text.strip():
            return False
        ids = self._encoder.tokenizer(self.about.prefix + text)["input_ids"]
        return len(ids) <= self.max_tokens and self._encoder.tokenizer.unk_token_id not in ids


def describe(model: str, dimension: int, max_tokens: int, prefix: str = "", scripts: tuple[str, ...] = ("all",)) -> Description:
    """A folder is known by its files, a name by itself. Raises ValueError and OSError."""
    folder = Path(model)
    files = sorted({file for shape in _TELLING for file in folder.glob(shape)}) if folder.is_dir() else []
    sums = {str(file.relative_to(folder)): digest(file) for file in files}
    name = folder.name if files else model  # wherever it lies
    return Description(
        name=name, dimension=dimension, max_tokens=max_tokens, pooling="none", prefix=prefix, scripts=scripts, sha256=sums
    )


def load(model: str, about: Description) -> TransformerModel:
    """A download, where `model` is a name. Raises ImportError where the library is not installed."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    library = import_module("sentence_transformers")
    said = import_module("transformers.utils.logging")
    said.set_verbosity_error()
    said.disable_progress_bar()
    import_module("torch").set_num_threads(1)  # the other cores are the event loop's and the engines'
    return TransformerModel(about, library.SentenceTransformer(model, device="cpu"))
