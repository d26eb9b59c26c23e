"""The semantic cache, wired. Loaded only where some tenant has it: it brings numpy along, and what its embedder needs."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, cast

import msgspec

from caches.embed.description import Description, Folder, read_folder
from caches.embed.desk import RULES, DeskRules
from caches.embed.types import Embedder, Model, TooLong
from caches.orders import Orders
from caches.semantic.cache import SemanticCache
from caches.semantic.following import Following
from caches.semantic.gate import Gate
from caches.types import ExactStore
from caches.vectors.options import IndexOptions, ServerOptions
from caches.vectors.rows import collection_name
from caches.vectors.store import QdrantStore, Times
from caches.verify.types import Verifier
from gateway.build.requests import catalog_of, stations_of
from gateway.call import ContextOverflow
from gateway.config import Config
from gateway.dispatch.types import Dispatcher
from gateway.errors import BackendAnswer
from gateway.forward import Forwarder
from gateway.inner import Inner
from gateway.metrics import Metrics
from limits.waiting import Priority
from routing.types import RoutingError, Target

Clock = Callable[[], float]
_TOO_LARGE = 413  # what some engines call a text that is longer than they read


class Row(msgspec.Struct):
    index: int
    embedding: list[float]


class Rows(msgspec.Struct):
    data: list[Row]


read_rows = msgspec.json.Decoder(Rows).decode


def build_semantic(
    config: Config, dispatcher: Dispatcher, exact: ExactStore, orders: Orders | None, clock: Clock, wall: Clock, secret: bytes
) -> SemanticCache:
    """`orders`: what other gateways say that is to go. Raises ValueError for an embedder or a verifier that is none."""
    semantic = config.cache.semantic
    about = describe(config)
    cache = SemanticCache(
        embedder=embedder_of(config, about, dispatcher, clock),
        store=store_of(config, about, clock, wall),
        verifier=_verifier(config, clock),
        secret=secret,
        wall=wall,
        max_answer=semantic.max_entry,
        preset=semantic.preset,
        max_error=semantic.max_error,
        cut=semantic.cut,
        askers=semantic.askers,
        shared=semantic.qdrant.url is not None,
        gate=Gate(max_entries=semantic.max_entries),
    )
    if orders is not None:
        cache.following = Following(cache, orders, exact, clock)
    return cache


def describe(config: Config) -> Description:
    """What the configured embedder says of itself, before it is loaded. Raises ValueError, OSError and ImportError."""
    own = config.cache.semantic.embedder
    if own.kind == "pool":
        return Description(
            name=_vectors_of(config), dimension=own.dimension, max_tokens=own.max_tokens, prefix=own.prefix, scripts=own.scripts
        )
    if own.kind == "sentence_transformers":
        from caches.embed import transformer  # noqa: PLC0415 - each kind loads what it needs

        return transformer.describe(own.model, own.dimension, own.max_tokens, own.prefix, own.scripts)
    return _folder(config).about


def pool_of(config: Config) -> Target:
    """The model or adapter that embeds, by whichever of its names it was named. Raises ValueError where there is none."""
    try:
        found = catalog_of(config).resolve(config.cache.semantic.embedder.model, "embeddings", lambda _: True).pinned
    except RoutingError as error:
        raise ValueError(f"no model embeds under that name: {error}") from None
    if found is None:
        raise ValueError("several models embed under that name")
    return found


def _vectors_of(config: Config) -> str:
    """Whose vectors they are: what an alias leads to, or a pool serves, may be another model one day."""
    target = pool_of(config)
    (version,) = [model.version for model in config.models if model.name == target.model.name]
    return f"{target.served_name} {version}".strip()


def loader(config: Config, about: Description) -> Callable[[], Model]:
    """Loads the model of an embedder that runs in this process: a moment of disk and CPU, and it raises what it likes."""
    own = config.cache.semantic.embedder
    if own.kind == "sentence_transformers":
        from caches.embed import transformer  # noqa: PLC0415 - each kind loads what it needs

        return partial(transformer.load, own.model, about)
    from caches.embed import onnx  # noqa: PLC0415 - as above

    return partial(onnx.OnnxModel, _folder(config))


def _folder(config: Config) -> Folder[Description]:
    own = config.cache.semantic.embedder
    if own.kind == "onnx":
        return read_folder(Path(own.model))
    from caches.embed import minilm  # noqa: PLC0415 - each kind loads what it needs

    return minilm.folder()


def embedder_of(config: Config, about: Description, dispatcher: Dispatcher, clock: Clock) -> Embedder:
    own = config.cache.semantic.embedder
    if own.kind == "pool":
        from caches.embed.pool import PoolEmbedder  # noqa: PLC0415 - each kind loads what it needs

        rules = DeskRules(deadline=own.deadline, batch=32, lanes=4)
        return PoolEmbedder(about, _asking(config, dispatcher, clock), clock=clock, rng=random.Random(), rules=rules)
    from caches.embed.threaded import ThreadedEmbedder  # noqa: PLC0415 - as above

    rules = DeskRules(deadline=own.deadline)
    return ThreadedEmbedder(about, loader(config, about), clock=clock, rng=random.Random(), rules=rules)


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
        return [row.embedding for row in sorted(read_rows(body).data, key=lambda row: row.index)]

    return ask


def _verifier(config: Config, clock: Clock) -> Verifier | None:
    """A model of the config that is asked instead is the workers': see `build_pipeline`."""
    own = config.cache.semantic.verifier
    if own is None or own.path is None:
        return None
    from caches.verify import crossencoder, description, onnx  # noqa: PLC0415 - each kind loads what it needs

    folder = description.read_folder(own.path)
    return crossencoder.CrossEncoder(
        folder.about, partial(onnx.OnnxPairs, folder), clock=clock, rng=random.Random(), threshold=own.threshold,
        all=own.ask == "all", rules=DeskRules(deadline=own.deadline or RULES.deadline),
    )  # fmt: skip


def collection_of(about: Description) -> str:
    return collection_name(about.name, about.fingerprint, about.dimension)


def store_of(
    config: Config, about: Description, clock: Clock, wall: Clock, *, times: Times | None = None, as_it_is: bool = False
) -> QdrantStore:
    """`times`: other deadlines than the config's. `as_it_is`: a damaged embedded store is refused rather than begun anew."""
    semantic = config.cache.semantic
    qdrant = semantic.qdrant
    name = collection_of(about)
    options = IndexOptions(
        quantization=cast(Literal["none", "scalar", "binary"], qdrant.quantization), vectors_on_disk=qdrant.on_disk
    )
    times = times or Times(search=qdrant.timeout)
    if qdrant.url is None:
        from caches.vectors.embedded import LOCK_SECONDS, embedded_store  # noqa: PLC0415 - each kind loads what it needs

        return embedded_store(
            qdrant.path, name, about.dimension, options=options, max_points=semantic.max_entries, times=times, clock=wall,
            steady=clock, as_it_is=as_it_is, lock_seconds=0.0 if as_it_is else LOCK_SECONDS,
        )  # fmt: skip
    from caches.vectors.remote import client_of, remote_store  # noqa: PLC0415 - as above

    return remote_store(
        partial(client_of, qdrant.url, api_key=qdrant.api_key.reveal() or None),
        name,
        about.dimension,
        options=options,
        server=ServerOptions(shards=qdrant.shards, replicas=qdrant.replicas),
        max_points=semantic.max_entries,
        beside=qdrant.path,
        times=times,
        clock=wall,
        steady=clock,
    )
