"""The source that a `discover` entry of the config asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gateway.config.schema import Discover
from gateway.config.tls import BackendTls
from gateway.discovery.file import File
from gateway.discovery.system import SystemLookup
from gateway.discovery.types import Addresses, Source

_EVERY = {"dns": 10.0, "srv": 10.0, "file": 1.0}


def make_source(discover: Discover, tls: BackendTls | None) -> Source:
    """`tls` is the model's. An address found by name has that name's certificate, unless the config names another."""
    if discover.kind == "file":
        return File(Path(discover.path or ""), discover.api_key, tls)
    name = discover.name or ""
    if discover.kind == "srv":
        from gateway.discovery.records import ServiceRecords  # noqa: PLC0415 - dnspython is optional

        return ServiceRecords(name, discover.servers, Addresses(discover, tls))
    if discover.scheme == "https" and (tls is None or tls.server_name is None):
        tls = replace(tls or BackendTls(), server_name=name)
    addresses, port = Addresses(discover, tls), discover.port or 0
    if not discover.servers:
        return SystemLookup(name, port, addresses)
    from gateway.discovery.records import AddressRecords  # noqa: PLC0415 - as above

    return AddressRecords(name, port, discover.servers, addresses)


def pause_of(discover: Discover) -> float:
    """Seconds between two looks."""
    return discover.every or _EVERY[discover.kind]
