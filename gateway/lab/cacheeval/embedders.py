"""Embedders by name."""

from __future__ import annotations

from gateway.lab.cacheeval.settings import Opened

DEFAULT = "minilm"


def open_embedder(name: str) -> Opened:
    raise ValueError(f"no embedder {name!r}")
