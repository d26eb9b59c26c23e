"""The config.yaml of a trial, and the two keys made for it alone.

The client's key is in the file as its SHA-256 only, the admin key comes to the gateway through the environment: the file
holds no secret.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from gateway.lab.up.engines import Backend

ADMIN_KEY_VARIABLE = "TIERGATE_ADMIN_KEY"


@dataclass(frozen=True, slots=True)
class Keys:
    client: str = field(repr=False)
    admin: str = field(repr=False)


_SEMANTIC = ("numpy", "onnxruntime", "tokenizers", "qdrant_edge")
"""What the semantic cache needs, the extra `semantic`: without it the trial does without."""


def new_keys() -> Keys:
    return Keys(client=f"tg-local-{secrets.token_urlsafe(24)}", admin=f"tg-admin-{secrets.token_urlsafe(24)}")


def write(folder: Path, *, host: str, port: int, backends: Sequence[Backend], keys: Keys) -> Path:
    path = folder / "config.yaml"
    text = yaml.safe_dump(config(host=host, port=port, backends=backends, keys=keys), sort_keys=False, width=120)
    path.write_text("# Made by `tiergate up` for one trial on this machine.\n" + text, encoding="utf-8")
    return path


def config(*, host: str, port: int, backends: Sequence[Backend], keys: Keys) -> dict[str, Any]:
    digest = hashlib.sha256(keys.client.encode()).hexdigest()
    return {
        "server": {"host": host, "port": port, "drain_timeout": "5s"},
        "admin": {"key": f"${{{ADMIN_KEY_VARIABLE}}}"},
        # A model on a CPU takes its time over a long prompt.
        "timeouts": {"first_token": "120s", "between_tokens": "60s", "total": "600s"},
        "models": [_model(backend) for backend in backends],
        "routing": {"auto": "auto", "classifier": {"kind": "rules"}, "fallback": {"small": "large", "large": "small"}},
        "cache": {
            # All: who tries it out names no temperature, and what is not kept is not compared by meaning either.
            "exact": {"store": "memory", "ttl": "1h", "max_bytes": "64MiB", "keep": "all"},
            "semantic": {"enabled": semantic()},
        },
        "plans": {"local": {"rpm": 60_000, "tpm": 100_000_000, "priority": "realtime", "max_parallel": 1024}},
        "tenants": [{"name": "local", "plan": "local", "models": ["*"], "keys": [{"id": "trial", "sha256": digest}]}],
    }


def semantic() -> bool:
    """Whether the trial has a semantic cache."""
    return all(find_spec(name) is not None for name in _SEMANTIC)


def _model(backend: Backend) -> dict[str, Any]:
    replica = {"name": f"{backend.tier}-1", "url": f"http://127.0.0.1:{backend.port}/v1"}
    model: dict[str, Any] = {"name": backend.model, "tier": backend.tier}
    if backend.context is not None:
        model["context"] = backend.context
    return {**model, "replicas": [replica], "concurrency": {"kind": "fixed", "max": backend.slots}}
