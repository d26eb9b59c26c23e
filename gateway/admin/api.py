"""The admin calls as a FastAPI application. It has no state: the desk has."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, NoReturn

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from gateway import __version__
from gateway.admin import shapes
from gateway.admin.desk import Desk
from gateway.errors import ApiError
from gateway.keyfile import Terms

_Id = Annotated[str, Path(max_length=200, description="as a list or a response header showed it")]
_REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": shapes.Error, "description": "The call was refused."},
    "5XX": {"model": shapes.Error, "description": "The gateway failed."},
}


def application(desk: Desk) -> FastAPI:
    """The calls below `/admin`. The key is checked before a request comes here; it is named for the OpenAPI page only."""
    app = FastAPI(
        title="tiergate admin",
        version=__version__,
        description="The operator's calls, under the admin key.",
        docs_url="/admin/docs",
        redoc_url=None,
        openapi_url="/admin/openapi.json",
        dependencies=[Depends(HTTPBearer(auto_error=False, description="the admin key"))],
        responses=_REFUSALS,
    )
    app.add_exception_handler(RequestValidationError, _misunderstood)
    app.add_exception_handler(HTTPException, _nothing_here)
    for router in (_state(desk), _replicas(desk), _keys(desk), _cache(desk)):
        app.include_router(router, prefix="/admin")
    return app


def _state(desk: Desk) -> APIRouter:
    router = APIRouter(tags=["state"])

    @router.get("/status", response_model=shapes.Status)
    async def status() -> object:
        """Pools with their queues, slots and replicas."""
        return desk.status()

    @router.get("/queues", response_model=shapes.Queues)
    async def queues() -> object:
        """Who waits in front of each pool: by class, and the twenty tenants of each that have most waiting."""
        return desk.queues()

    @router.get("/tenants", response_model=shapes.Tenants)
    async def tenants() -> object:
        """Tenants with their limits and budgets, and what is left of them."""
        return {"tenants": await desk.tenants()}

    @router.post("/tenants/{tenant}/budgets/reset", response_model=shapes.TenantBudgets)
    async def set_back(tenant: _Id) -> object:
        """Nothing is used of a tenant's budgets any more, its plan's included, and their day is the clock's."""
        return await desk.set_back(tenant)

    @router.post("/explain")
    async def explain(wanted: shapes.Question, request: Request) -> dict[str, Any]:
        """What would become of a request, by the pipeline's own steps, without sending it, and what the caches have for it."""
        told = await desk.explain(wanted.tenant, wanted.endpoint, wanted.body, wanted.headers, request.state.sight)
        found: dict[str, Any] = msgspec.to_builtins(told)
        return found

    return router


def _replicas(desk: Desk) -> APIRouter:
    router = APIRouter(prefix="/models/{model:path}/replicas", tags=["replicas"])

    @router.get("", response_model=shapes.Members)
    async def replicas(model: _Id) -> object:
        """The replicas of a model, those that are leaving included."""
        return {"replicas": desk.replicas(model)}

    @router.post("", status_code=201, response_model=shapes.Member)
    async def add(model: _Id, wanted: shapes.NewReplica) -> object:
        """A replica joins: health check, warm-up, then a share that grows. It is forgotten at a restart."""
        return desk.add_replica(model, wanted.name, wanted.url, wanted.api_key)

    @router.post("/{name}/drain", response_model=shapes.Member)
    async def drain(model: _Id, name: _Id) -> object:
        """No new requests; those that run go on. Until undone."""
        desk.fleet.drain(model, name)
        return desk.replica(model, name)

    @router.post("/{name}/undrain", response_model=shapes.Member)
    async def undrain(model: _Id, name: _Id) -> object:
        """Requests again."""
        desk.fleet.undrain(model, name)
        return desk.replica(model, name)

    @router.delete("/{name}", status_code=202, response_model=shapes.Member)
    async def remove(model: _Id, name: _Id) -> object:
        """It gets no new requests, and is gone when the last one has ended. One of the config is back at a restart."""
        desk.fleet.remove(model, name)
        return desk.replica(model, name)

    return router


def _keys(desk: Desk) -> APIRouter:
    router = APIRouter(prefix="/keys", tags=["keys"])

    @router.get("", response_model=shapes.Keys)
    async def list_keys(tenant: Annotated[str | None, Query(max_length=200)] = None) -> object:
        """The keys that were made, dead ones included. Keys of the config are not among them."""
        return {"keys": await desk.list_keys(tenant)}

    @router.post("", status_code=201, response_model=shapes.NewKey)
    async def create_key(wanted: shapes.KeyTerms) -> object:
        """A new key of a tenant. It works at once."""
        models = None if wanted.models is None else tuple(wanted.models)
        terms = Terms(wanted.expires_at, wanted.rpm, wanted.tpm, wanted.max_parallel, models, wanted.name, wanted.burst)
        return await desk.create_key(wanted.tenant, terms)

    @router.post("/{key_id}/rotate", status_code=201, response_model=shapes.RotatedKey)
    async def rotate_key(key_id: _Id, wanted: shapes.Rotation) -> object:
        """A new key in the place of an old one, which works on for the overlap."""
        return await desk.rotate_key(key_id, wanted.overlap, wanted.expires_at)

    @router.delete("/{key_id}", response_model=shapes.Key)
    async def revoke_key(key_id: _Id) -> object:
        """Refuse a key from now on. A second time changes nothing."""
        return await desk.revoke_key(key_id)

    return router


def _cache(desk: Desk) -> APIRouter:
    router = APIRouter(prefix="/cache", tags=["caches"])

    @router.get("", response_model=shapes.Caches)
    async def caches() -> object:
        """How full the caches are, and what they were good for."""
        exact = asdict(await desk.exact.stats())
        return {"exact": {"store": str(desk.exact.state), **exact}, "semantic": desk.semantic.standing()}

    @router.post("/flush", response_model=shapes.Flushed)
    async def flush(wanted: shapes.Flush) -> object:
        """Delete the entries that meet all the conditions; with `dry_run` only count them."""
        return {"flushed": await desk.flush(wanted.model_dump())}

    @router.delete("/{entry_id}", response_model=shapes.Deleted)
    async def delete_entry(entry_id: _Id) -> object:
        """Delete one entry by the id that `x-tiergate-cache-id` showed."""
        await desk.delete_entry(entry_id)
        return {"deleted": True}

    return router


async def _misunderstood(request: Request, error: Exception) -> NoReturn:  # noqa: ARG001 - the framework's signature
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0] if error.errors() else {"loc": (), "msg": "it is not valid"}
    where = ".".join(str(part) for part in first["loc"][1:])[:200]
    message = f"This call is not understood: {f'`{where}`: ' if where else ''}{str(first['msg'])[:300]}."
    raise ApiError(400, "invalid_request", message, param=where or None) from None


async def _nothing_here(request: Request, error: Exception) -> NoReturn:  # noqa: ARG001 - as above
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        raise ApiError(405, "method_not_allowed", f"This call takes {allowed}.", headers={"allow": allowed}) from None
    if error.status_code == 404:
        raise ApiError(404, "unknown_url", "There is no such admin call.") from None
    raise ApiError(400, "invalid_request", f"This call is not understood: {str(error.detail)[:300]}.") from None
