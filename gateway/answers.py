"""Where an answer comes from: the cache, an identical request in flight, or a model.

hit      an answer that is kept is replayed, in the form that this client asked for
shared   somebody asks the same just now, here or through another worker: one answer for all
miss     a model makes it, and what is whole and good is kept
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, cast

from caches.assemble import assemble, put_together
from caches.flight import Flight, Flights, Orphaned, Seat
from caches.freshness import Freshness, freshness
from caches.key import identity_of_asked, key_of
from caches.pace import AT_ONCE, Pace, paced
from caches.policy import Use
from caches.replay import as_events
from caches.types import Entry
from caches.worth import worth_keeping
from gateway.auth import Rights
from gateway.behind import Behind, Produce
from gateway.caching import Caching
from gateway.call import Failures, Station
from gateway.choosing import forgo
from gateway.dispatch.types import Question, WorkAsk
from gateway.entries import Entries, shown_id
from gateway.errors import ApiError
from gateway.exchange import Exchange, Work
from gateway.hits import Hits
from gateway.job import Job
from gateway.metrics import Metrics
from gateway.patience import Patience
from gateway.relay import json_object
from gateway.reply import Head, Reply
from gateway.similar import Similar

_GONE, _STALE, _OK = Freshness.GONE, Freshness.STALE, HTTPStatus.OK.value  # an enum member costs a look-up in its class each time
_RENEWED = 1.0  # seconds
_IDENTITIES = 4096  # before they are made anew
_SSE = b"text/event-stream; charset=utf-8"
_SAID = {"responses": "output", "messages": "content"}  # where an answer says what it says; elsewhere in `choices`


class Answers:
    """Answers requests that are admitted. `use`, `key`, `entry_id`, `caching` and `good` are pure: `gateway.explain` tells by
    them, and by those of `similar`.
    """

    def __init__(
        self,
        *,
        cachings: Mapping[str, Caching],
        entries: Entries,
        similar: Similar,
        behind: Behind,
        pace: Pace,
        flights: Flights,
        hits: Hits,
        stations: Mapping[str, Station],
        versions: Mapping[str, str],
        secret: bytes,
        metrics: Metrics,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._cachings = cachings
        self.entries = entries
        self.similar = similar
        self._behind = behind
        self._pace = pace
        self._renewing: set[bytes] = set()
        self._flights = flights
        self._hits = hits
        self._stations = stations
        self._versions = versions
        self._secret = secret
        self._metrics = metrics
        self._clock = clock
        self._wall = wall
        self._identities: dict[tuple[Rights, str, str, str | None], bytes] = {}  # of what is asked, beside the body

    async def ahead(self, job: Job) -> None:
        """The key of a large body, made in a thread: hashing lets others run meanwhile."""
        use = self.use(job)
        if use.lookup or use.store:
            job.key = await asyncio.to_thread(self.key, job)

    def question(self, job: Job, first: Callable[[], WorkAsk | None]) -> Question:
        """What its admission may as well find out. It knows the job, so the job is not to know it: see `Question`."""
        use = job.use = self.use(job)
        if use.lookup or use.store:
            job.key = job.key or self.key(job)
            job.split = self.similar.split(job)
        job.work.storable = use.store
        job.shared = use.store and use.share and not job.ask.usage_in_each_chunk
        return Question(
            lookup=job.key if use.lookup else None,
            share=job.key if job.shared else None,
            stream=job.ask.stream,
            first=first,
            unsure=job.split is not None and use.lookup,
        )

    async def answer(self, x: Exchange, job: Job, question: Question, reply: Reply, produce: Produce) -> None:
        """From the cache, from an identical request in flight, or from a model."""
        use, key = cast(Use, job.use), job.key
        if key is None:
            x.cache, x.cache_reason = unanswered(use)
            self._metrics.cache_lookups.add(("exact", "bypass"))
            await self._alone(job, reply, produce)
            return
        entry = await job.admitted.look(question)
        if entry is not None and await self._hit(x, job, entry, reply, produce):
            return
        x.cache, x.cache_reason = unanswered(use)
        if job.admitted.away:
            x.cache_reason = ", ".join(filter(None, (x.cache_reason, f"exact store {job.admitted.away}")))
        x.similar = job.barred
        if job.split is not None:
            entry = await self.similar.look(x, job, produce)
            if entry is not None:
                await self._replay(x, job, entry, reply, "semantic")
                return
            if question.unsure:  # it took a while: somebody may ask a model for the same by now, or have its answer
                question.unsure = False
                entry = await job.admitted.look(question, again=True)
                if entry is not None and await self._hit(x, job, entry, reply, produce):
                    return
        if not use.store:
            self._metrics.cache_lookups.add(("exact", x.cache))
            await self._alone(job, reply, produce)
            return
        await self._share(x, job, question, reply, produce)

    async def _alone(self, job: Job, reply: Reply, produce: Produce) -> None:
        """No cache has a part in this one, beyond having been asked."""
        if job.wishes.cache.only_if_cached:
            raise not_cached()
        try:
            await produce(job, reply)
        finally:
            job.work.settled = True
        reply.end()

    async def _hit(self, x: Exchange, job: Job, entry: Entry, reply: Reply, produce: Produce) -> bool:
        """Serve it, unless it is too old. A stale one is served once more, and renewed meanwhile if this request may do so."""
        found = self.good(job, entry)
        if found is _GONE or (entry.alias and not await self.similar.stands(x, job, entry)):
            return False
        self._metrics.cache_lookups.add(("exact", "hit"))
        mine = job.use is not None and job.use.store and not job.wishes.cache.only_if_cached
        if found is _STALE and mine and entry.key not in self._renewing:
            self._renewing.add(entry.key)
            self._behind.spawn(self._renew(job, entry.key, produce))
        self.similar.heard(x, job, entry)
        await self._replay(x, job, entry, reply)
        return True

    async def _renew(self, job: Job, key: bytes, produce: Produce) -> None:
        """On the tenant's account: a request like any other, but that nobody waits for it."""
        try:
            if not await self._behind.first_to_renew(key):
                return
            made = await self._behind.answer(job, produce, paid=True)
            if made is not None and job.use is not None and job.use.store:
                again, body = made
                await job.admitted.store(self.entries.made(again, body))
            await self._behind.renewed(key)
        finally:  # a moment later: who has looked before may be told of the old one only now
            asyncio.get_running_loop().call_later(_RENEWED, self._renewing.discard, key)

    def use(self, job: Job) -> Use:
        """What it may do with the cache."""
        return self._cachings[job.principal.tenant].exact.use(job.ask.fields, job.endpoint.name, job.wishes.cache)

    def caching(self, job: Job) -> Caching:
        """What holds for its tenant."""
        return self._cachings[job.principal.tenant]

    def good(self, job: Job, entry: Entry) -> Freshness:
        """Whether a kept answer may be served to it."""
        return freshness(entry, self._cachings[job.principal.tenant].exact, self._wall(), job.wishes.cache.max_age)

    def age(self, entry: Entry) -> int:
        """Seconds, as `age` tells them."""
        return max(0, int(self._wall() - entry.stored_at))

    def key(self, job: Job) -> bytes:
        name, tier = job.endpoint.name, job.wishes.tier
        asked = job.principal.allowed, job.ask.model, name, tier
        known = self._identities.get(asked)
        if known is None:
            if len(self._identities) >= _IDENTITIES:
                self._identities.clear()
            known = self._identities[asked] = identity_of_asked(name, models_of(job, self._versions), tier)
        return key_of(self._secret, self._cachings[job.principal.tenant].identity + known, job.ask.fields, name)

    def entry_id(self, key: bytes) -> str:
        """What clients and operators call the answer kept under that key."""
        return self.entries.id_of(key)

    async def _replay(self, x: Exchange, job: Job, entry: Entry, reply: Reply, cache: str = "exact") -> None:
        forgo(job.work)
        x.cache, x.cache_reason = cache, ""
        x.cache_id, x.cache_age = shown_id(entry), self.age(entry)
        x.work.model, x.work.tier = entry.model, entry.tier
        self._hits.charge(x, job, entry.prompt_tokens + entry.completion_tokens)
        self._metrics.tokens_saved.add((), entry.completion_tokens)
        if job.ask.stream:
            await _stream(job, entry.body, reply, self._pace, entry.completion_tokens)
        else:
            reply.json(_OK, entry.body)

    async def _share(self, x: Exchange, job: Job, question: Question, reply: Reply, produce: Produce) -> None:
        """Join the identical request in flight, or be the one that others join."""

        def start(flight: Flight) -> Coroutine[Any, Any, None]:
            return self._fly(job, flight, produce) if elsewhere is None else elsewhere.feed(flight)

        spent, asked = False, unanswered(cast(Use, job.use))[0]
        while True:
            elsewhere = job.admitted.elsewhere()
            try:
                async with self._flights.join(
                    job.key if job.shared else None,
                    stream=job.ask.stream,
                    start=start,
                    priority=job.wishes.priority,
                    on_raise=job.raise_priority,
                    spent=spent,
                    fed=None if elsewhere is None else elsewhere.stream,
                ) as seat:
                    self._metrics.cache_lookups.add(("exact", asked if seat.leader else "shared"))
                    if seat.leader:
                        seat.flight.note = job.work
                    else:
                        job.admitted.follow()
                        forgo(job.work)
                        self.similar.heard(x, job)
                        x.shared, x.cache, x.work = True, "shared", cast(Work, seat.flight.note)
                    if seat.leader and not (job.shared and self._hasty(job)):  # the work's own clocks are enough
                        await self._follow(x, job, seat, reply)
                    else:
                        async with self._patience(job, question, seat):
                            await self._follow(x, job, seat, reply)
                    if not seat.leader:
                        self._hits.charge(x, job, x.work.charged)
                    return
            except Orphaned as orphaned:
                spent = orphaned.spent
                x.past = (*x.past, x.work)
                x.shared, job.work, job.failures, job.plan = False, Work(), Failures(), None
                x.work, x.cache = job.work, asked
            entry = await job.admitted.look(question)  # the one that was shared may be there by now
            if entry is not None and await self._hit(x, job, entry, reply, produce):
                return

    def _hasty(self, job: Job) -> bool:
        """Whether its client may go before the work's time is over."""
        return job.wishes.deadline is not None or job.patience < self._total(job)

    def _patience(self, job: Job, question: Question, seat: Seat) -> Patience:
        return Patience(job, question, seat, self._total(job), self._metrics, self._clock)

    def _total(self, job: Job) -> float:
        return self._stations[job.resolution.candidates[0].model.name].timeouts.total

    async def _follow(self, x: Exchange, job: Job, seat: Seat, reply: Reply) -> None:
        if seat.same_wire:
            reply.on_writable(seat.catch_up)
            await seat.follow(reply)
            reply.end()
            return
        head, pieces = await seat.whole()
        body: bytes | None = b"".join(pieces)
        if cast(Head, head).stream:
            body = x.work.assembled = x.work.assembled or assemble(job.endpoint.name, pieces)
        if body is None:
            seat.forsake()
            raise ApiError(502, "stream_incomplete", "The model's stream ended before its answer did.", outcome="broken_stream")
        if job.ask.stream:
            await _stream(job, body, reply)
        else:
            reply.json(_OK, body)

    async def _fly(self, job: Job, flight: Flight, produce: Produce) -> None:
        """The work behind one or many identical requests, in a task of its own; a whole and good answer is kept."""
        try:
            await produce(job, flight)
        finally:
            job.work.settled = True
        flight.end()
        pieces = flight.pieces
        if pieces is None or job.work.broken or job.work.reason == "fallback":  # another model's answer is for now only
            return
        head = cast(Head, flight.head)
        if head.status != _OK:
            return
        body, answer = _made(job, pieces) if head.stream else (b"".join(pieces), None)
        if body is None or len(body) > self._cachings[job.principal.tenant].exact.max_entry:
            return
        if answer is None and body is not job.work.sound:
            answer = json_object(body)
        if body is job.work.sound or (answer is not None and worth_keeping(answer)):
            entry = self.entries.made(job, body)
            await job.admitted.store(entry)
            await self.similar.keep(job, entry)


