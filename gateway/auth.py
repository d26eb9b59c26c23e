"""Credentials to a Principal: who calls, under which limits, and what they may call.

Rules:
- No key, no access: there is no anonymous mode. Every refusal is a 401 that names what to mend and never repeats the key.
- One key per request. The same one in two headers is fine; two different ones are refused, or which of them counts
  would depend on who reads the request.
- The table from hash to Principal is built when keys change, never by a request: looking a key up is one SHA-256
  and one dict. The hash also makes the time of a look-up say nothing about the keys there are.
- All limits that apply hold together: the key's, the tenant's and the plan's, and the plan's for single models.
"""

from __future__ import annotations

import fnmatch
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Protocol

from gateway.config import Config, Plan, Tenant
from gateway.config.kinds import is_pattern
from gateway.config.schema import Budget
from gateway.errors import ApiError
from gateway.keys import KeyRing
from limits.types import Scope
from limits.waiting import Priority

_HEADERS = frozenset({b"authorization", b"api-key", b"x-api-key"})
_LONGEST_KEY = 512
_LONGEST_NAME = 256
_MEMO = 64  # names that a caller makes up take room too
_NO_BUDGET = Budget()
_log = logging.getLogger("tiergate.keys")

Allowed = Callable[[str], bool]
Rights = tuple[Allowed, ...]
"""All of them must let a model pass. Who has the same ones may call the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Principal:
    """The caller of a request. One object per key, shared by all its requests, and the same only as itself."""

    tenant: str
    key_id: str
    plan: str
    priority: Priority
    weight: int
    scopes: tuple[Scope, ...]
    model_scopes: Mapping[str, Scope]
    expires_at: float | None
    allowed: Rights = field(default=(), repr=False)
    _memo: dict[str, bool] = field(default_factory=dict, repr=False)

    def may_call(self, model: str) -> bool:
        """Both the key's list and the tenant's must name `model`, exactly or by a pattern."""
        if not self.allowed:
            return True
        known = self._memo.get(model)
        if known is None:
            known = all(one(model) for one in self.allowed)
            if len(self._memo) < _MEMO and len(model) <= _LONGEST_NAME:
                self._memo[model] = known
        return known


class _Limits(Protocol):
    """What a key, a tenant and a plan have in common, in the config as in the key file."""

    @property
    def rpm(self) -> int | None: ...
    @property
    def tpm(self) -> int | None: ...
    @property
    def max_parallel(self) -> int | None: ...
    @property
    def burst(self) -> float: ...


class Authenticator:
    """Knows every key of the config and of the ring, and follows the ring's changes."""

    def __init__(self, config: Config, ring: KeyRing, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._ring = ring
        self._tenants = {tenant.name: _Tenant(tenant, config.plans.get(tenant.plan or "")) for tenant in config.tenants}
        self._fixed: dict[bytes, Principal] = {}
        for tenant in config.tenants:
            for key in tenant.keys:
                made = self._tenants[tenant.name].principal(key.id, key, key.models, key.expires)
                self._fixed[bytes.fromhex(key.sha256.reveal())] = made
        self._table: Mapping[bytes, Principal] = self._fixed
        self._revoked: frozenset[bytes] = frozenset()
        ring.on_change(self._rebuild)
        self._rebuild()

    def tenants(self) -> list[tuple[str, str, tuple[Scope, ...]]]:
        """Each tenant of the config: its name, its plan's, and the limits that all its keys share."""
        return [(name, tenant.plan, tenant.scopes) for name, tenant in self._tenants.items()]

    def authenticate(self, headers: Iterable[tuple[bytes, bytes]]) -> Principal:
        """The caller that the headers (names in lower case) prove, or a 401."""
        known = sha256(credential(headers)).digest()
        principal = self._table.get(known)
        if principal is None:
            raise self._unknown(known)
        if principal.expires_at is not None and self._clock() >= principal.expires_at:
            raise _refused("expired_api_key", "This API key has expired; ask the operator for a new one.")
        return principal

    def of_tenant(self, name: str) -> Principal | None:
        """The tenant by itself, as a key without limits of its own would have it; None: no such tenant."""
        tenant = self._tenants.get(name)
        return None if tenant is None else tenant.principal("", Plan(), None, None)

    def _unknown(self, known: bytes) -> ApiError:
        if known in self._revoked:
            return _refused("revoked_api_key", "This API key was revoked; ask the operator for a new one.")
        return _invalid()

    def _rebuild(self) -> None:
        """The table anew; both halves are swapped in whole, so a request meanwhile sees the old or the new."""
        table, revoked = dict(self._fixed), set()
        for record in self._ring.keys:
            known = bytes.fromhex(record.sha256)
            if known in self._fixed:
                _log.warning("the key %s of the key file is also in the config, which has the say", record.id)
            elif record.revoked_at is not None:
                revoked.add(known)
            else:
                expires = record.expires_at.timestamp() if record.expires_at is not None else None
                table[known] = self._tenants[record.tenant].principal(record.id, record, record.models, expires)
        self._table, self._revoked = table, frozenset(revoked)


def credential(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The one key that the headers (names in lower case) carry, or a 401."""
    key: bytes | None = None
    for name, value in headers:
        if name in _HEADERS:
            if name != b"authorization":
                found = value
            elif value.startswith(b"Bearer "):  # as nearly everybody writes it
                found = value[7:].strip()
            else:
                found = _bearer(value)
            if key is None:
                key = found
            elif key != found:
                raise _refused("conflicting_api_keys", "The request carries two different API keys; send one.")
    if key is None:
        raise _refused("missing_api_key", "No API key: send it as `Authorization: Bearer KEY`, or as `api-key`.")
    if not 0 < len(key) <= _LONGEST_KEY or not key.isascii():
        raise _invalid()
    return key


class _Tenant:
    """What the keys of one tenant share."""

    def __init__(self, tenant: Tenant, plan: Plan | None) -> None:
        self._name = tenant.name
        self.plan = tenant.plan or ""
        plan = plan or Plan()
        self._priority = Priority[(tenant.priority or plan.priority).upper()]
        self._weight = tenant.weight or plan.weight
        self._scopes: tuple[Scope, ...] = (
            *_scope(f"tenant:{tenant.name}", "tenant", tenant.name, tenant, tenant.budget),
            *_scope(f"plan:{tenant.name}/{self.plan}", "plan", self.plan, plan, plan.budget),
        )
        scopes = {name: _scope(f"model:{tenant.name}/{name}", "model", name, each) for name, each in plan.models.items()}
        self._model_scopes = MappingProxyType({name: scope for name, found in scopes.items() for scope in found})
        self._allowed = _allow(tenant.models)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return (*self._scopes, *self._model_scopes.values())

    def principal(self, key_id: str, limits: _Limits, models: tuple[str, ...] | None, expires_at: float | None) -> Principal:
        return Principal(
            tenant=self._name,
            key_id=key_id,
            plan=self.plan,
            priority=self._priority,
            weight=self._weight,
            scopes=(*_scope(f"key:{self._name}/{key_id}", "key", key_id, limits), *self._scopes),
            model_scopes=self._model_scopes,
            expires_at=expires_at,
            allowed=(*self._allowed, *(() if models is None else _allow(models))),
        )


def _scope(scope_id: str, kind: str, name: str, limits: _Limits, budget: Budget = _NO_BUDGET) -> tuple[Scope, ...]:
    """One scope, or none where nothing is limited."""
    if limits.rpm is limits.tpm is limits.max_parallel is budget.day is budget.month is None:
        return ()
    return (Scope(scope_id, kind, limits.rpm, limits.tpm, limits.max_parallel, name, limits.burst, budget.day, budget.month),)


def _allow(names: Iterable[str]) -> tuple[Allowed, ...]:
    """The test that a model's name is one of `names`; none at all where everything is allowed."""
    exact = frozenset(names)
    return () if "*" in exact else (_test(exact),)


@lru_cache(1024)
def _test(exact: frozenset[str]) -> Allowed:
    """The same one for the same names, patterns compiled."""
    patterns = [re.compile(fnmatch.translate(name)).match for name in sorted(exact) if is_pattern(name)]

    def allowed(model: str) -> bool:
        if model in exact:
            return True
        return len(model) <= _LONGEST_NAME and any(matches(model) for matches in patterns)

    return allowed


def _bearer(value: bytes) -> bytes:
    scheme, _, key = value.partition(b" ")
    if scheme.lower() != b"bearer":
        raise _refused("invalid_api_key", "The Authorization header must be `Bearer KEY`.")
    return key.strip()


def _invalid() -> ApiError:
    return _refused("invalid_api_key", "Incorrect API key; check that it is whole and belongs to this gateway.")


def _refused(code: str, message: str) -> ApiError:
    return ApiError(401, code, message, headers={"www-authenticate": "Bearer"})
