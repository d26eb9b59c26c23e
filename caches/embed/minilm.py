"""The embedder that comes along: all-MiniLM-L6-v2 with int8 weights, made by `bench/minilm.py`.

English; it reads other languages in Latin letters, less well. Capitals and accents are the same to it as their plain letters.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from caches.embed.description import Description, Folder, read_folder
from caches.embed.onnx import OnnxModel


def folder() -> Folder[Description]:
    """Raises ValueError where the package has lost it."""
    return read_folder(Path(str(files("caches.embed") / "models" / "minilm-int8")))


def load() -> OnnxModel:
    """A moment of disk and CPU: not on the event loop."""
    return OnnxModel(folder())
