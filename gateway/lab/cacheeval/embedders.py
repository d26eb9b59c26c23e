"""Embedders by name: the one that comes along, a folder, or whatever sentence-transformers runs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from caches.embed import minilm, transformer
from caches.embed.description import Description, read_folder
from caches.embed.onnx import OnnxModel
from caches.embed.scripts import Scripts
from caches.embed.types import Model
from gateway.lab.cacheeval.settings import Opened

DEFAULT = "minilm"
LIBRARY = "sentence-transformers:"
_READ = 512  # tokens, where the library does not say


def open_embedder(name: str) -> Opened:
    """`minilm`, a folder as caches.embed.description has it, or `sentence-transformers:NAME`. Raises ValueError."""
    if name.startswith(LIBRARY):
        return _of_library(name, name.removeprefix(LIBRARY))
    folder = minilm.folder() if name == DEFAULT else read_folder(Path(name))
    return _opened(name if name == DEFAULT else folder.about.name, OnnxModel(folder), folder.about)


def _of_library(name: str, model: str) -> Opened:
    try:
        encoder = import_module("sentence_transformers").SentenceTransformer(model, device="cpu")
    except ImportError:
        raise ValueError(f"{name} needs sentence-transformers: pip install sentence-transformers") from None
    dimension, reads = encoder.get_sentence_embedding_dimension(), encoder.max_seq_length or _READ
    about = transformer.describe(model, dimension, reads)
    return _opened(model, transformer.TransformerModel(about, encoder), about)


def _opened(name: str, model: Model, about: Description) -> Opened:
    return Opened(name, model, Scripts(about.scripts).covers)
