"""The semantic cache: a question's nearest neighbours, and whether the answer of one of them may be served.

    gate       nothing that is kept shares enough words: a miss, without an embedding
    guards     nothing of what does could be served, however near its vector: likewise
    embed      one forward, shared with whoever asks the same just now
    near       the cosine of each of those that the gate has named; where their vectors are not at hand, the store is searched
    decide     the likest first: refused pairs, guards, the cut (`decision`, `evidence`); the first that passes is served
    verify     a cross-encoder, where there is one, may approve the best that was nearly served (`verified`)
    fetch      its answer

What is away (embedder, store, verifier) is a miss with a reason; no question raises. Answers are kept by `writer`, off the
requests' path.

A tenant that shares with others reads their partition, and its own. A question enters the shared one only once so many
different tenants (`askers`) have asked it: before that nobody learns from a hit that somebody else has asked. Who did not make an
answer deletes it, or complains of it, for itself alone.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from math import inf

import numpy as np

from caches.embed.types import Embedder, EmbedderAway, TooLong, Vector
from caches.errors import CacheAway
from caches.guards import Reading
from caches.semantic.askers import Askers
from caches.semantic.compare import same_answer
from caches.semantic.decision import Preset, judge
from caches.semantic.evidence import Evidence
from caches.semantic.following import Following
from caches.semantic.gate import Gate
from caches.semantic.ids import body_digest, hit_id, is_exact, point_id, read_hit
from caches.semantic.likeness import rank
from caches.semantic.near import Near, Vectors
from caches.semantic.packed import Packed, pack, said, unpack
from caches.semantic.presets import preset_for
from caches.semantic.refused import pair_of
from caches.semantic.types import Asked, Found, Glance, Gone, Grey, SemanticStats, Shown
from caches.semantic.verdicts import Verdicts
from caches.semantic.verified import verified
from caches.semantic.writer import Writer
from caches.types import Entry
from caches.vectors.types import Point, StoreAway, VectorStore
from caches.verify.types import Verifier
from caches.which import Which

_STANDS_FOR = {"strict": 0.02, "balanced": 0.05}  # the share of wrong answers that a preset promises to stay under
_ANY = ""  # in place of an id: no kept question in particular
_NEAREST = 0.97  # a cosine that questions in other words hardly exceed (of 97 that were served, in 13,000 public ones, none)
_MOST_LIKELY = 16  # kept questions that are judged before there is a vector
_READINGS = 4096  # kept questions whose reading is at hand
_NO_VECTOR: Vector = np.zeros(0, dtype=np.float32)  # until the writer makes one


class SemanticCache:
    """`secret` makes ids; `max_answer` in bytes of the body; `wall` is the clock of `Entry.stored_at`.

    `preset` and `max_error` are the operator's usual ones, for what is told of all tenants. `cut`: the least score that serves,
    in place of a preset's. `shared`: other nodes write into the same store.
    """

    def __init__(
        self,
        *,
        embedder: Embedder,
        store: VectorStore,
        verifier: Verifier | None = None,
        secret: bytes,
        wall: Callable[[], float],
        max_answer: int,
        preset: str,
        max_error: float | None = None,
        cut: float | None = None,
        askers: int = 3,
        shared: bool = False,
        evidence: Evidence | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.evidence = evidence or Evidence()
        self.gate = Gate() if gate is None else gate
        self.vectors = Vectors(embedder.dimension)
        self.embedder = embedder
        self.store = store
        self.verifier = verifier
        self.writer = Writer(self, wall, shared=shared)
        self.following: Following | None = None  # where other gateways flush and delete, too
        self._verdicts = Verdicts(self, secret)
        self.refused = self._verdicts.refused
        self.fresh = self._verdicts.fresh
        self._secret = secret
        self._wall = wall
        self._max_answer = max_answer
        self._preset = preset
        self._max_error = max_error
        self._cut = cut
        self._askers = Askers(askers)
        self._readings: OrderedDict[str, tuple[str, Reading]] = OrderedDict()

    # -- a question

    async def look(self, asked: Asked) -> Found:
        passed = self._sifted(asked)
        if isinstance(passed, Found):
            return passed
        question, likely, rooms = passed
        try:
            vector = await self.embedder.embed(asked.text, scope=asked.tenant)
            near = self._at_hand(likely, vector) or await self._search(rooms, vector)
            return await self._decide(asked, question, near)
        except TooLong:
            return Found(why="too long")
        except EmbedderAway as away:
            return Found(away=f"embedder {away.reason}")
        except StoreAway as away:
            return Found(away=f"vector store {away.reason}")

    def glance(self, asked: Asked) -> Glance:
        passed = self._sifted(asked)
        stage = passed.away or passed.why if isinstance(passed, Found) else ""
        preset = self._preset_of(asked.preset)
        cut = self.cut(asked.scope, preset, asked.max_error)
        return Glance(self.embedder.fingerprint, cut, self.embedder.covers(asked.text), stage)

    def _shut(self) -> str:
        """Why nothing may be served just now; to be asked again behind the last wait. Empty: it may."""
        if self.writer.flushes.pending:
            return "flush pending"
        if not self.writer.open:
            return "starting"
        return "" if self.following is None or self.following.believed else "flushes not heard"

    def _sifted(self, asked: Asked) -> Found | tuple[Reading, list[tuple[str, list[str]]], list[str]]:
        """Why it needs no vector; or how it reads, the kept questions that resemble it by partition, and where to search."""
        if shut := self._shut():
            return Found(away=shut)
        if self.refused.bars_request(asked.exact, asked.tenant):
            return Found(why="refused")
        likely = [(room, found) for room in (asked.partition, asked.own) if room and (found := self._likely(room, asked.text))]
        if not likely:
            return Found(why="gate")
        if not self.embedder.covers(asked.text):
            return Found(why="script")
        question = Reading.of(asked.text)
        against = {room: self._objection(asked, question, found) for room, found in likely}
        rooms = [room for room, objection in against.items() if objection is None]
        return (question, likely, rooms) if rooms else Found(why=next(filter(None, against.values()), ""))

    async def take(self, asked: Asked, grey: Grey) -> Found:
        if self.cut(asked.scope, self._preset_of(asked.preset), asked.max_error) == inf:
            return Found(why="similarity")  # the scope is served nothing, whatever a verifier says
        found = await self._kept(asked, grey.id)
        if found.entry is not None:
            found.score, found.kept = grey.score, grey.text
            self._verdicts.served(asked.tenant, asked.request_id, grey.id, found.entry.tenant)
        return found

    async def stands(self, hit: str, body: bytes, maker: str, tenant: str, request_id: str) -> bool:
        point = await self._original(hit, body, maker, tenant)
        if point is not None:
            self._verdicts.served(tenant, request_id, hit, point.tenant, maker)
        return point is not None

    async def would_stand(self, hit: str, body: bytes, maker: str, tenant: str) -> bool:
        return await self._original(hit, body, maker, tenant) is not None

    async def _original(self, hit: str, body: bytes, maker: str, tenant: str) -> Point | None:
        """The answer that an alias stands for."""
        known = read_hit(self._secret, hit, maker)
        if known is None or known.pair is None or self._verdicts.bars(known.pair, known.point, tenant):
            return None
        try:
            point = await self.store.fetch(known.point)
        except StoreAway:
            return None
        if self._shut():
            return None
        packed = None if point is None else unpack(point.answer)
        if point is None or packed is None or point.expires_at <= self._wall() or body_digest(packed.body) != body:
            return None
        return point

    async def _kept(self, asked: Asked, id_: str) -> Found:
        """What was found before, unless it is gone or refused by now."""
        known = read_hit(self._secret, id_, asked.tenant)
        if known is None or (known.pair is not None and self._verdicts.bars(known.pair, known.point, asked.tenant)):
            return Found()
        try:
            point = await self.store.fetch(known.point)
        except StoreAway as away:
            return Found(away=f"vector store {away.reason}")
        if shut := self._shut():
            return Found(away=shut)
        return Found(None if point is None else self._entry(asked, point, id_))

    def _likely(self, room: str, text: str) -> list[str]:
        """Kept questions that share words with it; one that stands for all of them, where those are too many to tell."""
        found = self.gate.resembling(room, text)
        return [_ANY] if found is None or len(found) > _MOST_LIKELY else found

    def _objection(self, asked: Asked, question: Reading, found: list[str]) -> str | None:
        """What speaks against the likest, if none could be served were it as near as questions in other words are: then no
        vector is needed.
        """
        if found == [_ANY]:
            return None
        preset, objection = self._preset_of(asked.preset), ""
        for each in found:
            verdict = judge(question, self._reading(each, self.gate.text(each)), _NEAREST, preset)
            if verdict.serve or (verdict.grey and (asked.wants_grey or self.verifier is not None)):
                return None
            objection = objection or verdict.reason
        return objection

    def _at_hand(self, likely: list[tuple[str, list[str]]], vector: Vector) -> list[Near]:
        """All that the gate has named; nothing if the vector of one of them is not at hand."""
        ids = [id_ for _, found in likely for id_ in found]
        cosines = self.vectors.cosines(ids, vector)
        return [Near(id_, self.gate.text(id_), cosine) for id_, cosine in zip(ids, cosines, strict=True)] if cosines else []

    async def _search(self, rooms: list[str], vector: Vector) -> list[Near]:
        matches = [match for room in rooms for match in await self.store.search(room, vector)]
        for match in matches:
            self.vectors.put(match.id, match.vector)
        return [Near(match.id, match.text, match.cosine) for match in matches]

    async def _decide(self, asked: Asked, question: Reading, near: list[Near]) -> Found:
        preset = self._preset_of(asked.preset)
        cut = self.cut(asked.scope, preset, asked.max_error)
        found = await self._best(asked, question, near, preset, cut)
        return found if self.verifier is None else await verified(self, self.verifier, asked, found, cut)

    async def _best(self, asked: Asked, question: Reading, near: list[Near], preset: Preset, cut: float) -> Found:
        grey: Grey | None = None
        why = ""
        for each in sorted(near, key=lambda each: (-rank(asked.text, each.text, each.cosine), each.text)):
            id_, barred = self._hit(asked, each.text, each.id)
            if barred:
                why = why or "refused"
                continue
            verdict = judge(question, self._reading(each.id, each.text), each.cosine, preset, cut)
            if verdict.serve:
                point = await self.store.fetch(each.id)
                if shut := self._shut():
                    return Found(away=shut)
                entry = None if point is None else self._entry(asked, point, id_)
                if entry is not None:
                    self._verdicts.served(asked.tenant, asked.request_id, id_, entry.tenant)
                    return Found(entry, verdict.score, kept=each.text)
                continue
            why = why or verdict.reason
            if verdict.grey and (grey is None or verdict.score > grey.score):
                grey = Grey(id_, verdict.score, each.text)
        return Found(why=why or "nothing near", grey=grey)

    def _preset_of(self, name: str) -> Preset:
        return preset_for(name, self.embedder.fingerprint, self._cut)

    def cut(self, scope: str, preset: Preset, max_error: float | None) -> float:
        return self.evidence.cut(scope, preset.serve, _STANDS_FOR[preset.name], max_error)

    def _hit(self, asked: Asked, kept: str, point: str) -> tuple[str, bool]:
        """The id of a hit on a kept question, and whether it is never to be served."""
        pair = pair_of(self._secret, asked.partition, asked.text, kept)
        return hit_id(self._secret, point, pair, asked.tenant, asked.exact), self._verdicts.bars(pair, point, asked.tenant)

    def _reading(self, id_: str, text: str) -> Reading:
        known = self._readings.get(id_)
        if known is None or known[0] != text:
            known = self._readings[id_] = (text, Reading.of(text))
            if len(self._readings) > _READINGS:
                self._readings.popitem(last=False)
        return known[1]

    def _entry(self, asked: Asked, point: Point, id_: str) -> Entry | None:
        packed = unpack(point.answer)
        now = self._wall()
        if packed is None or point.expires_at <= now or point.partition not in (asked.partition, asked.own):
            return None
        if asked.max_age is not None and now - point.stored_at > asked.max_age:
            return None
        return Entry(
            id=id_, key=b"", tenant=point.tenant, model=point.model, tier=packed.tier, endpoint=packed.endpoint, body=packed.body,
            stored_at=point.stored_at, expires_at=point.expires_at, completion_tokens=packed.completion_tokens,
            prompt_tokens=packed.prompt_tokens, tags=tuple(tag for tag in point.tags if not is_exact(tag)),
        )  # fmt: skip

    # -- an answer

    async def keep(self, asked: Asked, entry: Entry) -> None:
        if len(entry.body) > self._max_answer or said(entry.body) is None or not self.embedder.covers(asked.text):
            return
        enough = self._askers.count(asked) if asked.own else None
        room = asked.own if asked.own and enough is None else asked.partition
        if room == asked.own and entry.tenant != asked.tenant:
            return
        tags = (*entry.tags, entry.id) if is_exact(entry.id) else entry.tags
        packed = Packed(entry.endpoint, entry.tier, entry.prompt_tokens, entry.completion_tokens, entry.body)
        point = Point(
            id=point_id(self._secret, room, asked.text), partition=room, vector=_NO_VECTOR, text=asked.text, tenant=entry.tenant,
            model=entry.model, tags=tags, stored_at=entry.stored_at, expires_at=entry.expires_at, answer=pack(packed),
        )  # fmt: skip
        if self.writer.post(point, entry) and enough is not None:
            enough.kept = True

    async def heard(self, asked: Asked) -> bool:
        enough = self._askers.count(asked) if asked.own else None
        return enough is not None and not enough.kept

    # -- what answers have shown

    async def compare(self, asked: Asked, id: str, answer: bytes) -> Shown:  # noqa: A002 - the protocol's
        found = await self._kept(asked, id)
        fresh = said(answer)
        kept = None if found.entry is None else said(found.entry.body)
        if found.entry is None or kept is None or fresh is None:
            return Shown(None)
        right = await same_answer(self.embedder, kept, fresh, asked.tenant)
        return Shown(right, found.entry.body if right is None else b"")

    async def learn(self, asked: Asked, id: str, score: float, *, right: bool, weight: float) -> None:  # noqa: A002 - the protocol's
        await self._verdicts.learn(asked, id, score, right=right, weight=weight)

    async def feedback(self, tenant: str, request_id: str, score: float) -> str:
        return await self._verdicts.feedback(tenant, request_id, score)

    # -- the operator's, and the owner's

    async def delete(self, id: str, tenant: str | None) -> Gone:  # noqa: A002 - the protocol's
        return await self._verdicts.delete(id, tenant)

    async def forget(self, exact: str, tenant: str | None, *, known: bool) -> bool:
        return await self._verdicts.forget(exact, tenant, known=known)

    async def flush(self, which: Which, *, dry_run: bool = False) -> int:
        """Raises CacheAway: then it is done as soon as the store is there, and nothing is served before that."""
        try:
            if dry_run:
                return len(await self.store.flush(which, dry_run=True))
            return await self.writer.flush(which)
        except StoreAway as away:
            raise CacheAway(f"the vector store is away ({away.reason})") from None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as both:
            both.create_task(self.writer.run())
            if self.following is not None:
                both.create_task(self.following.run())

    async def close(self) -> None:
        await self.writer.close()

    def standing(self) -> SemanticStats:
        """Without a word to the store."""
        preset = self._preset_of(self._preset)
        seen = self.evidence.shown(min(preset.serve, self.cut("", preset, self._max_error)))
        return SemanticStats(
            entries=len(self.gate),
            partitions=self.gate.partitions,
            labels=seen.labels,
            wrong=seen.wrong,
            error_low=seen.low,
            error_high=seen.high,
            off=tuple(self._off()),
            store=self.writer.health,
            embedder=self.embedder.fingerprint,
        )

    def _off(self) -> list[str]:
        preset = self._preset_of(self._preset)
        return [scope for scope in self.evidence.scopes() if self.cut(scope, preset, self._max_error) == inf]
