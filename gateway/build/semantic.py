"""The semantic cache, wired. Loaded only where some tenant has it: it brings numpy along, and what its embedder needs."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, cast

import msgspec

from caches.embed.description import Description, Folder
from caches.embed.desk import DeskRules
from caches.embed.types import Embedder, TooLong
from caches.semantic.cache import SemanticCache
from caches.vectors.options import IndexOptions, ServerOptions
from caches.vectors.rows import collection_name
from caches.vectors.store import Times
from caches.vectors.types import VectorStore
from gateway.build.requests import catalog_of, stations_of
from gateway.config import Config
from gateway.dispatch.types import Dispatcher
from gateway.errors import BackendAnswer
from gateway.forward import ContextOverflow, Forwarder
from gateway.inner import Inner
from gateway.metrics import Metrics
from limits.types import Priority

Clock = Callable[[], float]
_TOO_LARGE = 413  # what some engines call a text that is longer than they read


class _Row(msgspec.Struct):
    index: int
    embedding: list[float]


class _Rows(msgspec.Struct):
    data: list[_Row]


_read_rows = msgspec.json.Decoder(_Rows).decode


def build_semantic(config: Config, dispatcher: Dispatcher, clock: Clock, wall: Clock, secret: bytes) -> SemanticCache:
    """Raises ValueError for an embedder that is none."""
    semantic = config.cache.semantic
    about, embedder = _embedder(config, dispatcher, clock)
    return SemanticCache(
        embedder=embedder,
        store=_store(config, about, clock, wall),
        secret=secret,
        wall=wall,
        max_answer=semantic.max_entry,
        preset=semantic.preset,
        max_error=semantic.max_error,
        cut=semantic.cut,
        askers=semantic.askers,
        shared=semantic.qdrant.url is not None,
    )


def _embedder(config: Config, dispatcher: Dispatcher, clock: Clock) -> tuple[Description, Embedder]:
    own = config.cache.semantic.embedder
    rules = DeskRules(deadline=own.deadline)
    if own.kind == "pool":
        from caches.embed.pool import PoolEmbedder  # noqa: PLC0415 - each kind loads what it needs

        about = Description(
            name=own.model, dimension=own.dimension, max_tokens=own.max_tokens, prefix=own.prefix, scripts=own.scripts
        )
        ask, rules = _asking(config, dispatcher, clock), DeskRules(deadline=own.deadline, batch=32, lanes=4)
        return about, PoolEmbedder(about, ask, clock=clock, rng=random.Random(), rules=rules)
    from caches.embed.threaded import ThreadedEmbedder  # noqa: PLC0415 - as above

    if own.kind == "sentence_transformers":
        from caches.embed import transformer  # noqa: PLC0415 - as above

        about = transformer.describe(own.model, own.dimension, own.max_tokens, own.prefix, own.scripts)
        load = partial(transformer.load, own.model, about)
        return about, ThreadedEmbedder(about, load, clock=clock, rng=random.Random(), rules=rules)
    from caches.embed import minilm, onnx  # noqa: PLC0415 - as above

    folder = minilm.folder() if own.kind == "minilm" else Folder.read(Path(own.model))
    load_folder = partial(onnx.OnnxModel, folder)
    return folder.about, ThreadedEmbedder(folder.about, load_folder, clock=clock, rng=random.Random(), rules=rules)


def _asking(config: Config, dispatcher: Dispatcher, clock: Clock) -> Callable[[Sequence[str]], Awaitable[list[list[float]]]]:
    """The call of a pool that serves embeddings."""
    own = config.cache.semantic.embedder
    inner = Inner(dispatcher, catalog_of(config), stations_of(config), Forwarder(clock, Metrics(worker=True)), clock)

    async def ask(texts: Sequence[str]) -> list[list[float]]:
        try:
            body = await inner.post(
                "embeddings", own.model, {"input": list(texts)}, seconds=own.deadline, priority=Priority.REALTIME
            )
        except ContextOverflow:
            raise TooLong from None
        except BackendAnswer as answer:
            raise (TooLong if answer.status == _TOO_LARGE else answer) from None
        return [row.embedding for row in sorted(_read_rows(body).data, key=lambda row: row.index)]

    return ask


def _store(config: Config, about: Description, clock: Clock, wall: Clock) -> VectorStore:
    semantic = config.cache.semantic
    qdrant = semantic.qdrant
    name = collection_name(about.name, about.fingerprint, about.dimension)
    options = IndexOptions(
        quantization=cast(Literal["none", "scalar", "binary"], qdrant.quantization), vectors_on_disk=qdrant.on_disk
    )
    times = Times(search=qdrant.timeout)
    if qdrant.url is None:
        from caches.vectors.embedded import embedded_store  # noqa: PLC0415 - each kind loads what it needs

        return embedded_store(
            qdrant.path, name, about.dimension, options=options, max_points=semantic.max_entries, times=times, clock=wall,
            steady=clock,
        )  # fmt: skip
    from caches.vectors.remote import client_of, remote_store  # noqa: PLC0415 - as above

    return remote_store(
        partial(client_of, qdrant.url, api_key=qdrant.api_key.reveal() or None),
        name,
        about.dimension,
        options=options,
        server=ServerOptions(shards=qdrant.shards, replicas=qdrant.replicas),
        max_points=semantic.max_entries,
        times=times,
        clock=wall,
        steady=clock,
    )
