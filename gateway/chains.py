"""What a request's prompt begins with, for the pools that choose their replica by it. Made where the body is, in the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import blake2b

from caches.chain import chain_from, chain_key, chain_root, chain_steps
from caches.prompts import Parts, prompt_parts
from gateway.call import Station
from gateway.job import Identity, Job

_ELSEWHERE = frozenset({"prompt_logprobs", "truncate_prompt_tokens"})
"""With these an engine reads another prompt than the one that is there, or all of it whatever it has cached."""


class Chains:
    """`salt`: the engines' prefix-cache salt of a tenant. What engines keep apart is apart here: the key has the same parts."""

    def __init__(self, secret: bytes, salt: Callable[[str], str | None], several: Callable[[str], bool]) -> None:
        self._secret = secret
        self._salt = salt
        self._several = several
        self._roots: dict[Identity, blake2b] = {}  # as many as the config has models and tenants

    def of(self, job: Job, station: Station, served_name: str) -> bytes:
        """Packed as by `caches.chain`; empty where nobody would look at it. `served_name` tells adapters apart."""
        if not station.prefixed or not self._several(station.name):
            return b""
        identity = station.name, served_name, self._salt(job.principal.tenant) if job.endpoint.salted else None
        made = job.chained
        if made is not None and made[0] is job.ask and made[1] == identity:
            return made[2]
        found = self._parts(job)
        return chain_from(self._root(identity), found[0], answer=found[1]) if found[0] else b""

    async def ahead(self, job: Job, station: Station, served_name: str) -> None:
        """Make the chain of a long prompt, in steps between which others have their turn. `of` finds it there."""
        if not station.prefixed or not self._several(station.name):
            return
        identity = station.name, served_name, self._salt(job.principal.tenant) if job.endpoint.salted else None
        parts, answer = self._parts(job)
        digests = [b""]
        if parts:
            for _ in chain_steps(digests, self._root(identity), parts, answer=answer):
                await asyncio.sleep(0)
        job.chained = job.ask, identity, b"".join(digests)

    def _parts(self, job: Job) -> Parts:
        fields = job.ask.fields
        return prompt_parts(fields, job.endpoint.name) if _ELSEWHERE.isdisjoint(fields) else ([], None)

    def _root(self, identity: Identity) -> blake2b:
        root = self._roots.get(identity)
        if root is None:
            root = self._roots[identity] = chain_root(chain_key(self._secret, *identity))
        return root
