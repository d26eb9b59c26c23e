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
from gateway.commands.running import request, where
from gateway.config import Config, ConfigError, load
from gateway.endpoints import BY_NAME, Endpoint
from gateway.errors import ApiError
from gateway.explain import Node, explain
from gateway.explanation import Attempt, Balance, CacheView, Explanation, Limit, ScopeView
from gateway.keyfile import KeyFileError
from gateway.logs import NullLog
from limits.types import Priority
from limits.view import PlaceView

_NOBODY = Principal("", "", "", Priority.STANDARD, 1, (), MappingProxyType({}), None)
_SHOWN_BODY = 2_000


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
    parser.add_argument(
        "--live",
        action="store_true",
        help="ask the running gateway (its admin API): balances, queue and replicas as they are now",
    )
    parser.add_argument(
        "--url", help="with --live: address of the gateway, instead of the config's; then TIERGATE_ADMIN_KEY's key"
    )
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
        if args.key is not None:
            raise ValueError("--live asks as a tenant: give --tenant rather than --key")
        config = load(args.config)
        tenant = args.tenant or next((tenant.name for tenant in config.tenants), None)
        if tenant is None:
            raise ValueError("the config has no tenant: name one with --tenant")
        url, key = where(args.config, args.url)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in map(_header, args.header)}
        question = {"tenant": tenant, "endpoint": args.endpoint, "body": _object(_body(args, config)), "headers": headers}
        told = msgspec.convert(request(url, key, "POST", "/admin/explain", question), Explanation)
    except (ConfigError, OSError, ValueError, HTTPException) as error:
        print(error if isinstance(error, ConfigError) else f"tiergate explain: {error}", file=sys.stderr)
        return 2
    return _tell(told, as_json=args.json)


