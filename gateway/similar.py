"""An answer that was made for another question, and fits this one: the semantic cache, as requests use it.

    split      is it a question whose meaning may be compared? (`caches.semantic.partition`, `eligible`)
    look       its nearest kept neighbours, through the owner of the state
    verify     one that is not sure, or any, may be put to a model, if the operator names one (`gateway.verify`)
    keep       a whole and good answer, under its question
    stands     an answer that was approved for another question is in the exact cache, and goes when the one it came from goes
    heard      in a scope that tenants share, who is answered by the exact cache or an answer in flight has asked it, too
    shadow     some served answers, and all that were nearly served, are compared with what the model says (`gateway.shadow`)

`read`, `refusal` and `asked` are pure: `gateway.explain` tells by them.
Whatever is slow or away here is a miss: nothing raises, and the request goes on to a model.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from caches.policy import Use
from caches.scope import Scope
from caches.semantic.eligible import refusal
from caches.semantic.ids import body_digest
from caches.semantic.partition import Split, partition, split
from caches.semantic.types import Asked, Found, Semantic, SemanticPolicy
from caches.types import Entry
from caches.verify.types import VerifierAway
from gateway.behind import Behind, Produce
from gateway.caching import Caching
from gateway.entries import Entries
from gateway.exchange import Exchange
from gateway.job import Job
from gateway.metrics import Metrics
from gateway.shadow import Shadows

_HEARD_SECONDS = 60.0  # between telling the owner twice that a tenant has asked the same
_MOST_HEARD = 10_000

Models = Callable[[Job], list[tuple[str, str]]]
"""Every model that may answer a job, with its version."""


class Verify(Protocol):
    """Asks a model whether one answer would serve both questions. `all`: also where that is sure without asking."""

    @property
    def all(self) -> bool: ...

    async def serves_both(self, job: Job, question: str, kept: str) -> bool:
        """Raises VerifierAway."""
        ...


class Similar:
    def __init__(
        self,
        semantic: Semantic,
        cachings: Mapping[str, Caching],
        entries: Entries,
        *,
        models: Models,
        secret: bytes,
        metrics: Metrics,
        behind: Behind,
        clock: Callable[[], float],
        verify: Verify | None,
        shadow: Shadows,
    ) -> None:
        self._semantic = semantic
        self._cachings = cachings
        self._entries = entries
        self._models = models
        self._secret = secret
        self._metrics = metrics
        self._behind = behind
        self._clock = clock
        self._heard: OrderedDict[tuple[str, bytes], float] = OrderedDict()  # when the owner was told last
        self._verify = verify
        self._shadow = shadow

    def split(self, job: Job) -> Split | None:
        """The question, if the tenant wants meaning compared and this request's may be; it is read again by nobody else."""
        found = None if job.use is None else self.read(job, job.use)
        if found is None or not found.reason:
            return found
        job.barred = found.reason
        self._metrics.cache_lookups.add(("semantic", "bypass"))
        return None

    def read(self, job: Job, use: Use) -> Split | None:
        """The question, or why there is none. None: meaning has no part in what the tenant, or this request, wants of a cache."""
        policy = self._cachings[job.principal.tenant].semantic
        if policy is None or not (use.lookup or use.store):
            return None
        return split(job.endpoint.name, job.ask.fields, policy)

    def refusal(self, job: Job, question: Split) -> str | None:
        """Why it is not looked up all the same."""
        return refusal(question.text, personal=self._policy(job).skip_personal)

    async def look(self, x: Exchange, job: Job, produce: Produce) -> Entry | None:
        """The answer of a neighbour, if one fits."""
        question = job.split
        if question is None:
            return None
        reason = self.refusal(job, question)
        if reason is not None:
            job.split, x.similar = None, reason
            self._metrics.cache_lookups.add(("semantic", "bypass"))
            return None
        job.asked = asked = self.asked(job, question, x.client_id or x.id)
        if job.use is None or not job.use.lookup:
            return None
        found = await self._semantic.look(asked)
        if self._verify is not None:
            found = await self._verified(self._verify, job, asked, found)
        self._told(x, found)
        if found.entry is not None:
            self._shadow.served(job, asked, found, produce)
        else:
            job.nearly = found if found.grey is not None else None
        return found.entry

    async def keep(self, job: Job, entry: Entry) -> None:
        """What a model has answered to the question; and what that shows about the neighbour that was nearly served."""
        asked = job.asked
        if asked is None or job.use is None or not job.use.store:
            return
        await self._semantic.keep(asked, self._entries.meant(job, entry))
        if job.nearly is not None:
            nearly, job.nearly = job.nearly, None
            self._shadow.nearly(asked, nearly, entry.body)

    async def stands(self, x: Exchange, job: Job, entry: Entry) -> bool:
        """Whether an alias may be served."""
        digest, request_id = body_digest(entry.body), x.client_id or x.id
        return await self._semantic.stands(entry.alias, digest, entry.tenant, job.principal.tenant, request_id)

    def heard(self, x: Exchange, job: Job, entry: Entry | None = None) -> None:
        """It was answered without the semantic cache: by `entry`, or by an answer in flight. Returns at once."""
        tenant, key, question = job.principal.tenant, job.key, job.split
        if question is None or key is None or job.use is None or not job.use.store or not self._cachings[tenant].scope.shared:
            return
        heard, now = self._heard, self._clock()
        if now - heard.get((tenant, key), -_HEARD_SECONDS) < _HEARD_SECONDS:
            return
        heard[tenant, key] = now
        heard.move_to_end((tenant, key))
        if len(heard) > _MOST_HEARD:
            heard.popitem(last=False)
        self._behind.spawn(self._tell(x, job, question, entry))

    async def _tell(self, x: Exchange, job: Job, question: Split, entry: Entry | None) -> None:
        if self.refusal(job, question) is not None:
            return
        asked = self.asked(job, question, x.client_id or x.id)
        if await self._semantic.heard(asked) and entry is not None and not entry.alias:
            await self._semantic.keep(asked, self._entries.meant(job, entry))

    async def _verified(self, verify: Verify, job: Job, asked: Asked, found: Found) -> Found:
        grey = found.grey
        if found.entry is not None:
            no = await _objection(verify, job, asked.text, found.kept) if verify.all else None
            return found if no is None else no
        if grey is None:
            return found
        no = await _objection(verify, job, asked.text, grey.text)
        if no is not None:
            return replace(no, score=found.score)
        taken = await self._semantic.take(asked, grey)
        return taken if taken.entry is not None else found

    def _policy(self, job: Job) -> SemanticPolicy:
        policy = self._cachings[job.principal.tenant].semantic
        assert policy is not None, "asked for a tenant that has one"
        return policy

    def asked(self, job: Job, question: Split, request_id: str) -> Asked:
        """What the semantic cache is asked."""
        caching, policy, rest = self._cachings[job.principal.tenant], self._policy(job), question.rest()
        models = self._models(job)

        def room(scope: Scope) -> str:
            return partition(
                secret=self._secret, scope=scope, endpoint=job.endpoint.name, models=models, rest=rest, tier=job.wishes.tier
            )

        return Asked(
            partition=room(caching.scope),
            own=room(caching.own) if caching.scope.shared else "",
            text=question.text,
            tenant=job.principal.tenant,
            scope=caching.scope.tag,
            preset=policy.preset,
            max_error=policy.max_error,
            request_id=request_id,
            exact="" if job.key is None else self._entries.id_of(job.key),
            max_age=job.wishes.cache.max_age,
            wants_grey=self._verify is not None or policy.max_error is not None,
        )

    def _told(self, x: Exchange, found: Found) -> None:
        result = "hit" if found.entry is not None else "away" if found.away else "miss"
        self._metrics.cache_lookups.add(("semantic", result))
        x.similar, x.similar_score = found.why, found.score
        if found.away:
            x.cache_reason = ", ".join(filter(None, (x.cache_reason, found.away)))


async def _objection(verify: Verify, job: Job, question: str, kept: str) -> Found | None:
    """None: it says yes."""
    try:
        right = await verify.serves_both(job, question, kept)
    except VerifierAway as away:
        return Found(away=f"verifier {away.reason}", why="verifier")
    return None if right else Found(why="verifier")
