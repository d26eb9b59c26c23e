"""Qdrant's engine on one directory: what it is asked, in its own words. Blocking, and one thread at a time.

Measured with qdrant-edge-py 0.9, and what is made of it here:
- Every call holds the interpreter's lock from beginning to end, `optimize` and `flush` too (a second and more). So no process
  that serves requests may run it: see `engine`.
- What `update` has returned from survives a kill of the process at any moment (it is in a log, which is read again by `load`).
  Only a `flush` bounds that log and brings it to the disk itself.
- A number that is indexed for ranges also has the points linked in a graph by it, unless told not to: 20,000 points then took
  20 s to lay out, and take 2 s now.
- What a killed `optimize` leaves behind in `temp_segments` is never removed by the engine.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import qdrant_edge as edge

from caches.vectors import rows
from caches.vectors.backend import Numbers, Sheet
from caches.vectors.faults import ROOM, short, taken
from caches.vectors.options import IndexOptions, Quantization
from caches.vectors.rows import BadRow, Row, Where

_TRIM = 256  # points that go at a time when there are too many, so that not every put must look for the oldest


class Shard:
    """`max_points`: beyond them the oldest go."""

    def __init__(self, path: Path, dimension: int, options: IndexOptions, max_points: int) -> None:
        self._path = path
        self._max_points = max_points
        self._bytes = array("f").itemsize * dimension
        config = _config(dimension, options)
        if (path / "edge_config.json").exists():
            shutil.rmtree(path / "temp_segments", ignore_errors=True)
            self._shard = edge.EdgeShard.load(str(path), config)
        else:
            path.mkdir(parents=True, exist_ok=True)
            self._shard = edge.EdgeShard.create(str(path), config)
        self._index()

    def _index(self) -> None:
        """Also of a directory that was made and not finished: an index that is there already is left as it is."""
        there = self._shard.info().payload_schema
        for field, divides in rows.KEYWORDS.items():
            if field not in there:
                params = edge.KeywordIndexParams(is_tenant=divides or None, enable_hnsw=divides)
                self._shard.update(edge.UpdateOperation.create_field_index(field, params))
        for field in rows.NUMBERS:
            if field not in there:
                self._shard.update(edge.UpdateOperation.create_field_index(field, edge.FloatIndexParams(enable_hnsw=False)))

    def search(self, where: Where, vector: bytes, limit: int) -> list[Row]:
        request = edge.QueryRequest(
            limit=limit,
            query=edge.Query.Nearest(_numbers(vector)),
            filter=_filter(where),
            with_payload=rows.NEIGHBOUR,
            with_vector=True,
        )
        return [self._read(found.payload, found.vector) for found in self._shard.query(request)]

    def fetch(self, numbers: Sequence[str]) -> list[Row]:
        found = self._shard.retrieve(list(numbers), with_payload=True, with_vector=True)
        return [self._read(record.payload, record.vector) for record in found]

    def _read(self, payload: object, vector: object) -> Row:
        """Raises BadRow: no row but ours was ever written here."""
        row = rows.read(payload, vector)
        if len(row.vector) != self._bytes or not isfinite(sum(array("f", row.vector))):
            raise BadRow("no vector of ours")
        return row

    def put(self, points: Sequence[Row]) -> None:
        made = [edge.Point(id=rows.number(row.id), vector=_numbers(row.vector), payload=rows.payload(row)) for row in points]
        self._shard.update(edge.UpdateOperation.upsert_points(made))
        surplus = self._shard.info().points_count - self._max_points
        if surplus > 0:
            self._drop_oldest(surplus + min(_TRIM, self._max_points // 16))

    def _drop_oldest(self, many: int) -> None:
        oldest = edge.OrderBy("stored_at", edge.Direction.Asc)
        found, _ = self._shard.scroll(edge.ScrollRequest(limit=many, order_by=oldest, with_payload=False))
        self._shard.update(edge.UpdateOperation.delete_points([record.id for record in found]))

    def delete(self, numbers: Sequence[str]) -> None:
        self._shard.update(edge.UpdateOperation.delete_points(list(numbers)))

    def page(self, where: Where, fields: Sequence[str], limit: int, start: str | None, *, delete: bool) -> Sheet:
        request = edge.ScrollRequest(offset=start, limit=limit, filter=_filter(where), with_payload=list(fields))
        found, following = self._shard.scroll(request)
        sheet = Sheet(rows.readable(record.payload for record in found), None if following is None else str(following))
        if delete and found:
            self._shard.update(edge.UpdateOperation.delete_points([record.id for record in found]))
        return sheet

    def stats(self) -> Numbers:
        info = self._shard.info()
        return Numbers(info.points_count, info.segments_count, max(0, info.points_count - info.indexed_vectors_count))

    def tidy(self) -> bool:
        """Laying out needs room for a second copy, and waits until there is."""
        self._shard.flush()
        changed = not short(self._path, ROOM + taken(self._path)) and self._shard.optimize()
        if changed:
            self._shard.flush()
        return changed

    def close(self) -> None:
        self._shard.close()


def _numbers(vector: bytes) -> list[float]:
    return array("f", vector).tolist()


def _filter(where: Where) -> edge.Filter:
    equal = [edge.FieldCondition(key=field, match=edge.MatchValue(value=value)) for field, value in where.values()]
    within = [edge.FieldCondition(key=field, range=edge.RangeFloat(**{how: value})) for field, how, value in where.ranges()]
    return edge.Filter(must=[*equal, *within])


def _config(dimension: int, options: IndexOptions) -> edge.EdgeConfig:
    vectors = edge.EdgeVectorParams(
        size=dimension,
        distance=edge.Distance.Cosine,
        memory=edge.Memory.Cold if options.vectors_on_disk else edge.Memory.Cached,
    )
    graph = edge.HnswIndexConfig(
        m=options.m,
        payload_m=options.payload_m,
        ef_construct=options.ef_construct,
        full_scan_threshold=options.full_scan_kb,
    )
    return edge.EdgeConfig(
        vectors=vectors,
        hnsw_config=graph,
        quantization_config=_quantization(options.quantization),
        payload_memory=edge.Memory.Cold if options.payload_on_disk else edge.Memory.Cached,
        optimizers=edge.EdgeOptimizersConfig(max_segment_size=options.max_segment_kb),
    )


def _quantization(kind: Quantization) -> edge.ScalarQuantizationConfig | edge.BinaryQuantizationConfig | None:
    if kind == "scalar":
        return edge.ScalarQuantizationConfig(type=edge.ScalarType.Int8)
    return edge.BinaryQuantizationConfig() if kind == "binary" else None