def _object(body: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except msgspec.MsgspecError:
        raise ValueError("the request is no JSON object") from None


def _tell(told: Explanation, *, as_json: bool) -> int:
    print(json.dumps(msgspec.to_builtins(told), indent=2) if as_json else _text(told))
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


def _text(told: Explanation) -> str:
    lines = [
        ("request", f"{told.endpoint}, model {told.requested!r}{', streamed' if told.stream else ''}"),
        ("caller", _caller(told)),
    ]
    if told.cache is not None:
        lines += [*_needs(told), *_cache(told), *_route(told)]
        for attempt in told.attempts:
            lines += _attempt(attempt, live=told.live)
        lines.append(("class", f"{told.priority}, weight {told.weight}"))
        if told.live:
            lines.append(("limits", f"kept in {told.limits_store}"))
        else:
            lines.append(("now", "not known: this asks no running gateway, so no balance, queue or replica; --live asks it"))
        lines += _upstream(told)
    if told.refusal is not None:
        unless = "unless the cache holds the answer, " if told.refusal.code == "not_cached" else ""
        lines.append(("refused", f"{unless}{told.refusal.status} {told.refusal.code}: {told.refusal.message}"))
    if told.microseconds:
        lines.append(("times", ", ".join(f"{name} {micros:g} µs" for name, micros in told.microseconds.items())))
    return _printable("\n".join(f"{label:10}{text}" for label, text in lines))


def _printable(text: str) -> str:
    """A request may hold what steers a terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)


def _caller(told: Explanation) -> str:
    if not told.tenant:
        return "nobody: the config has no tenant, so every real call is a 401"
    return f"tenant {told.tenant}, plan {told.plan or 'none'}, key {told.key or 'any without limits of its own'}"


def _needs(told: Explanation) -> list[tuple[str, str]]:
    asked = "not limited" if told.max_tokens is None else f"at most {told.max_tokens}"
    needs = f"{', '.join(told.capabilities) or 'nothing special'}; {told.room} tokens of context"
    return [
        ("tokens", f"prompt about {told.prompt_tokens} (by its bytes), answer {asked}"),
        ("needs", needs),
        ("means", f"{'auto, one of' if told.auto else 'pinned:'} {', '.join(told.stands_for)}"),
    ]


def _cache(told: Explanation) -> list[tuple[str, str]]:
    cache = told.cache
    assert cache is not None
    does = [name for name, on in (("looked up", cache.lookup), ("stored", cache.store), ("shared", cache.share)) if on]
    reason = f" ({cache.reason})" if cache.reason else ""
    known = "" if cache.verdict == "exact" else ", unless it holds the answer"
    lines = [("cache", f"{cache.verdict}{reason}{known}; {', '.join(does)}" if does else f"{cache.verdict}{reason}")]
    if cache.id:
        lines.append(("", f"{cache.id}{'' if cache.stable else ', in this process only: cache.secret is not set'}"))
    return [*lines, *_exact(cache), *_semantic(cache)]


def _exact(cache: CacheView) -> list[tuple[str, str]]:
    exact = cache.exact
    if not cache.id:
        return []
    wishes = [f"none older than {exact.max_age:g} s"] if exact.max_age is not None else []
    wishes += [f"tags {', '.join(exact.tags)}"] if exact.tags else []
    stale = f", stale for {exact.stale:g} s more" if exact.stale else ""
    lines = [("", "; ".join([f"exact: keep {exact.keep}, {_of(exact.scope)}, fresh for {exact.ttl:g} s{stale}", *wishes]))]
    if exact.held is not None:
        held = exact.held
        age = f", {held.age} s old" if held.age is not None else ""
        lines.append(("", f"kept now: {held.state}{age}{f' ({held.reason})' if held.reason else ''}"))
    return lines


def _semantic(cache: CacheView) -> list[tuple[str, str]]:
    semantic = cache.semantic
    if not semantic.eligible:
        return [("", f"semantic: no ({semantic.reason})")] if semantic.reason != "off" else []
    cut = "serves nothing" if semantic.cut is None else f"serves from a score of {semantic.cut:g}"
    lines = [("", f"semantic: yes, {_of(semantic.scope)}, preset {semantic.preset}, {cut}, embedder {semantic.embedder}")]
    lines.append(("", f"partition {semantic.partition}"))
    if semantic.stage is not None:
        lines.append(("", f"turned away now by: {semantic.stage or 'nothing, so it would be embedded'}"))
    return lines


def _of(scope: ScopeView | None) -> str:
    return (
        "" if scope is None else f"shared by scope {scope.name}" if scope.shared else f"of tenant {scope.name or 'nobody'} alone"
    )


def _route(told: Explanation) -> list[tuple[str, str]]:
    route = told.route
    if route is None:
        return []
    score = "" if route.score is None else f", score {route.score:.3f} against {route.threshold:g}"
    lines = [("route", f"{route.model}, tier {route.tier}: {route.reason}{score}")]
    for term in route.terms:
        weight = f" = {term.weight:+g} x {term.added / term.weight:.2f}" if term.weight else ""
        lines.append(("", f"{term.feature:14}{term.added:+.3f}{weight}"))
    lines += [("", f"not {candidate.model}: {candidate.out}") for candidate in route.candidates if candidate.out]
    return lines


def _attempt(attempt: Attempt, *, live: bool) -> list[tuple[str, str]]:
    clamped = ", cut down to the burst of its limits" if attempt.clamped else ""
    lines = [("try" if attempt.when == "first" else "then", f"{attempt.model} ({attempt.tier}), {attempt.when}")]
    lines.append(("", f"reserves {attempt.reserved} tokens{clamped}"))
    for limit in attempt.limits:
        given = {"rpm": limit.rpm, "tpm": limit.tpm, "max_parallel": limit.max_parallel}
        amounts = ", ".join(f"{name} {amount}" for name, amount in given.items() if amount is not None)
        lines.append(("", f"limits of {limit.scope} {limit.name}: {amounts or 'none'}"))
        if limit.balance is not None:
            lines.append(("", f"  now: {_balance(limit, limit.balance)}"))
    if attempt.queue is not None:
        lines += _queue(attempt.queue)
    if attempt.never is not None:
        lines.append(("", f"can never pass: {attempt.never.message}"))
    names = ", ".join(replica.name for replica in attempt.replicas)
    order = "in this order" if attempt.ordered else "whoever is best off" + ("" if live else " then, which is not known here")
    lines.append(("", f"replicas by {attempt.balance}: {names}{'; ' + order if len(attempt.replicas) > 1 else ''}"))
    return lines


def _balance(limit: Limit, now: Balance) -> str:
    told = []
    if limit.rpm is not None:
        told.append(f"{now.requests_remaining} requests, all in {now.requests_reset:.1f} s")
    if limit.tpm is not None:
        told.append(f"{now.tokens_remaining} tokens, all in {now.tokens_reset:.1f} s")
    running = f" of {limit.max_parallel}" if limit.max_parallel is not None else ""
    return "; ".join([*told, f"{now.parallel}{running} running"])


def _queue(queue: PlaceView) -> list[tuple[str, str]]:
    depth = ", ".join(f"{name} {count}" for name, count in queue.depth.items())
    wait = "not known yet" if queue.expected_wait is None else f"about {queue.expected_wait:.1f} s"
    refused = "; it would be refused at once" if queue.refused else ""
    return [
        ("", f"slots: {queue.inflight} of {queue.capacity} in use; waiting: {depth}"),
        ("", f"its tenant in its class: {queue.waiting} waiting, {queue.running} running, served {queue.served:.0f} tokens by"
             " weight more than the least"),
        ("", f"expected wait {wait}, at most {queue.max_wait:.1f} s{refused}"),
    ]  # fmt: skip


def _upstream(told: Explanation) -> list[tuple[str, str]]:
    upstream = told.upstream
    if upstream is None:
        return []
    edited = "edited" if upstream.edited else "as it came"
    body = upstream.body if len(upstream.body) <= _SHOWN_BODY else upstream.body[:_SHOWN_BODY] + "…"
    return [("upstream", f"POST {upstream.path}, {upstream.bytes} bytes, {edited}"), ("", body)]
