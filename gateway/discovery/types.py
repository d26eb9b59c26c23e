"""What a source of replicas says."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

from gateway.config.kinds import Unfit, Url
from gateway.config.schema import Discover, Replica
from gateway.config.tls import BackendTls
from gateway.fleet import MAX_REPLICAS

_UNSAFE = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 120


class LookFailed(Exception):  # noqa: N818 - named for what happened
    """The source cannot be believed just now: what was known before holds. The message is for the log."""


@dataclass(frozen=True, slots=True)
class Found:
    """The replicas that a source lists. `ttl`: for how many seconds it will say nothing else."""

    replicas: tuple[Replica, ...]
    ttl: float = 0.0


class Source(Protocol):
    """`label` names it in logs and to the operator. `patience`: looks in a row that must miss a replica before it leaves."""

    @property
    def label(self) -> str: ...

    @property
    def patience(self) -> int: ...

    async def look(self) -> Found:
        """What it lists now. Raises LookFailed. Bounded in time and size; never blocks the loop."""
        ...


class Addresses:
    """Makes replicas of hosts and ports, with the scheme, path, key and TLS settings that the config gives them."""

    def __init__(self, discover: Discover, tls: BackendTls | None) -> None:
        self._scheme = discover.scheme or "http"
        self._path = "/v1" if discover.path is None else discover.path
        self._api_key = discover.api_key
        self._tls = tls

    def replicas(self, places: Iterable[tuple[str, int]]) -> tuple[Replica, ...]:
        """One for each place, in the order of their names. LookFailed for none or too many; what is no host is left out."""
        usable: dict[str, str] = {}
        for host, port in sorted(set(places)):
            name, url = name_of(host, port), self._url(host, port)
            if url is not None:
                usable[f"{name}-{crc32(host.encode()):08x}" if name in usable else name] = url
        if not usable:
            raise LookFailed("the answer holds no address")
        if len(usable) > MAX_REPLICAS:
            raise LookFailed(f"the answer holds more than {MAX_REPLICAS} addresses")
        return tuple(Replica(name=name, url=url, api_key=self._api_key, tls=self._tls) for name, url in usable.items())

    def _url(self, host: str, port: int) -> str | None:
        try:
            return Url().read(f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{port}{self._path}")
        except Unfit:
            return None


def name_of(host: str, port: int) -> str:
    """A replica's name by its place: the same for the same place, and safe in headers and metrics. `10-0-0-11-8000`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        words = _UNSAFE.sub("-", host.lower()).strip("-")
    else:
        words = address.exploded.replace(":", "-").replace(".", "-")
    return f"{words[:_LONGEST_NAME] or 'replica'}-{port}"


def plain_address(text: str) -> str | None:
    """An address that can be dialled from here: IPv4 mapped into IPv6 is IPv4, a link's own (`%eth0`) is left out."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            return None
        return str(address.ipv4_mapped or address)
    return str(address)
