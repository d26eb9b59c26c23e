"""A running gateway's admin API, for the commands that ask it."""

from __future__ import annotations

import argparse
import http.client
import json
import os
from typing import Any
from urllib.parse import urlsplit

from gateway.config import load

_TIMEOUT = 10.0


def options() -> argparse.ArgumentParser:
    """What every such command takes; a parent of its parsers."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--config", default="config.yaml", help="where the address and the admin key are read from")
    shared.add_argument("--url", help="address of the gateway, instead of the config's; the key is then TIERGATE_ADMIN_KEY's")
    shared.add_argument("--json", action="store_true", help="print JSON")
    return shared


def where(args: argparse.Namespace) -> tuple[str, str]:
    """Address and key. Raises ConfigError and ValueError."""
    if args.url:
        key = os.environ.get("TIERGATE_ADMIN_KEY", "")
        if not key:
            raise ValueError("set TIERGATE_ADMIN_KEY to the gateway's admin key")
        return args.url, key
    config = load(args.config)
    key = config.admin.key.reveal()
    if not key:
        raise ValueError("the config has no admin key, so the admin API is off")
    host = "127.0.0.1" if config.server.host in {"0.0.0.0", "::"} else config.server.host  # noqa: S104 - to reach it, not to bind it
    return f"http://{host}:{config.server.port}", key


def request(url: str, key: str, method: str, path: str, body: dict[str, object] | None = None) -> Any:
    """The answer of one call. Raises OSError, ValueError and HTTPException."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("--url must be like http://127.0.0.1:8000")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT)
    try:
        payload = json.dumps(body) if body is not None else None
        connection.request(method, path, payload, {"authorization": f"Bearer {key}", "content-type": "application/json"})
        answer = connection.getresponse()
        result = json.loads(answer.read())
    except ConnectionError as error:
        raise ValueError(f"no gateway answers at {parts.hostname}:{parts.port}: {error.strerror or error}") from None
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise ValueError(result.get("error", {}).get("message", f"the gateway answered {answer.status}"))
    return result
