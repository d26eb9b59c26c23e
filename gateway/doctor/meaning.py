"""The parts of the semantic cache, asked and judged: its embedder and its store. Loaded only where some tenant has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from backends.replica import Replica
from caches.embed.description import Description
from gateway.build.semantic import describe, pool_of
from gateway.config import Config
from gateway.config.schema import Replica as Spec
from gateway.doctor import embedder, vectors
from gateway.doctor.embedder import EmbedderFacts
from gateway.doctor.findings import Finding, fail
from gateway.doctor.vectors import StoreFacts


class Meaning:
    """`make` builds a replica of a model, as the gateway does. An embedder that cannot be described has no store of its own."""

    def __init__(self, config: Config, make: Callable[[str, Spec], Replica]) -> None:
        self._config = config
        self._make = make
        self._about: Description | None = None
        self._embedder = EmbedderFacts()
        self._store: StoreFacts | None = None
        self._found: list[Finding] = []
        try:
            self._about = describe(config)
        except (ValueError, OSError) as error:
            self._found.append(
                fail((*embedder.WHERE, "model"), str(error), "Name a folder that has a model and its embedder.json.")
            )

    def questions(self, seconds: float) -> Iterator[Awaitable[None]]:
        about, own = self._about, self._config.cache.semantic.embedder
        if about is None:
            return
        yield self._ask_store(about, seconds)
        if own.kind != "pool":
            yield embedder.load(self._embedder, self._config, about, seconds)
            return
        target = pool_of(self._config)
        (model,) = [model for model in self._config.models if model.name == target.model.name]
        replicas = [(self._make(model.name, spec), spec.api_key.reveal()) for spec in model.replicas if spec.url]
        yield embedder.ask(self._embedder, replicas, target, own.prefix, seconds)

    async def _ask_store(self, about: Description, seconds: float) -> None:
        self._store = await vectors.ask(self._config, about, seconds)

    def findings(self, now: float) -> list[Finding]:
        found, qdrant = list(self._found), self._config.cache.semantic.qdrant
        placed = vectors.folder(qdrant.path, self._about) if qdrant.url is None else []
        found += placed
        if self._about is None:
            return found
        if not any(finding.severity == "fail" for finding in placed):
            late = StoreFacts("it gave no answer before the time of the whole check was up")
            found += vectors.judge(self._config, self._store or late, now)
        return [*found, *embedder.judge(self._config, self._about, self._embedder)]
