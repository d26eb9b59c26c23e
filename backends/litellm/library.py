"""The one module that imports litellm: once, in a thread, when a replica first needs it.

It costs seconds of CPU and some 180 MiB, which a gateway without a replica of this kind never pays. It is loaded at the
first health check, so at the start; until then the replica is not up.

Set before it is imported, as it reads them then: its own price list instead of a download, no `.env` file of the working
directory, and no fetching of the images that a request links to (a provider that fetches them itself still may).
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import time
import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, Self

from backends.errors import ConnectFailed
from backends.litellm.arguments import Operation
from backends.litellm.events import Json

_log = logging.getLogger("tiergate.litellm")

_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
    "MAX_IMAGE_URL_DOWNLOAD_SIZE_MB": "0",
}
_SILENT = ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router")  # their lines may hold requests and keys
_QUIET = ("aiohttp", "boto3", "botocore", "google", "httpcore", "httpcore2", "httpx", "httpx2", "openai", "urllib3")
# at INFO or DEBUG these write URLs and headers, where some providers have the key
_CLOSE_SECONDS = 1.0


class Chunks(Protocol):
    """The chunks of a stream. `aclose` ends it, wherever it stands."""

    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> Json: ...
    async def aclose(self) -> None: ...


Complete = Callable[[Operation, dict[str, Any]], Awaitable[Json | Chunks]]
"""One request to a provider. It may raise whatever it likes."""


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Loaded:
    """The library, ready to be called. `knows`: does it know the provider that a model's name begins with?"""

    complete: Complete
    knows: Callable[[str], bool] = lambda _model: True
    close: Callable[[], Awaitable[None]] = _nothing


class Library:
    """Loads it at most once. Belongs to the event loop that it is first used on."""

    def __init__(self, load: Callable[[], Loaded] | None = None) -> None:
        self._load = load or load_litellm
        self._task: asyncio.Task[Loaded | None] | None = None

    async def loaded(self) -> Loaded:
        """Wait for it. Whoever leaves does not end the loading. ConnectFailed when it cannot be had."""
        if self._task is None:
            self._task = asyncio.create_task(self._try(), name="litellm")
        loaded = self._task.result() if self._task.done() else await asyncio.shield(self._task)
        if loaded is None:
            raise ConnectFailed("the litellm library could not be loaded", ours=True)
        return loaded

    async def close(self) -> None:
        """Close the connections that it keeps."""
        if self._task is not None and self._task.done():
            loaded = self._task.result()
            if loaded is not None:
                await loaded.close()

    async def _try(self) -> Loaded | None:
        began = time.perf_counter()
        _log.info("loading litellm: its replicas are not up before it is there")
        try:
            loaded = await asyncio.to_thread(self._load)
        except Exception as error:  # noqa: BLE001 - importing is running code: a library that is broken must not end the gateway
            why = type(error).__name__
            _log.error(
                'litellm could not be loaded (%s), so its replicas stay down; `python -c "import litellm"` tells more', why
            )
            return None
        _log.info("litellm loaded in %.1f s", time.perf_counter() - began)
        return loaded


def load_litellm() -> Loaded:
    """Import it, and switch off what it does besides."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name in _SILENT:
        logging.getLogger(name).disabled = True
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings")  # it would quote the answer on stderr
    litellm: Any = importlib.import_module("litellm")
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.user_url_validation = True  # where it still fetches what a request links to: never from private addresses
    litellm.disable_aiohttp_transport = True  # httpx's own closes its connections when told, aiohttp's leaves some behind
    httpx: Any = importlib.import_module("httpx")
    calls = {"chat": litellm.acompletion, "completions": litellm.atext_completion, "embeddings": litellm.aembedding}

    async def complete(operation: Operation, arguments: dict[str, Any]) -> Json | Chunks:
        connect, total = arguments.pop("connect"), arguments.pop("total")
        answer = await calls[operation](**arguments, timeout=httpx.Timeout(total, connect=connect), **_FIXED)
        return _Chunks(answer) if arguments.get("stream") else _plain(answer)

    providers = {str(getattr(one, "value", one)) for one in litellm.provider_list}

    def knows(model: str) -> bool:
        return model.partition("/")[0] in providers or model in litellm.model_cost

    _rehearse(litellm)
    return Loaded(complete, knows, litellm.close_litellm_async_clients)


def _rehearse(litellm: Any) -> None:
    """An answer that it makes up itself: much is imported only at a first call, and that would stop the event loop.

    Not a stream: that would load tokenizers of 100 MiB, which it needs only for providers that count no tokens.
    """
    with suppress(Exception):
        litellm.completion(model="openai/gpt-4o-mini", messages=[{"role": "user", "content": "x"}], mock_response="y", **_FIXED)


_FIXED = {"num_retries": 0, "max_retries": 0, "no-log": True}


class _Chunks:
    """A stream of the library, as plain values."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._next = stream.__aiter__().__anext__

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Json:
        return _plain(await self._next())

    async def aclose(self) -> None:
        """The wrapper of a text stream has no end of its own: then the stream within it is ended."""
        stream = self._stream
        close = getattr(stream, "aclose", None) or getattr(getattr(stream, "completion_stream", None), "aclose", None)
        if close is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await close()


def _plain(value: Any) -> Json:
    plain: Json = value.model_dump(exclude_none=True, warnings=False)
    return plain
