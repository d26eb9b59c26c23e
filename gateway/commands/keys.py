"""`tiergate keys create|list|revoke|rotate`: API keys of tenants. A running gateway follows within a second or two."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.config import Config, ConfigError, load
from gateway.config.checks import unknown_model
from gateway.config.kinds import Duration, Instant, Pattern, Text, Unfit
from gateway.config.problems import quote, suggest
from gateway.keyfile import DeadKeyError, KeyFile, KeyFileError, KeyRecord, Terms, UnknownKeyError
from gateway.units import format_duration, parse_duration
from limits.types import BURST, LONGEST_BURST, SHORTEST_BURST

_LONGEST_LIFE = timedelta(days=36500)
_COLUMNS = ("id", "tenant", "name", "prefix", "status", "created_at", "expires_at", "limits", "models")


class _MistakeError(Exception):
    """The user's; the message is the line that says so."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--config", default="config.yaml", help="the config file (default: config.yaml)")
    shared.add_argument("--json", action="store_true", help="print JSON")
    actions = parser.add_subparsers(dest="action", required=True)
    create = actions.add_parser("create", parents=[shared], help="make a key; its secret is shown once")
    create.add_argument("--tenant", required=True, help="whose key it is: a tenant of the config")
    create.add_argument("--name", default="", help="what it is for")
    create.add_argument("--expires", metavar="WHEN", help="30d, 12h, or a date: 2026-12-31 (its last day, UTC)")
    create.add_argument("--rpm", type=int, metavar="N", help="requests a minute with this key")
    create.add_argument("--tpm", type=int, metavar="N", help="tokens a minute with this key")
    create.add_argument("--burst", metavar="TIME", help="how much of --rpm and --tpm may be spent at once (default: 60s of them)")
    create.add_argument("--max-parallel", type=int, metavar="N", help="requests at once with this key")
    create.add_argument("--model", action="append", metavar="NAME", help="it may call this model only, or pattern; repeatable")
    listing = actions.add_parser("list", parents=[shared], help="all keys that were made, without their secrets")
    listing.add_argument("--tenant", help="of this tenant only")
    revoke = actions.add_parser("revoke", parents=[shared], help="refuse a key from now on")
    revoke.add_argument("id", metavar="ID")
    rotate = actions.add_parser("rotate", parents=[shared], help="make a key in place of another, which lives on for a while")
    rotate.add_argument("id", metavar="ID")
    rotate.add_argument(
        "--overlap", default="24h", metavar="TIME", help="how long the old key still works (default: 24h; 0: no more)"
    )
    rotate.add_argument("--expires", metavar="WHEN", help="of the new key; default: it lives as long as the old one was made for")


def run(args: argparse.Namespace, clock: Callable[[], float] = time.time) -> int:
    actions = {"create": _create, "list": _list, "revoke": _revoke, "rotate": _rotate}
    try:
        config = load(args.config)
        actions[args.action](args, config, KeyFile(config.keys.path, clock), clock())
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except (KeyFileError, DeadKeyError, _MistakeError) as error:
        print(f"tiergate keys: {error}", file=sys.stderr)
        return 2
    return 0


def _create(args: argparse.Namespace, config: Config, file: KeyFile, now: float) -> None:
    _check_tenant(args.tenant, config)
    models = tuple(_model(name, config) for name in args.model) if args.model else None
    terms = Terms(
        expires_at=_expiry(args.expires, now),
        rpm=_positive("--rpm", args.rpm),
        tpm=_positive("--tpm", args.tpm),
        max_parallel=_positive("--max-parallel", args.max_parallel),
        models=models,
        name=_read(Text(longest=200), "--name", args.name),
        burst=BURST if args.burst is None else _read(Duration(SHORTEST_BURST, LONGEST_BURST), "--burst", args.burst),
    )
    record, secret = file.create(args.tenant, terms)
    _print_new(args, record, secret, now)


def _list(args: argparse.Namespace, config: Config, file: KeyFile, now: float) -> None:
    if args.tenant is not None:
        _check_tenant(args.tenant, config)
    records = [record for record in file.records() if args.tenant in (None, record.tenant)]
    if args.json:
        print(json.dumps({"keys": [record.public(now) for record in records]}, indent=2))
    elif records:
        print(_table([_row(record, now) for record in records]))
    else:
        print("no keys yet: tiergate keys create --tenant NAME", file=sys.stderr)


