"""Opens the vector store as the gateway would, by its own probe: a point is written, found, read and deleted. And judges that.

Nothing is left behind. Where there is no collection yet the probe goes to one of its own, which is deleted again: on a server
beside the others, for the embedded store in a directory for temporary files. A damaged store is left as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
import time
from dataclasses import dataclass, replace
from os import urandom
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import numpy as np

from caches.embed.description import Description
from caches.vectors.store import QdrantStore, Times
from caches.vectors.types import StoreAway
from gateway.build.semantic import collection_of, store_of
from gateway.config import Config
from gateway.config.problems import Path as KeyPath
from gateway.doctor import certificates, disk
from gateway.doctor.certificates import Certificate
from gateway.doctor.findings import Finding, fail, ok, shown, warn

WHERE: KeyPath = ("cache", "semantic", "qdrant")
_LOOKS = 3  # the quickest search counts: the first one also pays for what is cold
_PARTING = 2.0  # seconds
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_TLS_SIGNS = ("ssl", "certificate", "tls")


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """`trouble`: why it cannot be used. `status`: the HTTP status that a server refused us with. `new`: there is no collection
    yet. `search`: seconds of one search. `user`: the process that has the embedded store just now. `declined`: why nothing is
    written to it, though it can be read.
    """

    trouble: str = ""
    status: int = 0
    certificate: Certificate | None = None
    new: bool = False
    user: str = ""
    declined: str = ""
    points: int = 0
    search: float = 0.0
    version: str = ""


async def ask(config: Config, about: Description, seconds: float) -> StoreFacts:
    """Never raises for what a store does."""
    if config.cache.semantic.qdrant.url is not None:
        return await _ask_server(config, about, seconds)
    from caches.vectors.engine import holder  # noqa: PLC0415 - the engine is an extra

    home = config.cache.semantic.qdrant.path / collection_of(about)
    if user := holder(home):
        return StoreFacts(user=user)
    if home.exists():
        return await _opened(store_of(config, about, time.monotonic, time.time, times=_patient(seconds), as_it_is=True))
    with tempfile.TemporaryDirectory(prefix="tiergate-") as folder:
        qdrant = replace(config.cache.semantic.qdrant, path=Path(folder))
        elsewhere = replace(config, cache=replace(config.cache, semantic=replace(config.cache.semantic, qdrant=qdrant)))
        store = store_of(elsewhere, about, time.monotonic, time.time, times=_patient(seconds), as_it_is=True)
        return replace(await _opened(store), new=True)


def _patient(seconds: float) -> Times:
    """Nothing in the background, and no deadline before the question's own: how long it takes is to be seen."""
    return Times(search=seconds, write=seconds, open=seconds, tend=3600.0, sweep=3600.0)


async def _opened(store: QdrantStore) -> StoreFacts:
    try:
        await store.open()
        vector = np.zeros(store.dimension, dtype=np.float32)
        vector[0] = 1.0
        quickest = min([await _timed(store, vector) for _ in range(_LOOKS)])
        declined = "" if store.status == "ok" else store.status
        return StoreFacts(points=(await store.stats()).points, search=quickest, declined=declined)
    except StoreAway as away:
        cause = away.__cause__
        return StoreFacts(trouble=store.status if store.status != "ok" else str(cause or away), status=_status(cause))
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PARTING):
                await store.close()


async def _timed(store: QdrantStore, vector: np.ndarray[tuple[int], np.dtype[np.float32]]) -> float:
    began = time.monotonic()
    await store.search("probe-doctor", vector)
    return time.monotonic() - began


