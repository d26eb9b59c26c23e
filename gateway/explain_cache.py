"""What the caches would do with a request: by the steps of `gateway.answers` and `gateway.similar`, which change nothing here.

Where a gateway runs, its stores are looked into as well: whether the very answer is kept, and what would turn the question away
before a vector is made for it. No kept question and no score is told.
"""

from __future__ import annotations

from math import isfinite

from caches.errors import ExactStoreAway
from caches.freshness import Freshness
from caches.policy import Use
from caches.scope import Scope
from caches.semantic.ids import body_digest
from caches.semantic.types import OwnedSemantic
from caches.types import ExactStore
from gateway.answers import Answers, unanswered
from gateway.explanation import CacheView, ExactView, Held, ScopeView, SemanticView
from gateway.job import Job


async def cache_view(
    answers: Answers, job: Job, exact: ExactStore, semantic: OwnedSemantic, *, stable: bool, live: bool
) -> CacheView:
    """`live`: the stores are those of a gateway that runs; else they are not looked into."""
    use = answers.use(job)
    verdict, reason = unanswered(use)
    entry, held = "", None
    if use.lookup or use.store:
        job.key = key = answers.key(job)
        entry = answers.entry_id(key)
        held = await _held(answers, job, key, exact, semantic) if live and use.lookup else None
    if held is not None and held.state in ("fresh", "stale"):
        verdict, reason = "exact", ""
    return CacheView(
        verdict=verdict,
        reason=reason,
        lookup=use.lookup,
        store=use.store,
        share=use.share,
        id=entry,
        stable=stable,
        exact=_exact(answers, job, use, held),
        semantic=_semantic(answers, job, use, semantic, live=live),
    )


async def _held(answers: Answers, job: Job, key: bytes, exact: ExactStore, semantic: OwnedSemantic) -> Held:
    try:
        entry = await exact.peek(key)
    except ExactStoreAway as away:
        return Held("away", None, away.reason)
    if entry is None:
        return Held("none", None, "")
    good = answers.good(job, entry)
    if good is Freshness.GONE:
        return Held("none", None, "too old")
    if entry.alias and not await semantic.would_stand(entry.alias, body_digest(entry.body), entry.tenant, job.principal.tenant):
        return Held("none", None, "the answer that it stands for is gone")
    return Held(good.value, answers.age(entry), "")


def _exact(answers: Answers, job: Job, use: Use, held: Held | None) -> ExactView:
    caching, said = answers.caching(job), job.wishes.cache
    policy = caching.exact
    kept = policy.lifetime(said)
    fresh = min(policy.ttl, kept)
    return ExactView(
        keep=policy.keep if policy.enabled else "none",
        reason=use.reason or "",
        ttl=fresh,
        stale=kept - fresh,
        max_age=said.max_age,
        tags=said.tags,
        scope=_scope(caching.scope),
        held=held,
    )


def _semantic(answers: Answers, job: Job, use: Use, semantic: OwnedSemantic, *, live: bool) -> SemanticView:
    caching = answers.caching(job)
    policy = caching.semantic
    if policy is None:
        return SemanticView(eligible=False, reason="off")
    question = answers.similar.read(job, use)
    if question is None:
        return SemanticView(eligible=False, reason=use.reason or "off", preset=policy.preset, scope=_scope(caching.scope))
    reason = question.reason or answers.similar.refusal(job, question) or ""
    if reason:
        return SemanticView(eligible=False, reason=reason, preset=policy.preset, scope=_scope(caching.scope))
    asked = answers.similar.asked(job, question, "")
    seen = semantic.glance(asked)
    serves = seen is not None and isfinite(seen.cut)
    covered = seen is None or seen.covered
    return SemanticView(
        eligible=covered,
        reason="" if covered else "script",
        partition=asked.partition,
        preset=policy.preset,
        embedder="" if seen is None else seen.embedder,
        cut=seen.cut if seen is not None and serves else None,
        scope=_scope(caching.scope),
        ttl=policy.ttl if job.wishes.cache.ttl is None else min(policy.ttl, job.wishes.cache.ttl),
        stage=seen.stage if live and seen is not None and use.lookup else None,
    )


def _scope(scope: Scope) -> ScopeView:
    return ScopeView(scope.name, scope.shared)
