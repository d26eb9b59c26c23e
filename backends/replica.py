"""One server of a pool: how to reach it, and what is known of it.

Each fact has one writer, and none of them touches the facts of another:

    inflight, pending the leases of this gateway, and nothing else; never reset
    breaker, latency  the outcomes of those leases
    hold              likewise: how long it is left alone for its refusals
    up                the health monitor
    draining          the operator, through the pool
    ready, held, slots  the pool, whenever one of the facts they follow from has changed
    ramp_seconds      the pool, for a replica that has a slow start before it (see `ramp`)
    waiting           the scrape of the server's own metrics: advice that goes stale
    governor          outcomes and scrapes: how much it is given at once (see `governor`)
    others_*          whoever hears of other gateways before the same server: advice for the choice alone
    tokens, peak      the leases, where tokens are counted; the governor lowers the peak when it has looked
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from backends.breaker import Breaker
from backends.client import Origin
from backends.governor import FIXED, Governor
from backends.hold import Hold
from backends.upstream import Upstream

_RISE = 0.5  # weight of a sample above the average: news of trouble is believed quickly,
_FALL = 0.2  # good news slowly, since one short prompt proves little
_NEVER = float("-inf")
_SLOW = 1.0  # seconds without a first byte
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Order(Protocol):
    def moved(self, replica: Replica) -> None: ...


class Replica:
    """`inflight`, `slots` and `ready` are plain attributes because every choice reads them.

    `held`: it is ready, but left to others just now (see `hold`).
    `max_inflight` is the most that it takes; `slots` what it is given now, which is less during a slow start, or by its
    governor. `tokens` are those of the requests that it has, as far as anybody counts them; `most_tokens` bounds them.
    `pending`: uncached prompt tokens that were sent and whose first token has not come back, of requests with many of them.
    `others_inflight`, `others_pending`: the same of other gateways, as far as they tell; no slot and no limit depends on it.
    `speed`: of its prefill, beside the others of its pool.
    `order`: where its pool is a large one, is told of whatever of these has changed.
    """

    __slots__ = (
        "_changed",
        "_draining",
        "_up",
        "authority",
        "authorization",
        "breaker",
        "client",
        "emptied",
        "governor",
        "head_lines",
        "held",
        "hold",
        "inflight",
        "latency",
        "latency_at",
        "max_inflight",
        "most_tokens",
        "name",
        "order",
        "others_inflight",
        "others_pending",
        "path",
        "peak",
        "pending",
        "ramp_from",
        "ramp_seconds",
        "ready",
        "root",
        "slots",
        "speed",
        "tokens",
        "waiting",
        "waiting_at",
        "waiting_inflight",
    )

    def __init__(
        self,
        name: str,
        client: Upstream,
        *,
        breaker: Breaker,
        max_inflight: int = 256,
        api_key: str | None = None,
        path: str | None = None,
        governor: Governor = FIXED,
    ) -> None:
        self.name = name
        self.client = client
        self.breaker = breaker
        self.max_inflight = max_inflight
        origin = client.origin
        self.path = path if path is not None else origin.base_path if origin is not None else ""
        self.root = self.path.removesuffix("/v1")  # where engines have what is no part of OpenAI's API
        self.authority = _authority(origin) if origin is not None else b""
        self.authorization = None if api_key is None else _authorization(name, api_key)
        self.head_lines = _head_lines(self.authority, self.authorization)
        self.governor = governor
        self.inflight = self.pending = self.peak = self.tokens = 0
        self.others_inflight = self.others_pending = 0
        self.speed = 1.0
        self.slots = min(max_inflight, governor.slots)
        self.most_tokens = governor.tokens
        self.ramp_seconds = 0.0
        self.ramp_from: float | None = None  # the moment at which it was up for the first time
        self.emptied: asyncio.Event | None = None  # set by the last lease to leave, where somebody waits for that
        self.order: Order | None = None
        self.ready = self.held = False
        self.hold = Hold()
        self.latency = 0.0
        self.latency_at = _NEVER
        self.waiting = 0.0
        self.waiting_at = _NEVER
        self.waiting_inflight = 0
        self._up = False
        self._draining = False
        self._changed: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"Replica({self.name!r}, inflight={self.inflight}, up={self._up}, draining={self._draining})"

    @property
    def up(self) -> bool:
        return self._up

    @up.setter
    def up(self, up: bool) -> None:
        if up != self._up:
            self._up = up
            if up:
                self.governor.recovered()
            self._announce()

    @property
    def draining(self) -> bool:
        return self._draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        if draining != self._draining:
            self._draining = draining
            self._announce()

    def bind(self, changed: Callable[[], None]) -> None:
        """Called by the one pool that the replica belongs to; `changed` runs on every change of `up` or `draining`."""
        if self._changed is not None:
            raise ValueError(f"replica {self.name!r} is already in a pool")
        self._changed = changed

    def unbind(self) -> None:
        """It has left its pool."""
        self._changed = self.order = None
        self.ready = self.held = False

    def observe_latency(self, seconds: float, now: float) -> None:
        """A first byte came `seconds` after dispatch."""
        if self.latency_at == _NEVER:
            self.latency = seconds
        else:
            self.latency += (seconds - self.latency) * (_RISE if seconds > self.latency else _FALL)
        self.latency_at = now

    def observe_failure(self, seconds: float, now: float) -> None:
        """An attempt failed without a first byte: it makes the replica look slow, never fast, however quickly it failed.

        Of one that was never measured only what takes a second says anything.
        """
        if self.latency_at > _NEVER or seconds >= _SLOW:
            self.observe_latency(max(seconds, self.latency), now)

    def observe_waiting(self, waiting: float, now: float) -> None:
        """The server said how many requests wait in its own queue. Our own count of this moment is kept beside it."""
        self.waiting = waiting
        self.waiting_at = now
        self.waiting_inflight = self.inflight

    def forget_waiting(self) -> None:
        """The server does not say it any more."""
        self.waiting, self.waiting_at = 0.0, _NEVER

    def _announce(self) -> None:
        if self._changed is not None:
            self._changed()


def _authority(origin: Origin) -> bytes:
    host = f"[{origin.host}]" if ":" in origin.host and not origin.host.startswith("[") else origin.host
    if origin.port != _DEFAULT_PORTS.get(origin.scheme):
        host = f"{host}:{origin.port}"
    return host.encode("ascii")


def _authorization(name: str, api_key: str) -> bytes:
    # A line break in a key would end the header line; the message must not show the key.
    if not api_key.isascii() or not api_key.isprintable() or not api_key.strip():
        raise ValueError(f"the api_key of replica {name!r} is not printable ASCII")
    return b"Bearer " + api_key.encode("ascii")


def _head_lines(authority: bytes, authorization: bytes | None) -> bytes:
    """What follows the path in a request head: the head is METHOD, space, path, this, more header lines, CRLF."""
    lines = b" HTTP/1.1\r\nhost: " + authority + b"\r\n"
    return lines if authorization is None else lines + b"authorization: " + authorization + b"\r\n"
