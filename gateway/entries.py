"""Answers as the caches keep them, each with its own end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from caches.key import entry_id
from caches.types import Entry
from gateway.caching import Caching
from gateway.job import Job

Clock = Callable[[], float]


class Entries:
    """`wall` is the clock of `Entry.stored_at`, `clock` that of the request's arrival."""

    def __init__(self, cachings: Mapping[str, Caching], secret: bytes, clock: Clock, wall: Clock) -> None:
        self._cachings = cachings
        self._secret = secret
        self._clock = clock
        self._wall = wall

    def id_of(self, key: bytes) -> str:
        """What clients and operators call the answer kept under that key."""
        return entry_id(self._secret, key)

    def made(self, job: Job, body: bytes) -> Entry:
        """What a model has answered to a request that may be kept."""
        key, now, work, said = job.key, self._wall(), job.work, job.wishes.cache
        assert key is not None, "made for a request that may be kept"
        tenant = job.principal.tenant
        return Entry(  # in the order of its fields: matching as many names takes a third of making it
            self.id_of(key),
            key,
            tenant,
            work.model,
            work.tier,
            job.endpoint.name,
            body,
            now,
            now + self._cachings[tenant].exact.lifetime(said),
            work.completion_tokens,
            work.prompt_tokens,
            0,
            said.tags,
            now - (self._clock() - job.arrived),
        )

    def alias(self, job: Job, served: Entry) -> Entry:
        """Another question's answer, that was shown to be right for this one: as old as it is, and gone when it is.

        It bears the id of the hit: that is what its client is shown and may delete it by, and what it stands by.
        """
        key, said = job.key, job.wishes.cache
        assert key is not None, "served to a request that may be kept"
        lifetime = self._cachings[job.principal.tenant].exact.lifetime(said)
        return replace(
            served,
            id=self.id_of(key),
            key=key,
            tenant=job.principal.tenant,
            expires_at=min(served.expires_at, served.stored_at + lifetime),
            tags=(*served.tags, *said.tags),
            began_at=served.stored_at,
            alias=served.id,
        )

    def meant(self, job: Job, entry: Entry) -> Entry:
        """The same answer, for as long as questions that mean the same are served it."""
        policy, wish = self._cachings[job.principal.tenant].semantic, job.wishes.cache.ttl
        assert policy is not None, "asked for a tenant that has meanings compared"
        return replace(entry, expires_at=entry.stored_at + (policy.ttl if wish is None else min(policy.ttl, wish)))


def shown_id(entry: Entry) -> str:
    """What a client is shown, and deletes it by: of an alias the id of the hit that it comes from, which refuses that pair."""
    return entry.alias or entry.id
