"""`tiergate explain`: what would become of a request, without sending it.

Exit code: 0 it would be served, 1 it would be refused, 2 the command line or the config is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from http.client import HTTPException
from os import urandom
from pathlib import Path
from types import MappingProxyType

import msgspec

from gateway.auth import Principal
from gateway.build import Parts, build
from gateway.build.requests import known_secret
from gateway.commands.explain_text import text
from gateway.commands.remote import request, where
from gateway.config import Config, ConfigError, load
from gateway.endpoints import BY_NAME, Endpoint
from gateway.errors import ApiError
from gateway.explain import Node, explain
from gateway.explanation import Explanation
from gateway.keyfile import KeyFileError
from gateway.logs import NullLog
from limits.waiting import Priority

_NOBODY = Principal("", "", "", Priority.STANDARD, 1, (), MappingProxyType({}), None)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="?", metavar="TEXT", help="a prompt; or give a whole request with -f")
    parser.add_argument("-f", "--file", metavar="REQUEST.json", help="the request's body; - reads standard input")
    parser.add_argument("--config", default="config.yaml", help="the config file (default: config.yaml)")
    parser.add_argument("--model", help="with TEXT: the model to name (default: the config's `auto`)")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--tenant", help="as this tenant (default: the first of the config)")
    who.add_argument("--key", help="as the owner of this API key")
    parser.add_argument("--endpoint", choices=sorted(BY_NAME), default="chat", help="which call it is (default: chat)")
    parser.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help="a request header; may be repeated")
    parser.add_argument("--live", action="store_true", help="ask the running gateway: also balances and queue as they are now")
    parser.add_argument("--url", help="the same of the gateway at this address; the admin key is then TIERGATE_ADMIN_KEY's")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    if args.live or args.url:
        return _run_live(args)
    try:
        config = load(args.config)
        body, headers = _body(args, config), [_header(text) for text in args.header]
        secret = known_secret(config)
        parts = build(config, NullLog(), secret or urandom(32))  # who only looks makes no file that a gateway then could not read
        parts.ring.load()
        principal = _principal(args, config, parts)
    except (ConfigError, KeyFileError, ApiError, OSError, ValueError) as error:
        print(error if isinstance(error, ConfigError) else f"tiergate explain: {error}", file=sys.stderr)
        return 2
    stable = secret is not None
    node = Node(parts.pipeline, parts.lanes, parts.exact, parts.semantic, parts.limiter, live=False, stable=stable)
    return _tell(asyncio.run(_twice(node, BY_NAME[args.endpoint], body, principal, headers)), as_json=args.json)


def _run_live(args: argparse.Namespace) -> int:
    """As the running gateway tells it."""
    try:
        config = load(args.config)
        tenant = _tenant(args, config)
        url, key = where(args)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in map(_header, args.header)}
        question = {"tenant": tenant, "endpoint": args.endpoint, "body": _object(_body(args, config)), "headers": headers}
        told = msgspec.convert(request(url, key, "POST", "/admin/explain", question), Explanation)
    except (ConfigError, OSError, ValueError, HTTPException) as error:
        print(error if isinstance(error, ConfigError) else f"tiergate explain: {error}", file=sys.stderr)
        return 2
    return _tell(told, as_json=args.json)


def _tenant(args: argparse.Namespace, config: Config) -> str:
    if args.key is not None:
        raise ValueError("--live asks as a tenant: give --tenant rather than --key")
    name = args.tenant or next((tenant.name for tenant in config.tenants), None)
    if name is None:
        raise ValueError("the config has no tenant: name one with --tenant")
    return name


def _object(body: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except msgspec.MsgspecError:
        raise ValueError("the request is no JSON object") from None


def _tell(told: Explanation, *, as_json: bool) -> int:
    print(json.dumps(msgspec.to_builtins(told), indent=2) if as_json else text(told))
    return 1 if told.refusal else 0


async def _twice(
    node: Node, endpoint: Endpoint, body: bytes, principal: Principal, headers: list[tuple[bytes, bytes]]
) -> Explanation:
    """Once to warm up, or the times would mislead."""
    await explain(node, endpoint, body, principal, headers)
    return await explain(node, endpoint, body, principal, headers)


def _body(args: argparse.Namespace, config: Config) -> bytes:
    if (args.text is None) == (args.file is None):
        raise ValueError("give either a TEXT or -f REQUEST.json")
    if args.file is not None:
        data = _read(args.file, config.server.max_body + 1)
        if len(data) > config.server.max_body:
            raise ValueError(f"the request is over server.max_body, {config.server.max_body} bytes")
        return data
    asked: list[dict[str, object]] = [{"role": "user", "content": args.text}]
    prompts: dict[str, dict[str, object]] = {
        "chat": {"messages": asked},
        "messages": {"messages": asked, "max_tokens": 1024},
        "responses": {"input": args.text},
        "completions": {"prompt": args.text},
        "embeddings": {"input": args.text},
    }
    prompt = prompts.get(args.endpoint)
    if prompt is None:
        raise ValueError(f"a TEXT makes no request for {args.endpoint}: give the whole one with -f")
    try:
        return msgspec.json.encode({"model": args.model or config.routing.auto, **prompt})
    except UnicodeEncodeError:  # bytes that are no UTF-8 come as surrogates
        raise ValueError("the TEXT is not UTF-8") from None


def _read(name: str, most: int) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(most)
    with Path(name).open("rb") as file:
        return file.read(most)


def _header(text: str) -> tuple[bytes, bytes]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise ValueError(f"--header takes NAME:VALUE, not {text!r}")
    return name.strip().lower().encode("utf-8", "replace"), value.strip().encode("utf-8", "replace")


def _principal(args: argparse.Namespace, config: Config, parts: Parts) -> Principal:
    authenticator = parts.pipeline.authenticator
    if args.key is not None:
        return authenticator.authenticate([(b"authorization", b"Bearer " + args.key.encode("utf-8", "replace"))])
    name = args.tenant or next((tenant.name for tenant in config.tenants), None)
    if name is None:
        return _NOBODY
    principal = authenticator.of_tenant(name)
    if principal is None:
        known = ", ".join(tenant.name for tenant in config.tenants) or "none"
        raise ValueError(f"the config has no tenant {name!r}; there are: {known}")
    return principal
