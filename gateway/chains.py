"""What a request's prompt begins with, for the pools that choose their replica by it. Made where the body is, in the worker."""

from __future__ import annotations

from collections.abc import Callable

from caches.chain import chain, chain_key
from caches.prompts import prompt_parts
from gateway.forward import Station
from gateway.job import Job

_ELSEWHERE = frozenset({"prompt_logprobs", "truncate_prompt_tokens"})
"""With these an engine reads another prompt than the one that is there, or all of it whatever it has cached."""


class Chains:
    """`salt`: the engines' prefix-cache salt of a tenant. What engines keep apart is apart here: the key has the same parts."""

    def __init__(self, secret: bytes, salt: Callable[[str], str | None], several: Callable[[str], bool]) -> None:
        self._secret = secret
        self._salt = salt
        self._several = several
        self._keys: dict[tuple[str, str, str | None], bytes] = {}  # as many as the config has models and tenants

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
        key = self._keys.get(identity)
        if key is None:
            key = self._keys[identity] = chain_key(self._secret, *identity)
        return chain(key, parts, answer=answer)
