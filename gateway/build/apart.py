"""The two halves in processes of their own: the owner of the state, and workers that ask it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from gateway.admin import Admin, Answer, Call, Loaded
from gateway.behind import Behind
from gateway.build.learning import Learns
from gateway.build.owner import Owner, build_owner, provider_of, replica_maker
from gateway.build.requests import Understanding, build_edge, build_pipeline
from gateway.build.whole import build_calls
from gateway.classify.examples import RemoteRates, rating_calls
from gateway.config import Config
from gateway.dispatch import precise
from gateway.dispatch.both import RemoteBoth, both_calls
from gateway.dispatch.case import values_of
from gateway.dispatch.front import Front
from gateway.dispatch.learning import RemoteLearning, learning_calls
from gateway.dispatch.link import Link
from gateway.dispatch.local import slot_ask
from gateway.dispatch.messages import Wait
from gateway.dispatch.node import Node
from gateway.dispatch.roster import Replicas
from gateway.dispatch.session import Session
from gateway.dispatch.similar import RemoteSemantic, semantic_calls
from gateway.edge import Edge
from gateway.loads import LocalLoads, Memory, Page, PageLoads
from gateway.logs import RequestLog
from gateway.metrics import Metrics
from gateway.sight import Sight
from gateway.status import Status
from gateway.tally import Tally, register
from gateway.warming import Report
from limits.vault import Vault

_FRONT = 32 * 1024 * 1024
_FRONT_SHARE = 8  # of what the owner may keep, a worker keeps one in so many
_EXPLAIN = "/admin/explain"
_encode = msgspec.msgpack.encode

AdminTalk = tuple[bytes, bytes, bytes, bytes, str, bytes]


class Pages(Protocol):
    """Memory that all processes of a node share."""

    loads: Memory
    talks: Memory
    switches: Memory


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What the dispatcher's process starts, watches and stops."""

    owner: Owner
    node: Node
    own: Understanding
    admin: Loaded
    tally: Tally
    metrics: Metrics
    page: Page


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a worker's process starts, watches and stops."""

    own: Understanding
    edge: Edge
    link: Link
    replicas: Replicas
    metrics: Metrics


def build_node(
    config: Config,
    secret: bytes,
    vault: Vault,
    pages: Pages,
    *,
    store: Callable[[bytes], None],
    pids: Callable[[Iterable[Session]], Iterable[int]],
    restarts: Callable[[], Mapping[str, int]],
) -> NodeParts:
    """`store` keeps the node's counts where they outlive this process; `pids` are the node's, of whom these sessions' workers."""
    clock, wall = time.monotonic, time.time
    owner = build_owner(config, clock, wall, secret, vault)
    metrics = Metrics(pids=lambda: pids(node.sessions))
    tally = Tally(metrics)
    own = build_pipeline(
        config, owner.local, owner.semantic, owner.both, owner.warmings.hear,
        lambda _: Learns(owner.journal.note), owner.rates, LocalLoads(owner.lanes), pages.talks, pages.switches, metrics, secret,
        clock, wall,
    )  # fmt: skip
    status = Status(owner.lanes, owner.exact, owner.semantic, owner.limiter, owner.share)
    status.register(metrics)
    precise.register(metrics, owner.ears.placings)

    async def keys_changed() -> None:
        own.ring.refresh()
        await node.poll("keys")

    admin = build_calls(config, owner, own, status, keys_changed)
    calls = NodeCalls(owner, admin, status, lambda: tally.page(store))
    node = Node(
        owner.local,
        owner.fleet,
        vault,
        config=fingerprint(config),
        workers=config.server.workers,
        calls=calls.by_verb(),
        counts=tally.absorb,
        forget=tally.gone,
    )
    calls.collect, calls.sessions = lambda: node.poll("counts"), lambda: node.sessions
    register(metrics, workers=lambda: len(node.sessions), restarts=restarts)
    return NodeParts(owner, node, own, admin, tally, metrics, Page(pages.loads, owner.lanes, clock))


