"""What a request's prompt begins with, for the pools that choose their replica by it. Made where the body is, in the worker."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from caches.chain import chain_from, chain_key, chain_root
from caches.prompts import prompt_parts
from gateway.call import Station
from gateway.job import Job

_ELSEWHERE = frozenset({"prompt_logprobs", "truncate_prompt_tokens"})
"""With these an engine reads another prompt than the one that is there, or all of it whatever it has cached."""


class Chains:
    """`salt`: the engines' prefix-cache salt of a tenant. What engines keep apart is apart here: the key has the same parts."""

    def __init__(self, secret: bytes, salt: Callable[[str], str | None], several: Callable[[str], bool]) -> None:
        self._secret = secret
        self._salt = salt
        self._several = several
        self._roots: dict[tuple[str, str, str | None], blake2b] = {}  # as many as the config has models and tenants

    def of(self, job: Job, station: Station, served_name: str) -> bytes:
        """Packed as by `caches.chain`; empty where nobody would look at it. `served_name` tells adapters apart."""
        if not station.prefixed or not self._several(station.name):
            return b""
        fields = job.ask.fields
        if not _ELSEWHERE.isdisjoint(fields):
            return b""
        parts, answer = prompt_parts(fields, job.endpoint.name)
        if not parts:
            return b""
        salt = self._salt(job.principal.tenant) if job.endpoint.salted else None
        identity = station.name, served_name, salt
        root = self._roots.get(identity)
        if root is None:
            root = self._roots[identity] = chain_root(chain_key(self._secret, *identity))
        return chain_from(root, parts, answer=answer)
