"""The engines' prefix-cache salts."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from gateway.config import Config


def salts_of(config: Config, secret: bytes) -> Callable[[str], str | None]:
    """That of a tenant: not to be guessed, and the same for all its requests."""
    if config.cache.prefix.isolate == "none":
        return lambda _tenant: None
    salts = {tenant.name: hmac.digest(secret, tenant.name.encode(), "sha256").hex()[:32] for tenant in config.tenants}
    return salts.get
