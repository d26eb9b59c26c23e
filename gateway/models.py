"""`GET /v1/models`: the names that a key may call, each with the tokens that it holds."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from gateway.auth import Principal
from gateway.errors import ApiError
from routing.resolve import Catalog
from routing.types import Listing

_CREATED = 1_767_225_600  # when a model was made nobody tells us; one constant is the same after a restart and on every node


class ModelList:
    """Made from the catalog for every call: what a key may see is its own."""

    def __init__(self, catalog: Catalog, owners: Mapping[str, str]) -> None:
        self._catalog = catalog
        self._owners = owners

    def answer(self, principal: Principal, rest: str) -> bytes:
        """The list, or with `/{id}` one object. An id may hold slashes, plain or as %2F. Raises ApiError 404."""
        listings = self._catalog.names(principal.may_call)
        if not rest:
            return msgspec.json.encode({"object": "list", "data": [self._object(listing) for listing in listings]})
        wanted = unquote(rest[1:], errors="replace")
        for listing in listings:
            if listing.name == wanted:
                return msgspec.json.encode(self._object(listing))
        raise ApiError(404, "model_not_found", f"The model `{wanted[:128]}` does not exist.", param="model")

    def _object(self, listing: Listing) -> dict[str, object]:
        return {
            "id": listing.name,
            "object": "model",
            "created": _CREATED,
            "owned_by": "tiergate",
            "root": listing.stands_for,
            "parent": listing.stands_for if listing.kind == "adapter" else None,
            "max_model_len": listing.context,
            "tier": self._owners.get(listing.stands_for),
        }
