"""What the admin calls look at and change. It answers in plain values; how they look on the wire is `shapes`' business."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from caches.both import Both
from caches.errors import CacheAway
from caches.semantic.types import OwnedSemantic
from caches.types import ExactStore
from caches.which import Which
from gateway.budgets import BudgetDesk
from gateway.config import Config
from gateway.config.checks import unknown_model
from gateway.config.problems import quote, suggest
from gateway.dispatch.types import Lane
from gateway.endpoints import BY_NAME
from gateway.errors import ApiError
from gateway.explain import Node, explain
from gateway.explanation import Explanation
from gateway.fleet import Fleet, MemberStatus, spec_of
from gateway.keyfile import DeadKeyError, KeyFile, KeyFileError, KeyRecord, Terms, UnknownKeyError
from gateway.pipeline import Pipeline
from gateway.refusals import refusal
from gateway.sight import Sight
from limits.types import LastingLimiter, LimitsAway, Scope

_log = logging.getLogger("tiergate")
_LATEST = datetime(9998, 12, 31, tzinfo=UTC).timestamp()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Desk:
    """One gateway's. Everything but the key file is memory of the event loop's thread."""

    config: Config
    status: Callable[[], dict[str, object]]
    queues: Callable[[], dict[str, object]]
    exact: ExactStore
    semantic: OwnedSemantic
    both: Both
    limiter: LastingLimiter
    budgets: BudgetDesk
    pipeline: Pipeline
    lanes: Mapping[str, Lane]
    fleet: Fleet
    keys: KeyFile
    keys_changed: Callable[[], Awaitable[object]]
    clock: Callable[[], float]

    # -- requests

    async def explain(
        self, tenant: str, endpoint: str, body: Mapping[str, Any], headers: Mapping[str, str], sight: bytes = b""
    ) -> Explanation:
        """What would become of a tenant's request. `sight`: of the worker that heard the question. Raises ApiError 400."""
        principal = self.pipeline.authenticator.of_tenant(tenant)
        if principal is None:
            raise _unknown_tenant(tenant, self.config)
        if endpoint not in BY_NAME:
            raise _invalid(f"unknown endpoint {quote(endpoint)}{suggest(endpoint, BY_NAME)}", "endpoint")
        lines = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        try:
            encoded = msgspec.json.encode(body)
        except UnicodeEncodeError:
            raise _invalid("half a surrogate is no text", "body") from None
        stable = self.config.secret_lasts
        seen = msgspec.msgpack.decode(sight, type=Sight) if sight else None
        node = Node(self.pipeline, self.lanes, self.exact, self.semantic, self.limiter, live=True, stable=stable, sight=seen)
        return await explain(node, BY_NAME[endpoint], encoded, principal, lines)

    # -- replicas

    def replicas(self, model: str) -> list[MemberStatus]:
        """Raises ApiError 404, as do all of these."""
        return self.fleet.status(model)

    def replica(self, model: str, name: str) -> MemberStatus:
        for status in self.fleet.status(model):
            if status.name == name:
                return status
        raise ApiError(404, "replica_not_found", "This model has no replica of this name.")

    def add_replica(self, model: str, name: str, url: str, api_key: str) -> MemberStatus:
        """Raises ApiError 400 and 409 as well."""
        self.fleet.add(model, spec_of(name, url, api_key))
        return self.replica(model, name)

    # -- tenants

    async def tenants(self) -> list[dict[str, Any]]:
        """Each tenant with its limits and budgets, and what is left of them."""
        return [await self._tenant(name, plan, scopes) for name, plan, scopes in self.pipeline.authenticator.tenants()]

    async def set_back(self, tenant: str) -> dict[str, Any]:
        """Nothing is used of a tenant's budgets any more. Raises ApiError 404 and 503."""
        try:
            budgets = await self.budgets.set_back(tenant)
        except LimitsAway as away:
            raise refusal(away) from None
        if budgets is None:
            raise ApiError(404, "tenant_not_found", "There is no tenant of this name.")
        return {"name": tenant, "budgets": budgets}

    async def _tenant(self, name: str, plan: str, scopes: tuple[Scope, ...]) -> dict[str, Any]:
        limits, budgets = [self._limit(scope) for scope in scopes], await self.budgets.of(scopes)
        return {"name": name, "plan": plan or None, "limits": limits, "budgets": budgets}

    def _limit(self, scope: Scope) -> dict[str, Any]:
        standing = self.limiter.standing((scope,))
        return {
            "kind": scope.kind,
            "name": scope.name,
            "rpm": scope.rpm,
            "tpm": scope.tpm,
            "max_parallel": scope.max_parallel,
            "burst": scope.burst,
            "requests_remaining": standing.request_remaining,
            "tokens_remaining": standing.token_remaining,
        }

    # -- keys

    async def list_keys(self, tenant: str | None) -> list[dict[str, Any]]:
        """Every made key, dead ones included."""
        records = await self._file(self.keys.records)
        return [self._shown(record) for record in records if tenant in (None, record.tenant)]

    async def create_key(self, tenant: str, terms: Terms) -> dict[str, Any]:
        """A new key with its secret. Raises ApiError 400."""
        self._check(tenant, terms)
        record, secret = await self._file(lambda: self.keys.create(tenant, terms))
        return {"secret": secret, **self._shown(record)}

    async def revoke_key(self, key_id: str) -> dict[str, Any]:
        """Raises ApiError 404."""
        return self._shown(await self._file(lambda: self.keys.revoke(key_id)))

    async def rotate_key(self, key_id: str, overlap: float, expires_at: datetime | None) -> dict[str, Any]:
        """A new key in the place of one that works for `overlap` seconds more. Raises ApiError 404 and 409."""
        self._check_expiry(expires_at)
        old, new, secret = await self._file(lambda: self.keys.rotate(key_id, overlap, expires_at))
        return {"secret": secret, **self._shown(new), "replaces": self._shown(old)}

    async def _file(self, work: Callable[[], T]) -> T:
        """The key file is locked, read and synced, which may take a while: in a thread. Every ring follows at once."""
        try:
            done = await asyncio.to_thread(work)
        except UnknownKeyError:
            raise ApiError(404, "key_not_found", "No made key has this id.") from None
        except DeadKeyError as error:
            raise ApiError(409, "key_is_dead", f"{error}.") from None
        except KeyFileError as error:
            _log.warning("the key file cannot be used: %s", error)
            message = "The key file cannot be used: see the gateway's log, or `tiergate doctor`."
            raise ApiError(500, "key_file_unusable", message) from None
        await self.keys_changed()
        return done

    def _shown(self, record: KeyRecord) -> dict[str, Any]:
        return record.public(self.clock())

    def _check(self, tenant: str, terms: Terms) -> None:
        if all(tenant != known.name for known in self.config.tenants):
            raise _unknown_tenant(tenant, self.config)
        for name in terms.models or ():
            if mistake := unknown_model(name, self.config):
                raise _invalid(mistake, "models")
        self._check_expiry(terms.expires_at)

    def _check_expiry(self, moment: datetime | None) -> None:
        if moment is not None and not self.clock() < moment.timestamp() < _LATEST:
            raise _invalid("`expires_at` is in the past, or after the year 9998", "expires_at")

    # -- the cache

    async def flush(self, conditions: Mapping[str, Any]) -> int:
        """Entries that met all the conditions. Raises ApiError 400 for none: a forgotten one must empty nothing."""
        wanted = dict(conditions)
        dry_run = bool(wanted.pop("dry_run", False))
        try:
            which = Which(everything=bool(wanted.pop("all", False)), **wanted)
        except ValueError:
            raise _invalid("say what to flush: tenant, model, tag, older_than or all", None) from None
        try:
            flushed = await self.both.flush(which, dry_run=dry_run)
        except CacheAway as away:
            raise refusal(CacheAway(f"not everything is flushed: {away}")) from None
        if not dry_run:
            _log.info("cache: the operator flushed %s: %d entries", _named(which), flushed)
        return flushed

    async def delete_entry(self, entry: str) -> None:
        """Raises ApiError 404."""
        try:
            deleted = await self.both.delete(entry, None)
        except CacheAway as away:
            raise refusal(away) from None
        if not deleted:
            raise ApiError(404, "entry_not_found", "No cached answer has this id.")
        _log.info("cache: the operator deleted %s", entry)


def _named(which: Which) -> str:
    """For the audit line."""
    conditions = {"tenant": which.tenant, "model": which.model, "tag": which.tag, "older_than": which.older_than}
    return " ".join(f"{name}={value}" for name, value in conditions.items() if value is not None) or "everything"


def _unknown_tenant(name: str, config: Config) -> ApiError:
    return _invalid(f"unknown tenant {quote(name)}{suggest(name, [tenant.name for tenant in config.tenants])}", "tenant")


def _invalid(message: str, param: str | None) -> ApiError:
    return ApiError(400, "invalid_request", f"This call is not understood: {message}.", param=param)
