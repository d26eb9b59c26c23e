"""The allow-list of what a client may call, what sets each operation apart, and the forms of path that mean it.

`/v1/chat/completions`, the same without `/v1`, with a trailing slash, and Azure's `/openai/deployments/{model}/…` and
`/openai/v1/…`. What is not here is a 404 of ours, never passed on.

Which engine fields an operation takes was read from vLLM 0.32: `cache_salt` and `priority` are set only where it reads them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from urllib.parse import unquote


class Dialect(enum.Enum):
    """Whose shapes an operation speaks: its usage, the events of its streams, and its errors."""

    OPENAI = "openai"  # chunks with `choices`, then `[DONE]`
    RESPONSES = "responses"  # named events; the last one is response.completed, .incomplete or .failed
    MESSAGES = "messages"  # Anthropic's: named events; the last one is message_stop; errors are {"type": "error", …}
    AUDIO = "audio"  # as OPENAI, or `transcript.text.*` events; the usage may be a duration


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation of the model API. `path` is what follows a replica's base path."""

    name: str
    path: bytes
    generates: bool = True  # it makes tokens, and so reserves for them
    group: str = ""  # its name in `endpoints:` of the config, where that is another
    dialect: Dialect = Dialect.OPENAI
    streams: bool = True  # `stream: true` makes its answer a stream
    limits: tuple[str, ...] = ("max_tokens", "max_completion_tokens")  # the fields that bound the answer
    free: bool = False  # costs a request, and no tokens
    at_root: bool = False  # of the engine, beside its /v1
    stream_options: bool = False  # streams tell their usage when asked for it in `stream_options`
    salted: bool = False  # reads `cache_salt`
    prioritized: bool = False  # reads `priority`
    multipart: bool = False  # its body is a form, not JSON
    stateless: tuple[str, ...] = ()  # fields that mean an answer kept in one replica: refused

    @property
    def served_as(self) -> str:
        """What a model's `endpoints` must list for it."""
        return self.group or self.name


_STATE = ("previous_response_id", "background", "conversation")

ENDPOINTS = (
    Endpoint("chat", b"/chat/completions", stream_options=True, salted=True, prioritized=True),
    Endpoint("completions", b"/completions", limits=("max_tokens",), stream_options=True, salted=True, prioritized=True),
    Endpoint("embeddings", b"/embeddings", generates=False, streams=False, salted=True, prioritized=True),
    Endpoint(
        "responses",
        b"/responses",
        dialect=Dialect.RESPONSES,
        limits=("max_output_tokens",),
        salted=True,
        prioritized=True,
        stateless=_STATE,
    ),
    Endpoint("messages", b"/messages", dialect=Dialect.MESSAGES, limits=("max_tokens",), salted=True),
    Endpoint(
        "count_tokens",
        b"/messages/count_tokens",
        generates=False,
        group="messages",
        dialect=Dialect.MESSAGES,
        streams=False,
        free=True,
    ),
    Endpoint("rerank", b"/rerank", generates=False, streams=False, salted=True, prioritized=True),
    Endpoint("score", b"/score", generates=False, streams=False, salted=True, prioritized=True),
    Endpoint("tokenize", b"/tokenize", generates=False, streams=False, free=True, at_root=True),
    Endpoint("detokenize", b"/detokenize", generates=False, group="tokenize", streams=False, free=True, at_root=True),
    Endpoint("transcriptions", b"/audio/transcriptions", generates=False, group="audio", dialect=Dialect.AUDIO, multipart=True),
    Endpoint("translations", b"/audio/translations", generates=False, group="audio", dialect=Dialect.AUDIO, multipart=True),
)
BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}
_BY_PATH = {endpoint.path.decode(): endpoint for endpoint in ENDPOINTS}
_ALIASES = {"/v2/rerank": _BY_PATH["/rerank"]}  # Cohere's path; vLLM serves it with the same handler
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
    return Route(_BY_PATH.get(rest) or _ALIASES.get(path), rest=rest, own=rest == path)


def _deployment(path: str) -> Route:
    """A model's name may hold slashes: it is what is left before the longest operation that the path ends with."""
    for operation, endpoint in _OPERATIONS:
        model = path[len(_DEPLOYMENTS) : -len(operation)]
        if model and path.endswith(operation):
            return Route(endpoint, unquote(model, errors="replace"))
    return Route(None, rest=path)
