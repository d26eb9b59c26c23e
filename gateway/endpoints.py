"""The allow-list of what a client may call, and the forms of path that mean it.

`/v1/chat/completions`, the same without `/v1`, with a trailing slash, and Azure's `/openai/deployments/{model}/…` and
`/openai/v1/…`. What is not here is a 404 of ours, never passed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation of the model API. `path` is what follows a replica's base path."""

    name: str
    path: bytes
    generates: bool = True  # it makes tokens, and so reserves for them


ENDPOINTS = (
    Endpoint("chat", b"/chat/completions"),
    Endpoint("completions", b"/completions"),
    Endpoint("embeddings", b"/embeddings", generates=False),
)
_BY_PATH = {endpoint.path.decode(): endpoint for endpoint in ENDPOINTS}
_OPERATIONS = sorted(_BY_PATH.items(), key=lambda item: -len(item[0]))
_FAST = {b"/v1" + endpoint.path: endpoint for endpoint in ENDPOINTS} | {endpoint.path: endpoint for endpoint in ENDPOINTS}
_DEPLOYMENTS = "/openai/deployments/"


@dataclass(frozen=True, slots=True)
class Route:
    """What a path means: an endpoint, perhaps with the model that it names; or `rest`, the path without its decorations.

    `own`: the path had none, so it may be one of the gateway's own, which have no other forms.
    """

    endpoint: Endpoint | None
    model: str | None = None
    rest: str = ""
    own: bool = False


_ROUTES = {path: Route(endpoint) for path, endpoint in _FAST.items()}


def route(url: bytes) -> Route:
    """Read a request target. Never raises; bytes that are no UTF-8 are replaced and then match nothing."""
    known = _ROUTES.get(url)
    return known if known is not None else _slowly(url)


def _slowly(url: bytes) -> Route:
    path = url.split(b"?", 1)[0].split(b"#", 1)[0].decode("latin-1")
    if path[:8].lower().startswith(("http://", "https://")):  # the absolute form, which proxies' clients send
        path = "/" + path.split("/", 3)[3] if path.count("/") >= 3 else "/"
    path = path.rstrip("/") or "/"
    if path.startswith(_DEPLOYMENTS):
        return _deployment(path)
    bare = path.removeprefix("/openai")
    rest = bare[3:] if bare.startswith("/v1/") else bare
    return Route(_BY_PATH.get(rest), rest=rest, own=rest == path)


def _deployment(path: str) -> Route:
    """A model's name may hold slashes: it is what is left before the longest operation that the path ends with."""
    for operation, endpoint in _OPERATIONS:
        model = path[len(_DEPLOYMENTS) : -len(operation)]
        if model and path.endswith(operation):
            return Route(endpoint, unquote(model, errors="replace"))
    return Route(None, rest=path)