def models_of(job: Job, versions: Mapping[str, str]) -> list[tuple[str, str]]:
    """Every model that may answer, with its version: the pinned one alone; of `auto` and other routes every candidate.

    Of a route beside `auto` also itself (no model's name could hold a space): it is to choose in another way, so what it chose
    is not for the others.
    """
    resolution = job.resolution
    pinned, candidates = resolution.pinned, resolution.candidates
    models = [(target.name, versions.get(target.model.name, "")) for target in ((pinned,) if pinned else candidates)]
    if resolution.route:
        models.append((f"route {resolution.route}", ""))
    return models


def unanswered(use: Use) -> tuple[str, str]:
    """`x-tiergate-cache` and its reason, of a request that the cache has no answer to."""
    if use.lookup:
        return "miss", use.reason or ""
    return ("off", "") if use.reason == "off" else ("bypass", use.reason or "")


def not_cached() -> ApiError:
    """What `only-if-cached` gets where the cache has no answer."""
    message = "The answer is not cached, and only a cached one was asked for."
    return ApiError(504, "not_cached", message, headers={"x-should-retry": "false"}, outcome="rejected")


async def _stream(job: Job, body: bytes, reply: Reply, pace: Pace = AT_ONCE, tokens: int = 0) -> None:
    """A complete answer, to a client that asked for a stream."""
    events = as_events(job.endpoint.name, _streamable(job, body), include_usage=job.ask.include_usage)
    reply.begin(Head(200, _SSE, stream=True))
    for seconds, piece in paced(events, tokens, pace):
        if seconds:
            await asyncio.sleep(seconds)
        reply.write(piece)
    reply.end()


def _streamable(job: Job, body: bytes) -> dict[str, Any]:
    """The answer that a stream is made from. Raises ApiError 502."""
    answer = json_object(body)
    if answer is None:
        raise ApiError(502, "bad_upstream_answer", "The model's answer is not JSON, so it cannot be streamed.")
    said = _SAID.get(job.endpoint.name, "choices")
    told = answer.get(said)
    if told is None or (not told and said == "choices") or answer.get("error"):  # what was cut may have said nothing
        raise ApiError(502, "bad_upstream_answer", f"The model's answer has no {said}, so it cannot be streamed.")
    return answer


def _made(job: Job, pieces: list[bytes]) -> tuple[bytes | None, dict[str, Any] | None]:
    """A stream's answer, and what it says as far as that is known already."""
    if job.work.assembled is not None:
        return job.work.assembled, None
    return put_together(job.endpoint.name, pieces) or (None, None)