def _revoke(args: argparse.Namespace, config: Config, file: KeyFile, now: float) -> None:  # noqa: ARG001 - one shape for all actions
    try:
        record = file.revoke(args.id)
    except UnknownKeyError:
        raise _unknown(args.id, file) from None
    if args.json:
        print(json.dumps(record.public(now), indent=2))
    else:
        print(f"revoked {record.id} of tenant {record.tenant}")


def _rotate(args: argparse.Namespace, config: Config, file: KeyFile, now: float) -> None:
    try:
        overlap = parse_duration(args.overlap)
    except ValueError:
        raise _MistakeError("--overlap must be a duration such as 24h, 30m or 0") from None
    if overlap > _LONGEST_LIFE.total_seconds():
        raise _MistakeError("--overlap is too long")
    try:
        for record in file.records():
            if record.id == args.id:
                _check_tenant(record.tenant, config)
        old, new, secret = file.rotate(args.id, overlap, _expiry(args.expires, now))
    except UnknownKeyError:
        raise _unknown(args.id, file) from None
    _print_new(args, new, secret, now, replaces=old)


def _print_new(args: argparse.Namespace, record: KeyRecord, secret: str, now: float, replaces: KeyRecord | None = None) -> None:
    if args.json:
        extra = {"replaces": replaces.public(now)} if replaces is not None else {}
        print(json.dumps({"secret": secret} | record.public(now) | extra, indent=2))
        return
    print(f"key      {record.id}\ntenant   {record.tenant}\nexpires  {_moment(record.expires_at) or 'never'}")
    if replaces is not None:
        print(f"replaces {replaces.id}, which works until {_moment(replaces.expires_at)}")
    print(f"secret   {secret}")
    print("Keep the secret now: it is stored nowhere and cannot be shown again.", file=sys.stderr)


def _check_tenant(name: str, config: Config) -> None:
    known = [tenant.name for tenant in config.tenants]
    if name not in known:
        hint = suggest(name, known) or (f"; the config has: {', '.join(known[:10])}" if known else "; the config has none")
        raise _MistakeError(f"unknown tenant {quote(name)}{hint}")


def _model(name: str, config: Config) -> str:
    _read(Pattern(), "--model", name)
    if mistake := unknown_model(name, config):
        raise _MistakeError(mistake)
    return name


def _unknown(key_id: str, file: KeyFile) -> _MistakeError:
    return _MistakeError(f"unknown key {quote(key_id)}{suggest(key_id, [record.id for record in file.records()])}")


def _expiry(text: str | None, now: float) -> datetime | None:
    """`30d` from now, or a date."""
    if text is None:
        return None
    try:
        moment = datetime.fromtimestamp(int(now + min(parse_duration(text), _LONGEST_LIFE.total_seconds())), UTC)
    except ValueError:
        moment = datetime.fromtimestamp(_read(Instant(expects="30d, or a date such as 2026-12-31"), "--expires", text), UTC)
    if moment.timestamp() <= now:
        raise _MistakeError("--expires is in the past")
    return moment


def _positive(option: str, value: int | None) -> int | None:
    if value is not None and not 0 < value <= 10**15:
        raise _MistakeError(f"{option} must be at least 1")
    return value


def _read(kind: Any, option: str, text: str) -> Any:
    try:
        return kind.read(text)
    except Unfit as unfit:
        raise _MistakeError(f"{option}: {str(unfit).replace('{}', quote(text))}") from None


def _row(record: KeyRecord, now: float) -> tuple[str, ...]:
    burst = None if record.burst == BURST else format_duration(record.burst)
    limits = (*((name, getattr(record, name)) for name in ("rpm", "tpm", "max_parallel")), ("burst", burst))
    return (
        record.id,
        record.tenant,
        record.name if record.name.isprintable() else quote(record.name),
        record.prefix if record.prefix.isprintable() else quote(record.prefix),
        record.status(now),
        _moment(record.created_at),
        _moment(record.expires_at) or "never",
        " ".join(f"{name}={value}" for name, value in limits if value is not None) or "-",
        ",".join(record.models) if record.models is not None else "*",
    )


def _moment(moment: datetime | None) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ") if moment is not None else ""


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    titled = [tuple(column.removesuffix("_at").upper() for column in _COLUMNS), *rows]
    widths = [max(len(row[index]) for row in titled) for index in range(len(_COLUMNS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in titled)
