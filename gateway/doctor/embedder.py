"""Builds the configured embedder, or asks the pool that stands for it, and has it embed a sentence. And judges that.

A model that runs in this process is loaded in a thread, as the gateway loads it; one that is known by its name only may be
downloaded then. Of a pool every replica is asked: all of them must give vectors of one kind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from backends.errors import UpstreamError
from backends.replica import Replica
from caches.embed.description import Description
from caches.embed.thread import CallThread
from caches.embed.types import Model
from caches.embed.vector import unit
from caches.semantic.presets import MEASURED
from gateway.build.semantic import loader, read_rows
from gateway.config import Config
from gateway.config.problems import Path, quote
from gateway.doctor.findings import Finding, fail, ok, shown, warn
from gateway.doctor.probe import client_of, request, silence
from routing.types import Target

WHERE: Path = ("cache", "semantic", "embedder")
SENTENCE = "How long does a parcel to the islands take?"
_TRIES = 3  # the quickest counts
_ALIKE = 0.98  # the cosine of one sentence's vectors by two replicas of one model: quantised and batched, it is not quite 1
_CHINESE = "MiniLM calls 46 % of different Chinese questions the same at a cosine of 0.8"


@dataclass(slots=True)
class EmbedderFacts:
    """`seconds` of one sentence. `answers`: of a pool, by replica: a vector, or what went wrong."""

    trouble: str = ""
    loaded: float = 0.0
    seconds: float = 0.0
    answers: dict[str, list[float] | str] = field(default_factory=dict)
    finished: bool = False


async def load(facts: EmbedderFacts, config: Config, about: Description, seconds: float) -> None:
    """Never raises for what a model does."""
    thread = CallThread("doctor-embedder")
    try:
        async with asyncio.timeout(seconds):
            facts.loaded, facts.seconds = await thread.call(lambda: _tried(loader(config, about)))
    except TimeoutError:
        facts.trouble = f"it did not load within {seconds:g} s"
    except Exception as error:  # noqa: BLE001 - the edge to files, runtimes and downloads, which raise what they like
        facts.trouble = f"{type(error).__name__}: {error}"
    finally:
        facts.finished = True
        thread.close()


def _tried(make: Callable[[], Model]) -> tuple[float, float]:
    began = time.monotonic()
    model = make()
    loaded, quickest = time.monotonic() - began, float("inf")
    for _ in range(_TRIES):
        began = time.monotonic()
        if model.embed([SENTENCE])[0] is None:
            raise ValueError("it cannot read an English sentence whole")
        quickest = min(quickest, time.monotonic() - began)
    return loaded, quickest


async def ask(facts: EmbedderFacts, replicas: Sequence[tuple[Replica, str]], target: Target, prefix: str, seconds: float) -> None:
    """Every replica of the pool at once, each with the key that it wants. Closes their clients."""
    body = msgspec.json.encode({"model": target.served_name, "input": [prefix + SENTENCE]})

    async def one(replica: Replica, secret: str) -> None:
        try:
            path = client_of(replica).origin.base_path.encode() + b"/embeddings"
            reply = await request(replica, path, body, seconds, time.time)
            facts.answers[replica.name] = _vector(reply.status, reply.body, secret)
            facts.seconds = max(facts.seconds, reply.seconds)
        except (UpstreamError, TimeoutError) as error:
            facts.answers[replica.name] = silence(error, replica, seconds).why
        finally:
            await replica.client.close()

    await asyncio.gather(*(one(replica, secret) for replica, secret in replicas))
    facts.finished = True


def _vector(status: int, body: bytes, secret: str) -> list[float] | str:
    if status != 200:
        return f"/v1/embeddings answers {status}: {shown(body, secret)}"
    try:
        (row,) = read_rows(body).data
        unit(np.asarray(row.embedding, np.float32))
    except ValueError:  # msgspec's among them
        return "/v1/embeddings does not answer with one vector for one text"
    return row.embedding


def judge(config: Config, about: Description, facts: EmbedderFacts) -> list[Finding]:
    """What was found out about it, and what it means for those who ask."""
    own = config.cache.semantic.embedder
    if not facts.finished:
        return [fail(WHERE, "the embedder was not there before the time of the whole check was up", "Give it --total.")]
    if facts.trouble:
        what = f"the embedder {about.name} cannot be used: {shown(facts.trouble.encode())}"
        return [fail((*WHERE, "kind"), what, "Correct cache.semantic.embedder: until then every question is a miss.")]
    found = _pool(config, facts) if own.kind == "pool" else []
    if found:
        return [*found, *_scripts(config, about), *_fingerprint(config, about)]
    if facts.seconds > own.deadline / 2:
        what = (
            f"a sentence takes {facts.seconds * 1000:.1f} ms, and may take {own.deadline * 1000:.0f} ms: questions become misses"
        )
        found.append(warn((*WHERE, "deadline"), what, "Give it more time, or take a smaller model."))
    found += [*_scripts(config, about), *_fingerprint(config, about)]
    loads = f", and loads in {facts.loaded:.1f} s" if facts.loaded else ""
    told = f"{about.name} embeds a sentence in {facts.seconds * 1000:.1f} ms{loads}; {about.dimension} numbers"
    return [*found, ok((*WHERE, "kind"), f"{told}, fingerprint {about.fingerprint}")]


def _pool(config: Config, facts: EmbedderFacts) -> list[Finding]:
    own = config.cache.semantic.embedder
    model, dimension = (*WHERE, "model"), (*WHERE, "dimension")
    if not facts.answers:
        return [ok(model, f"the pool of {quote(own.model)} has no replica of its own to ask: it was not")]
    found, vectors = [], []
    for name, answer in facts.answers.items():
        if isinstance(answer, str):
            mend = f"Have it serve embeddings of {quote(own.model)}, or name another model."
            found.append(fail(model, f"replica {name}: {answer}", mend))
        elif len(answer) != own.dimension:
            what = f"replica {name} makes vectors of {len(answer)} numbers, not {own.dimension}"
            found.append(fail(dimension, what, f"Write dimension: {len(answer)}."))
        else:
            vectors.append((name, unit(np.asarray(answer, np.float32))))
    for name, vector in vectors[1:]:
        first, other = vectors[0]
        cosine = float(vector @ other)
        if not cosine >= _ALIKE:
            what = f"replicas {first} and {name} embed one sentence differently: a cosine of {cosine:.2f}"
            found.append(fail(model, what, "Have all of them serve the same model, at the same version."))
    return found


def _scripts(config: Config, about: Description) -> list[Finding]:
    where = (*WHERE, "scripts") if config.cache.semantic.embedder.kind in ("pool", "sentence_transformers") else WHERE
    name = about.name.lower()
    everything = "all" in about.scripts
    if (everything or "han" in about.scripts) and "minilm" in name and "multilingual" not in name:
        what = f"{about.name} is said to read Chinese: {_CHINESE}, so it serves wrong answers"
        return [warn((*WHERE, "scripts"), what, "Write scripts: [latin].")]
    if everything:
        return [ok(where, "it is said to read every script: see with `tiergate cache eval` that it does")]
    such = "" if "han" in about.scripts else f", such as Chinese{f' ({_CHINESE})' if 'minilm' in name else ''},"
    return [ok(where, f"it reads {', '.join(about.scripts)}: questions in other scripts{such} are not looked up by meaning")]


def _fingerprint(config: Config, about: Description) -> list[Finding]:
    if about.fingerprint in MEASURED or config.cache.semantic.cut is not None:
        return []
    what = f"no preset was measured with {about.name} (fingerprint {about.fingerprint}): careful cuts hold, which serve little"
    return [
        warn(WHERE, what, "Measure it with `tiergate cache eval --calibrate`, and write what that finds as cache.semantic.cut.")
    ]
