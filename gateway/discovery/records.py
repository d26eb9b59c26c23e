"""SRV records, and A and AAAA records where the config names the DNS servers: through dnspython, for the system's own
resolver tells neither SRV records nor how long an answer holds.

- Of SRV records those of the lowest priority serve, as RFC 2782 has it; the others are for when none of these is there,
  which a health check tells better than the DNS. `weight` is not used: the balance policies weigh by load.
- An SRV target stays a name. Its client looks it up again and again, and a certificate can be checked against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dns.asyncresolver
import dns.exception
import dns.resolver
from dns.nameserver import Do53Nameserver

from gateway.discovery.types import Addresses, Found, LookFailed, plain_address

_SECONDS = 5.0


class AddressRecords:
    """Kind dns with `servers`."""

    patience = 2

    def __init__(self, name: str, port: int, servers: Sequence[str], addresses: Addresses) -> None:
        self.label = f"dns {name}:{port}"
        self._name = name
        self._port = port
        self._resolver = _Resolver(servers)
        self._addresses = addresses

    async def look(self) -> Found:
        answers = [await self._resolver.ask(self._name, kind) for kind in ("A", "AAAA")]
        hosts = [plain_address(record.address) for answer in answers for record in answer.records]
        replicas = self._addresses.replicas((host, self._port) for host in hosts if host is not None)
        return Found(replicas, min(answer.ttl for answer in answers if answer.records))


class ServiceRecords:
    """Kind srv."""

    patience = 2

    def __init__(self, name: str, servers: Sequence[str], addresses: Addresses) -> None:
        self.label = f"srv {name}"
        self._name = name
        self._resolver = _Resolver(servers)
        self._addresses = addresses

    async def look(self) -> Found:
        answer = await self._resolver.ask(self._name, "SRV")
        records = [(record.priority, record.target.to_text(omit_final_dot=True), record.port) for record in answer.records]
        offered = [record for record in records if record[1] not in ("", ".") and record[2]]  # "." says: no such service
        best = min((priority for priority, _, _ in offered), default=0)
        return Found(self._addresses.replicas((host, port) for priority, host, port in offered if priority == best), answer.ttl)


@dataclass(frozen=True, slots=True)
class _Answer:
    records: tuple[Any, ...] = ()
    ttl: float = 0.0


class _Resolver:
    """Asks the servers that the config names, or the system's: set up anew each time, for those may have changed."""

    def __init__(self, servers: Sequence[str]) -> None:
        pairs = [server.rpartition(":") for server in servers]
        self._servers = [Do53Nameserver(host.strip("[]"), int(port)) for host, _, port in pairs]

    async def ask(self, name: str, kind: str) -> _Answer:
        """The records of one kind; none where the name has none of this kind. LookFailed for everything else."""
        try:
            answer = await self._resolver().resolve(name, kind, search=not self._servers)
        except dns.resolver.NoAnswer:
            return _Answer()
        except dns.resolver.NXDOMAIN:
            raise LookFailed("there is no such name") from None
        except dns.exception.Timeout:
            raise LookFailed(f"no answer within {_SECONDS:g} s") from None
        except (dns.exception.DNSException, OSError, ValueError) as error:
            raise LookFailed(f"the lookup failed ({type(error).__name__})") from None
        return _Answer(tuple(answer), float(answer.rrset.ttl) if answer.rrset is not None else 0.0)

    def _resolver(self) -> dns.asyncresolver.Resolver:
        resolver = dns.asyncresolver.Resolver(configure=not self._servers)
        if self._servers:
            resolver.nameservers = [*self._servers]
        resolver.lifetime = _SECONDS
        return resolver
