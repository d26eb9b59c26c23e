"""The folders of models that a config names: whether they are such folders. Whether the models run is seen when they load."""

from __future__ import annotations

from pathlib import Path

from caches.embed import description as embedder
from caches.verify import description as verifier
from gateway.config.checks import Report
from gateway.config.schema import Config


def check_folders(config: Config, report: Report) -> None:
    semantic, here = config.cache.semantic, ("cache", "semantic")
    if semantic.embedder.kind == "onnx" and semantic.embedder.model:
        try:
            embedder.read_folder(Path(semantic.embedder.model))
        except ValueError as error:
            report((*here, "embedder", "model"), str(error))
    if semantic.verifier is not None and semantic.verifier.path is not None:
        try:
            verifier.read_folder(semantic.verifier.path)
        except ValueError as error:
            report((*here, "verifier", "path"), str(error))
