"""Which replicas there are, told by the owner to the workers, who connect to them.

The owner numbers them: a name may come back with another address, and is another replica then. A worker knows of a replica
before it is granted it, and closes its own connections once it is gone and nothing of its own runs there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

from backends.replica import Replica
from gateway.config.schema import Replica as Spec
from gateway.config.secret import Secret
from gateway.config.tls import BackendTls
from gateway.dispatch.messages import Known
from gateway.dispatch.types import Lane
from gateway.fleet import CONFIG, Fleet

_log = logging.getLogger("tiergate.dispatch")
_Tls = tuple[str, str, str, bool, str, str]


class Roster:
    """The owner's side."""

    def __init__(self, fleet: Fleet, lanes: Mapping[str, Lane]) -> None:
        self._fleet = fleet
        self._lanes = lanes
        self._serials: dict[Replica, int] = {}
        self._numbers = count(1)
        self._told: dict[int, Known] = {}

    def serial(self, replica: Replica) -> int | None:
        """Its number; None while nobody was told of it."""
        return self._serials.get(replica)

    def named(self, model: str, name: str) -> Replica | None:
        """Whom a predecessor granted, whose numbers say nothing here."""
        return next((replica for replica in self._lanes[model].pool.replicas if replica.name == name), None)

    def everybody(self) -> list[Known]:
        """All that the workers were told of."""
        return list(self._told.values())

    def changes(self) -> tuple[list[Known], list[int]]:
        """What is new or other since the last look, and who is gone."""
        now = {known.serial: known for known in self._look()}
        changed = [known for serial, known in now.items() if self._told.get(serial) != known]
        gone = [serial for serial in self._told if serial not in now]
        self._told = now
        return changed, gone

    def _look(self) -> Iterator[Known]:
        serials: dict[Replica, int] = {}
        for replica, serial in self._serials.items():
            known = self._told.get(serial)
            if replica.inflight and known is not None:  # granted, and perhaps not asked yet; those that are there still follow
                serials[replica] = serial
                yield known
        for model, lane in self._lanes.items():
            if not self._fleet.has(model):
                for replica in lane.pool.replicas:
                    serial = serials[replica] = self._serials.get(replica) or next(self._numbers)
                    yield Known(serial, model, replica.name, "", "", None, CONFIG, held=False, up=replica.up)
                continue
            for member in self._fleet.members(model).values():
                replica, spec = member.replica, member.spec
                serial = serials[replica] = self._serials.get(replica) or next(self._numbers)
                key, tls, heard = spec.api_key.reveal(), _tls_told(spec.tls), lane.placing.hears(spec.name)
                yield Known(
                    serial, model, spec.name, spec.url, key, tls, member.source, held=member.held, up=replica.up, heard=heard
                )
        self._serials = serials


class Replicas:
    """A worker's side: its own connections to each. `make` builds one of a spec; `providers` are those without an address."""

    def __init__(self, make: Callable[[str, Spec], Replica], providers: Mapping[str, Replica]) -> None:
        self._make = make
        self._providers = providers
        self.known: dict[int, Known] = {}
        self.several: frozenset[str] = frozenset()  # models that have more than one
        self.hearing: frozenset[str] = frozenset()  # those of which some engine says what it has cached
        self._replicas: dict[int, Replica] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def get(self, serial: int) -> Replica | None:
        return self._replicas.get(serial)

    def engines(self, model: str) -> list[Replica]:
        """Those of a model that the owner says are up."""
        up = [serial for serial, known in self.known.items() if known.model == model and known.up]
        return [replica for serial in up if (replica := self._replicas.get(serial)) is not None]

    def replace(self, everybody: list[Known]) -> None:
        """Another owner: its numbers are others. Who is the same replica keeps its connections."""
        before = {_identity(self.known[serial]): replica for serial, replica in self._replicas.items()}
        self.known, self._replicas = {}, {}
        for known in everybody:
            replica = before.pop(_identity(known), None)
            self._learn(known, replica)
        for replica in before.values():
            self._let_go(replica)
        self._count()

    def change(self, changed: list[Known], gone: list[int]) -> None:
        for known in changed:
            self._learn(known, self._replicas.get(known.serial))
        for serial in gone:
            self.known.pop(serial, None)
            replica = self._replicas.pop(serial, None)
            if replica is not None:
                self._let_go(replica)
        self._count()

    async def close(self) -> None:
        """The end of the process."""
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        for replica in [*self._replicas.values(), *self._providers.values()]:
            await replica.client.close()

    def _count(self) -> None:
        counts = Counter(known.model for known in self.known.values())
        self.several = frozenset(model for model, count in counts.items() if count > 1)
        self.hearing = frozenset(known.model for known in self.known.values() if known.heard)

    def _learn(self, known: Known, replica: Replica | None) -> None:
        """A dispatcher with another config may have models that this worker has not: it will not be granted them."""
        self.known[known.serial] = known
        made = replica or self._made(known)
        if made is not None:
            self._replicas[known.serial] = made

    def _made(self, known: Known) -> Replica | None:
        if not known.url:
            return self._providers.get(known.model)
        try:
            return self._make(known.model, spec_of_known(known))
        except KeyError:
            _log.info("%s/%s is of another config than this worker's, which will not be asked for it", known.model, known.name)
            return None
        except (ValueError, OSError) as error:
            _log.warning("%s/%s cannot be asked by this worker (%s)", known.model, known.name, type(error).__name__)
            return None

    def _let_go(self, replica: Replica) -> None:
        if replica in self._providers.values():
            return
        task = asyncio.get_running_loop().create_task(_close(replica), name=f"closing {replica.name}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _close(replica: Replica) -> None:
    """Once the last request of this process that runs there has ended."""
    emptied = replica.emptied = replica.emptied or asyncio.Event()
    try:
        while replica.inflight:
            emptied.clear()
            await emptied.wait()
    finally:
        await replica.client.close()


def spec_of_known(known: Known) -> Spec:
    return Spec(name=known.name, url=known.url, api_key=Secret(known.api_key), tls=_tls_read(known.tls))


def _identity(known: Known) -> tuple[str, str, str, str, _Tls | None]:
    return known.model, known.name, known.url, known.api_key, known.tls


def _tls_told(tls: BackendTls | None) -> _Tls | None:
    if tls is None:
        return None
    ca, cert, key = (str(path) if path is not None else "" for path in (tls.ca, tls.cert, tls.key))
    return ca, cert, tls.key_password.reveal(), tls.verify, tls.server_name or "", key


def _tls_read(told: _Tls | None) -> BackendTls | None:
    if told is None:
        return None
    ca, cert, password, verify, server_name, key = told
    return BackendTls(
        ca=Path(ca) if ca else None,
        cert=Path(cert) if cert else None,
        key_password=Secret(password),
        verify=verify,
        server_name=server_name or None,
        key=Path(key) if key else None,
    )
