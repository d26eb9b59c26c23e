"""Checks of what replicas are to read ahead. Whether the files are as they should be the config says."""

from __future__ import annotations

from contextlib import suppress

from gateway.config import Model
from gateway.config.problems import Path
from gateway.doctor.findings import Finding, warn

_BYTES_PER_TOKEN = 3  # as reading ahead counts them


def budget(where: Path, model: Model) -> list[Finding]:
    """All that is listed fits `max_tokens`, as far as sizes tell."""
    size = 0
    for prompt in model.warm.prompts:
        own = len(prompt.system.encode())
        for path in (prompt.file, prompt.tools):
            with suppress(OSError):
                own += 0 if path is None else path.stat().st_size
        size += own * max(1, len(prompt.tenants))
    tokens = size // _BYTES_PER_TOKEN
    if tokens <= model.warm.max_tokens:
        return []
    what = f"the prompts listed are some {tokens} tokens, and {model.warm.max_tokens} may be read ahead"
    return [warn((*where, "warm", "max_tokens"), what, "Raise it, or list fewer: what goes beyond is left out.")]
