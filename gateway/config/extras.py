"""Packages that only some configs want, and the extra that brings each."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from gateway.config.problems import Path
from gateway.config.schema import Config

_SEMANTIC: Path = ("cache", "semantic")
_EMBEDDERS = {
    "minilm": ("semantic", ("numpy", "onnxruntime", "tokenizers")),
    "onnx": ("semantic", ("numpy", "onnxruntime", "tokenizers")),
    "sentence_transformers": ("sentence-transformers", ("numpy", "sentence_transformers")),
}


def missing(config: Config, installed: Callable[[str], bool] | None = None) -> list[tuple[Path, str]]:
    """What is not installed and should be: the key that wants it, and a complaint that says how to get it."""
    there = installed or _installed
    found = []
    for where, extra, modules in _wanted(config):
        lacking = [name for name in modules if not there(name)]
        if lacking:
            found.append((where, f"not installed: {', '.join(lacking)}: pip install 'tiergate[{extra}]'"))
    return found


def _installed(module: str) -> bool:
    return find_spec(module) is not None


def _wanted(config: Config) -> list[tuple[Path, str, tuple[str, ...]]]:
    wanted: list[tuple[Path, str, tuple[str, ...]]] = []
    exact, semantic = config.cache.exact, config.cache.semantic
    for index, model in enumerate(config.models):
        if model.balance.precise is not None:
            wanted.append((("models", index, "balance", "precise"), "precise", ("zmq",)))
    if exact.enabled and exact.store in ("redis", "two_level"):
        wanted.append((("cache", "exact", "store"), "redis", ("redis",)))
    if config.limits.store == "redis":
        wanted.append((("limits", "store"), "redis", ("redis",)))
    if config.fleet.share == "redis":
        wanted.append((("fleet", "share"), "redis", ("redis",)))
    if config.routing.classifier.kind == "embedding" and not config.any_semantic and semantic.embedder.kind in _EMBEDDERS:
        wanted.append((("routing", "classifier", "kind"), *_EMBEDDERS[semantic.embedder.kind]))
    if not config.any_semantic:
        return wanted
    if semantic.embedder.kind in _EMBEDDERS:
        wanted.append(((*_SEMANTIC, "embedder", "kind"), *_EMBEDDERS[semantic.embedder.kind]))
    if semantic.verifier is not None and semantic.verifier.kind == "onnx":
        wanted.append(((*_SEMANTIC, "verifier", "kind"), *_EMBEDDERS["onnx"]))
    if semantic.qdrant.url is None:
        wanted.append(((*_SEMANTIC, "qdrant", "path"), "semantic", ("numpy", "qdrant_edge")))
    else:
        wanted.append(((*_SEMANTIC, "qdrant", "url"), "qdrant", ("numpy", "qdrant_client")))
    return wanted