def _status(error: BaseException | None) -> int:
    """Of the client's `UnexpectedResponse`."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else 0


async def _ask_server(config: Config, about: Description, seconds: float) -> StoreFacts:
    from caches.vectors.remote import client_of  # noqa: PLC0415 - the client is an extra

    qdrant = config.cache.semantic.qdrant
    assert qdrant.url is not None, "asked for a config that names a server"
    client = client_of(qdrant.url, api_key=qdrant.api_key.reveal() or None, seconds=seconds)
    spare = msgspec.structs.replace(about, name=f"doctor-{urandom(4).hex()}")
    try:
        async with asyncio.timeout(seconds):
            version = (await client.info()).version
            there = await client.collection_exists(collection_of(about))
        found = await _opened(store_of(config, about if there else spare, time.monotonic, time.time, times=_patient(seconds)))
        return replace(found, version=version, new=not there)
    except Exception as error:  # noqa: BLE001 - whatever the client raises for what a server does: it is a finding
        why = f"no answer within {seconds:g} s" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        seen = await _certificate(qdrant.url, seconds) if any(sign in str(error).lower() for sign in _TLS_SIGNS) else None
        return StoreFacts(why, _status(error), seen)
    finally:
        with contextlib.suppress(Exception):  # what cannot be tidied up was never made, or the server is gone
            async with asyncio.timeout(_PARTING):
                await client.delete_collection(collection_of(spare))
                await client.delete_collection(f"{collection_of(spare)}-notes")
        with contextlib.suppress(Exception):
            await client.close()


async def _certificate(url: str, seconds: float) -> Certificate | None:
    """Why the client does not trust it: with the CAs that it goes by."""
    import httpx  # noqa: PLC0415 - comes with the client

    parts = urlsplit(url)
    host = parts.hostname or ""
    with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
        async with asyncio.timeout(seconds):
            return await certificates.look(host, parts.port or 443, host, httpx.create_ssl_context(trust_env=False))
    return None


def judge(config: Config, facts: StoreFacts, now: float) -> list[Finding]:
    """The store that was asked."""
    qdrant = config.cache.semantic.qdrant
    if qdrant.url is not None:
        return _server(config, facts, now)
    where = (*WHERE, "path")
    if facts.user:
        return [ok(where, f"process {facts.user} has the store: a gateway is running, so it was not opened")]
    if facts.new and (trouble := facts.trouble or facts.declined):
        what = f"no store can be made, as tried in {tempfile.gettempdir()}: {shown(trouble.encode())}"
        return [fail(where, what, "Mend that, or name another directory for temporary files (TMPDIR).")]
    if facts.trouble:
        what = f"the store cannot be opened: {shown(facts.trouble.encode())}"
        mend = "A gateway that starts moves what is damaged aside and begins anew; if it does not, remove the folder."
        return [fail(where, what, mend)]
    if facts.declined:
        what = f"nothing new is kept: {shown(facts.declined.encode())}"
        return [*_speed(facts, qdrant.timeout), fail(where, what, "Free some space, or give the gateway's user that folder.")]
    return [*_speed(facts, qdrant.timeout), ok(where, _told("the embedded store", facts))]


def _server(config: Config, facts: StoreFacts, now: float) -> list[Finding]:
    qdrant = config.cache.semantic.qdrant
    where, url, key = (*WHERE, "url"), urlsplit(qdrant.url or ""), qdrant.api_key.reveal()
    place = f"{url.hostname}:{url.port or (443 if url.scheme == 'https' else 80)}"
    found = []
    if key and url.scheme == "http" and url.hostname not in _LOCAL:
        mend = "Have the server speak TLS, and write https."
        found.append(warn(where, "the API key, questions and answers go there unencrypted", mend))
    if facts.certificate is not None and (bad := certificates.judge(where, url.hostname or "", facts.certificate, now)):
        return [*found, *bad]
    if facts.status in (401, 403):
        what = f"the server refuses {'this' if key else 'requests without an'} API key ({facts.status})"
        return [
            *found,
            fail((*WHERE, "api_key") if key else where, what, "Set cache.semantic.qdrant.api_key to one that may write."),
        ]
    if facts.trouble:
        what = f"the Qdrant server at {place} cannot be used: {shown(facts.trouble.encode(), key)}"
        return [*found, fail(where, what, "Start Qdrant there, or correct the URL: its REST port, usually 6333.")]
    return [*found, *_speed(facts, qdrant.timeout), ok(where, _told(f"Qdrant {facts.version[:20]} at {place}", facts))]


def _told(what: str, facts: StoreFacts) -> str:
    holds = "has no collection of this embedder yet" if facts.new else f"has {facts.points} answers"
    return f"{what} takes and gives a point back; it {holds}; a search took {facts.search * 1000:.1f} ms"


def _speed(facts: StoreFacts, deadline: float) -> list[Finding]:
    if facts.search <= deadline / 2:
        return []
    what = f"a search took {facts.search * 1000:.1f} ms, and may take {deadline * 1000:.0f} ms: questions become misses"
    return [warn((*WHERE, "timeout"), what, "Give it more time, or have the store nearer.")]


def folder(path: Path, about: Description | None) -> list[Finding]:
    """The directory of the embedded store: may it be written to, who else may read it, is there room?"""
    where = (*WHERE, "path")
    home = path if about is None else path / collection_of(about)
    found = disk.directory(where, path)
    if found:
        return found
    if home.is_dir() and (readers := disk.open_to(home)):
        what = f"questions and answers lie in {home} in plain text, and {readers} may read them"
        found.append(warn(where, what, f"chmod go-rwx {home}"))
    return [*found, *disk.free_space(where, path, "what is learned and kept is lost when the disk is full")]
