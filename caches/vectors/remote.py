"""A Qdrant server or cluster, through its own client.

- The collection and its indexes are made when they are not there: when the store is opened, and in the background after any
  failure (somebody wiped the server, or put up a new one).
- An API key goes as a header: the client's own argument for it warns about plain http, which is the operator's to decide.
- Proxies of the environment are not used, and the client does not ask the server for its version.
- Notes and marks lie in a small collection beside, `...-notes`.

There is no server for us to test with: what is tested is the client's local mode, and a stand-in that speaks the server's REST.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from array import array
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ApiException

from caches.vectors import rows
from caches.vectors.backend import Numbers, Sheet
from caches.vectors.notes import NoteFiles
from caches.vectors.options import IndexOptions, Quantization, ServerOptions
from caches.vectors.rows import Row, Where
from caches.vectors.store import QdrantStore, Times

_CONNECTIONS = 32
_LONG = 64 * 1024  # bytes of answers from which packing them is done in a thread
_MARK = "mark/"  # in front of names, which are not notes'
_MOST_MARKS = 4_096
_TRIM = 1_000  # points that go at a time, when there are too many

T = TypeVar("T")

_OPTIONS, _SERVER, _TIMES = IndexOptions(), ServerOptions(), Times()

Connect = Callable[[], AsyncQdrantClient]


def remote_store(
    connect: Connect,
    name: str,
    dimension: int,
    *,
    options: IndexOptions = _OPTIONS,
    server: ServerOptions = _SERVER,
    max_points: int | None = None,
    beside: Path | None = None,
    times: Times = _TIMES,
    clock: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
    rng: random.Random | None = None,
) -> QdrantStore:
    """`name` is the collection's (`rows.collection_name`); of more than `max_points` the oldest go, by and by. `beside`: a folder
    of this machine, made when a mark has to wait there for a server that is away.
    """
    backend = QdrantServer(connect, name, dimension, options, server, max_points)
    waiting = None if beside is None else NoteFiles(beside / f"{name}.notes")
    return QdrantStore(backend, dimension, waiting=waiting, times=times, clock=clock, steady=steady, rng=rng)


def client_of(url: str, *, api_key: str | None = None, grpc: bool = False, seconds: float = 10.0) -> AsyncQdrantClient:
    """To be called on the event loop that it is used on."""
    return AsyncQdrantClient(
        url=url,
        headers={"api-key": api_key} if api_key else None,
        prefer_grpc=grpc,
        timeout=max(1, round(seconds)),
        check_compatibility=False,
        trust_env=False,
        limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
    )


class QdrantServer:
    """`alive` once the collection was found or made."""

    notes_apart = False

    def __init__(
        self,
        connect: Connect,
        name: str,
        dimension: int,
        options: IndexOptions,
        server: ServerOptions,
        max_points: int | None,
    ) -> None:
        self.name = f"the vector store {name} at a Qdrant server"
        self.alive = False
        self.declines: str | None = None
        self.renewals = 0
        self._connect = connect
        self._collection = name
        self._notes = f"{name}-notes"
        self._dimension = dimension
        self._options = options
        self._server = server
        self._max_points = max_points
        self._client: AsyncQdrantClient | None = None
        self._doubted = False
        self._making = asyncio.Lock()

    async def begin(self) -> str:
        self._client = self._client or self._connect()
        await self._make()
        self.alive = True
        return f"{(await self.stats()).points} points"

    async def end(self) -> None:
        self.alive = False
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(ApiException, OSError):
                await client.close()

    async def refusal(self, *, search: bool, seconds: float) -> str | None:  # noqa: ARG002 - the protocol's; a server is never busy with us alone
        return None

    async def search(self, where: Where, vector: bytes, limit: int) -> list[Row]:
        found = await self._heard(
            self._there.query_points(
                self._collection,
                query=array("f", vector).tolist(),
                query_filter=_filter(where),
                limit=limit,
                with_payload=rows.NEIGHBOUR,
                with_vectors=True,
            )
        )
        return [rows.read(point.payload, point.vector) for point in found.points]

    async def fetch(self, numbers: Sequence[str]) -> list[Row]:
        found = await self._heard(self._there.retrieve(self._collection, list(numbers), with_payload=True, with_vectors=True))
        return [rows.read(record.payload, record.vector) for record in found]

    async def put(self, given: Sequence[Row]) -> None:
        long = sum(len(row.answer) for row in given) > _LONG
        points = await asyncio.to_thread(_points, given) if long else _points(given)
        await self._heard(self._there.upsert(self._collection, points, wait=True))

    async def delete(self, numbers: Sequence[str]) -> None:
        selector = models.PointIdsList(points=list(numbers))
        await self._heard(self._there.delete(self._collection, selector, wait=True))

    async def page(self, where: Where, fields: Sequence[str], limit: int, start: str | None, *, delete: bool) -> Sheet:
        found, following = await self._heard(
            self._there.scroll(
                self._collection,
                scroll_filter=_filter(where),
                limit=limit,
                offset=start,
                with_payload=list(fields),
                with_vectors=False,
            )
        )
        if delete and found:
            await self.delete([str(record.id) for record in found])
        return Sheet(rows.readable(record.payload for record in found), None if following is None else str(following))

    async def stats(self) -> Numbers:
        told = await self._heard(self._there.get_collection(self._collection))
        points = told.points_count or 0
        return Numbers(points, told.segments_count, max(0, points - (told.indexed_vectors_count or 0)))

    async def note(self, name: str) -> bytes | None:
        found = await self._heard(self._there.retrieve(self._notes, rows.numbers([name]), with_payload=True))
        return rows.unstowed((found[0].payload or {}).get("data")) if found else None

    async def keep_note(self, name: str, data: bytes) -> None:
        payload = {"name": name, "data": rows.stowed(data)}
        points = [models.PointStruct(id=rows.numbers([name])[0], vector=[1.0], payload=payload)]
        await self._heard(self._there.upsert(self._notes, points, wait=True))

    async def mark(self, name: str, data: bytes) -> None:
        payload = {"name": name, "mark": rows.stowed(data)}
        points = [models.PointStruct(id=rows.numbers([_MARK + name])[0], vector=[1.0], payload=payload)]
        await self._heard(self._there.upsert(self._notes, points, wait=True))

    async def marks(self) -> dict[str, bytes]:
        """In the notes' collection, beside a few notes."""
        found, _ = await self._heard(
            self._there.scroll(self._notes, limit=_MOST_MARKS, with_payload=["name", "mark"], with_vectors=False)
        )
        told = [record.payload or {} for record in found]
        return {str(fields["name"]): rows.unstowed(fields["mark"]) for fields in told if "mark" in fields and "name" in fields}

    async def unmark(self, names: Sequence[str]) -> None:
        selector = models.PointIdsList(points=list(rows.numbers(_MARK + name for name in names)))
        await self._heard(self._there.delete(self._notes, selector, wait=True))

    async def tidy(self) -> None:
        """A server does that by itself."""

    async def tend(self) -> None:
        if not self.alive:
            return
        if self._doubted:
            await self._make()
        if self._max_points is not None:
            surplus = (await self.stats()).points - self._max_points
            if surplus > 0:
                await self._drop_oldest(min(surplus, _TRIM))

    @property
    def _there(self) -> AsyncQdrantClient:
        if self._client is None:
            raise ConnectionError("not connected")
        return self._client

    async def _drop_oldest(self, many: int) -> None:
        oldest = models.OrderBy(key="stored_at", direction=models.Direction.ASC)
        found, _ = await self._there.scroll(self._collection, limit=many, order_by=oldest, with_payload=False)
        if found:
            await self.delete([str(record.id) for record in found])

    async def _heard(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except Exception:  # whatever it is, the collection may be gone: that is looked at in the background
            self._doubted = True
            raise

    async def _make(self) -> None:
        """The collections and their indexes, those that are not there."""
        async with self._making:
            client = self._there
            await _unless_made(partial(self._create, client), partial(client.collection_exists, self._collection))
            await _unless_made(partial(self._create_notes, client), partial(client.collection_exists, self._notes))
            for field, divides in rows.KEYWORDS.items():
                keyword = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=divides or None)
                await client.create_payload_index(self._collection, field, keyword, wait=True)
            for field in rows.NUMBERS:
                number = models.FloatIndexParams(type=models.FloatIndexType.FLOAT, enable_hnsw=False)
                await client.create_payload_index(self._collection, field, number, wait=True)
            self._doubted = False

    async def _create(self, client: AsyncQdrantClient) -> bool:
        options, server = self._options, self._server
        graph = models.HnswConfigDiff(
            m=options.m,
            payload_m=options.payload_m,
            ef_construct=options.ef_construct,
            full_scan_threshold=options.full_scan_kb,
        )
        vectors = models.VectorParams(
            size=self._dimension, distance=models.Distance.COSINE, on_disk=options.vectors_on_disk or None
        )
        return await client.create_collection(
            self._collection,
            vectors_config=vectors,
            hnsw_config=graph,
            optimizers_config=models.OptimizersConfigDiff(max_segment_size=options.max_segment_kb),
            quantization_config=_quantization(options.quantization),
            on_disk_payload=options.payload_on_disk,
            shard_number=server.shards,
            replication_factor=server.replicas,
            write_consistency_factor=server.write_consistency,
        )

    async def _create_notes(self, client: AsyncQdrantClient) -> bool:
        vectors = models.VectorParams(size=1, distance=models.Distance.DOT)
        return await client.create_collection(self._notes, vectors_config=vectors, replication_factor=self._server.replicas)


async def _unless_made(make: Callable[[], Awaitable[bool]], there: Callable[[], Awaitable[bool]]) -> None:
    """Another node may make the same collection at the same time."""
    if await there():
        return
    try:
        await make()
    except Exception:  # of which kind, the client leaves open
        if not await there():
            raise


def _points(given: Sequence[Row]) -> list[models.PointStruct]:
    return [
        models.PointStruct(id=rows.numbers([row.id])[0], vector=array("f", row.vector).tolist(), payload=rows.payload(row))
        for row in given
    ]


def _filter(where: Where) -> models.Filter:
    equal = [models.FieldCondition(key=field, match=models.MatchValue(value=value)) for field, value in where.values()]
    within = [models.FieldCondition(key=field, range=models.Range(**{how: value})) for field, how, value in where.ranges()]
    return models.Filter(must=[*equal, *within])


def _quantization(kind: Quantization) -> models.ScalarQuantization | models.BinaryQuantization | None:
    if kind == "scalar":
        return models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8))
    return models.BinaryQuantization(binary=models.BinaryQuantizationConfig()) if kind == "binary" else None