def build_worker(config: Config, secret: bytes, pages: Pages, path: str, number: int, log: RequestLog) -> WorkerParts:
    clock, wall = time.monotonic, time.time
    metrics = Metrics(worker=True)
    exact = config.cache.exact
    providers = {model.name: provider_of(config, model) for model in config.models if model.kind == "litellm"}
    replicas = Replicas(replica_maker(config), providers)
    front = Front(min(_FRONT, exact.max_bytes // _FRONT_SHARE) if exact.enabled else 0)
    link = Link(path, number=number, replicas=replicas, front=front, clock=clock)
    semantic, both = RemoteSemantic(link.call, _patience(config)), RemoteBoth(link.call)
    loads = PageLoads(pages.loads, [model.name for model in config.models], clock)
    rates = RemoteRates(link.call, config.routing.classifier.deadline)
    own = build_pipeline(
        config, link, semantic, both, partial(_tell, link), partial(_learns, link), rates, loads, pages.talks,
        pages.switches, metrics, secret, clock, wall,
    )  # fmt: skip
    link.share(own.flights)
    admin = Admin(config.admin.key.reveal(), RemoteCalls(link, own.pipeline.sight))
    edge = build_edge(config, own, admin, RemoteFace(link), log, clock)
    return WorkerParts(own, edge, link, replicas, metrics)


def _learns(link: Link, behind: Behind) -> Learns:
    remote = RemoteLearning(link.call, behind.spawn)
    return Learns(remote.note, remote.elsewhere)


async def _tell(link: Link, report: Report) -> list[bytes]:
    marks: list[bytes] = msgspec.msgpack.decode(await link.call("recurring", _encode(report), once=True), type=list[bytes])
    return marks


def _patience(config: Config) -> float:
    """Seconds: a vector, a search of each of two partitions, two answers fetched."""
    semantic = config.cache.semantic
    return semantic.embedder.deadline + 4 * semantic.qdrant.timeout


def fingerprint(config: Config) -> str:
    """The same for equal configs. Secrets take part as what they show, which is nothing."""
    return hashlib.sha256(repr(config).encode()).hexdigest()


class NodeCalls:
    """What workers ask that is no request of a model."""

    def __init__(self, owner: Owner, admin: Loaded, status: Status, page: Callable[[], bytes]) -> None:
        self._owner = owner
        self._admin = admin
        self._status = status
        self._page = page
        self.collect: Callable[[], Awaitable[object]]
        self.sessions: Callable[[], Iterable[Session]]

    def by_verb(self) -> dict[str, Callable[[Session, bytes], Awaitable[bytes]]]:
        return {
            "admin": self._admin_call,
            "recurring": self._recurring,
            "page": self._metrics,
            "ready": self._ready,
            "renew": self._renew,
            "renewed": self._renewed,
            "standing": self._standing,
            "come_back": self._come_back,
            **semantic_calls(self._owner.semantic),
            **both_calls(self._owner.both),
            **rating_calls(self._owner.rates),
            **learning_calls(self._owner.journal.note, self._connected),
        }

    async def _admin_call(self, _: Session, payload: bytes) -> bytes:
        method, url, content_type, body, path, sight = msgspec.msgpack.decode(payload, type=AdminTalk)
        answer = await self._admin.answer(Call(method, url, content_type, body, sight), path)
        return _encode((answer.status, answer.content_type, answer.body))

    def _connected(self) -> Iterable[Session]:
        return self.sessions()

    async def _recurring(self, _: Session, payload: bytes) -> bytes:
        return _encode(await self._owner.warmings.hear(msgspec.msgpack.decode(payload, type=Report)))

    async def _metrics(self, _: Session, __: bytes) -> bytes:
        await self.collect()
        return self._page()

    async def _ready(self, _: Session, __: bytes) -> bytes:
        return _encode(self._status.ready())

    async def _renew(self, _: Session, key: bytes) -> bytes:
        return _encode(await self._owner.local.first_to_renew(key))

    async def _renewed(self, _: Session, key: bytes) -> bytes:
        await self._owner.local.renewed(key)
        return b""

    async def _standing(self, session: Session, payload: bytes) -> bytes:
        numbers = msgspec.msgpack.decode(payload, type=list[int])
        standing = self._owner.limiter.standing([session.scopes[number] for number in numbers])
        return _encode(values_of(standing))

    async def _come_back(self, session: Session, payload: bytes) -> bytes:
        asked = msgspec.msgpack.decode(payload, type=Wait)
        maker = None if asked.share is None else session.node.berths.get(asked.share)
        lane = self._owner.lanes.get(asked.work.model)
        if lane is None or (asked.share is not None and (maker is None or not maker.waits)):
            return _encode(None)
        return _encode(lane.scheduler.come_back(slot_ask(asked.work)))


class RemoteFace:
    """The node, from a worker."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def ready(self) -> dict[str, object]:
        found: dict[str, object] = msgspec.msgpack.decode(await self._link.call("ready"))
        return found

    async def page(self) -> bytes:
        return await self._link.call("page")


class RemoteCalls:
    """The admin calls, from a worker. `sight`: what it has seen of a tenant."""

    def __init__(self, link: Link, sight: Callable[[str], Sight]) -> None:
        self._link = link
        self._sight = sight

    def load(self) -> None:
        """The dispatcher has loaded them."""

    async def answer(self, call: Call, path: str, /) -> Answer:
        talk: AdminTalk = call.method, call.url, call.content_type, call.body, path, self._seen(call, path)
        status, content_type, body = msgspec.msgpack.decode(
            await self._link.call("admin", _encode(talk), once=call.method not in (b"GET", b"HEAD")),
            type=tuple[int, bytes, bytes],
        )
        return Answer(status, content_type, body)

    def _seen(self, call: Call, path: str) -> bytes:
        """For a question that is about a tenant's request; whether it is a good one is for who answers."""
        if path != _EXPLAIN:
            return b""
        try:
            asked = msgspec.json.decode(call.body, type=_Asked)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return b""
        return _encode(self._sight(asked.tenant))


class _Asked(msgspec.Struct):
    tenant: str
