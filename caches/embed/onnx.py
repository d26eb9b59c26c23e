"""A model as a folder with `model.onnx`, `tokenizer.json` and `embedder.json`, run by ONNX Runtime on one thread.

Rules
1. A text is embedded whole or not at all. Tokenizers cut and pad as their file says, often at 128: both are switched off.
2. A sign that the tokenizer does not know stands for any other such sign ("what does 猫 mean" is "what does 狗 mean" to it, and
   so is one key of 120 letters another): such a text has no vector.
3. One text a run. With dynamic quantisation the scale of activations is taken over the whole tensor, so in a batch a text's
   vector would depend on its neighbours, perhaps another tenant's. On one thread a batch gains little, and padding eats that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # else its wheels tell Microsoft of every start, and leave a device id in HOME
import onnxruntime as ort
from tokenizers import Tokenizer

from caches.embed.description import Description, Folder
from caches.embed.types import Vector
from caches.embed.vector import pooled, unit

_PICTURES = re.compile("[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f\u200d]+")
"""No vocabulary of words has them. They are left out, and whoever compares texts compares them by themselves."""

FED = ("input_ids", "attention_mask", "token_type_ids")


class OnnxModel:
    """May be asked by several threads at once."""

    def __init__(self, folder: Folder[Description]) -> None:
        """Loads it. Raises ValueError, OSError and whatever ONNX Runtime and the tokenizer find wrong with their files."""
        folder.check()
        about = self.about = folder.about
        self.fingerprint = about.fingerprint
        self.dimension = about.dimension
        self.max_tokens = about.max_tokens
        self._tokenizer = tokenizer(folder.path)
        self._unknown = unknown_token(self._tokenizer)
        self._session = session(folder.path)
        self._inputs = inputs(self._session, about.name)
        (self._output, *_) = [node.name for node in self._session.get_outputs()]
        self._try()

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> Vector | None:
        if len(text) > self.about.max_chars or broken(text):
            return None
        (tokens,) = self._tokenizer.encode_batch_fast(
            [self.about.prefix + legible(text)]
        )  # `encode` keeps the interpreter to itself
        ids = tokens.ids
        if len(ids) > self.max_tokens or self._unknown in ids or all(tokens.special_tokens_mask):
            return None
        return self._forward(ids)

    def _forward(self, ids: list[int]) -> Vector:
        row = np.array([ids], np.int64)
        fed = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        (out,) = self._session.run([self._output], {name: fed[name] for name in self._inputs})
        return unit(pooled(out[0], self.about.pooling))

    def _try(self) -> None:
        """One forward: the first is slow, and a model of another shape is told now."""
        vector = self._one("How long does a parcel take?")
        if vector is None or vector.shape != (self.dimension,):
            raise ValueError(f"{self.about.name} does not make vectors of {self.dimension} numbers")


def broken(text: str) -> bool:
    """Half a surrogate pair: JSON can say it, UTF-8 and so the tokenizer cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def legible(text: str) -> str:
    return text if text.isascii() else _PICTURES.sub(" ", text)


def tokenizer(folder: Path) -> Tokenizer:
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.no_padding()
    made.no_truncation()
    return made


def unknown_token(made: Tokenizer) -> int | None:
    """The id that stands for whatever the vocabulary lacks; None: nothing is lacking (bytes)."""
    name = getattr(made.model, "unk_token", None)
    return None if name is None else made.token_to_id(name)


def session(folder: Path) -> ort.InferenceSession:
    """One thread, which sleeps when it has nothing to do: the other cores are the event loop's and the engines'."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


def inputs(session: ort.InferenceSession, name: str) -> list[str]:
    """What the model wants to be fed. Raises ValueError where that is none of FED."""
    wanted = [node.name for node in session.get_inputs()]
    if odd := set(wanted) - set(FED):
        raise ValueError(f"{name} wants an input that is not known: {min(odd)}")
    return wanted
