"""Who the client is: an address for the log, where proxies that are trusted may stand in front.

`x-forwarded-for` is a list to which each proxy appends whom it was called by, so it is true only from its right end and only
as far as those who wrote it are trusted: the client is the right-most address that is not a trusted proxy. What stands
further left the client may have written itself. From a peer that is not trusted the header is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_MAX_HOPS = 32
_LONGEST = 64
_KEPT = 4096  # hops whose meaning is kept: to read one takes 10 µs, and the same clients come again
_HEADER = b"x-forwarded-for"


class Proxies:
    """The networks whose word is taken."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        self._networks = [ip_network(network) for network in networks]
        self._hop = lru_cache(_KEPT)(self._read)

    def trusts(self, peer: str) -> bool:
        """Asked once for each connection."""
        address = _address(peer) if self._networks else None
        return address is not None and self._trusts(address)

    def client(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """For a request that came from a trusted `peer`. What is no address ends the list."""
        line = b",".join([value for name, value in headers if name == _HEADER])
        nearest = peer
        for hop in reversed(line.rsplit(b",", _MAX_HOPS)[-_MAX_HOPS:]):
            address, trusted = self._hop(hop) if len(hop) <= _LONGEST else ("", False)
            nearest = address or nearest
            if not trusted:
                break
        return nearest

    def _read(self, hop: bytes) -> tuple[str, bool]:
        """Its address, or nothing; and whether who stands left of it may be believed."""
        address = _address(hop.decode("latin-1").strip())
        return ("", False) if address is None else (str(address), self._trusts(address))

    def _trusts(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)


def peer_of(name: object) -> str:
    """The address in a socket's peer name, in its plain form; nothing for a socket that has none."""
    if not isinstance(name, tuple) or not name:
        return ""
    address = _address(str(name[0]))
    return "" if address is None else str(address)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """`10.0.0.1`, `10.0.0.1:80`, `::1`, `[::1]`, `[::1]:80`. IPv4 mapped into IPv6 is IPv4; a zone (`%eth0`) is ours alone."""
    if len(text) > _LONGEST:
        return None
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
