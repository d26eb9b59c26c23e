"""`tiergate cache stats|flush|delete`: the caches of a running gateway, through its admin API. `eval` needs no gateway."""

from __future__ import annotations

import argparse
import http.client
import json
import sys
from typing import Any
from urllib.parse import quote

from gateway.commands.remote import options, request, where
from gateway.config import ConfigError
from gateway.units import parse_duration


class _Once(argparse.Action):
    """An option of which a second one would take the first one's place without a word."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} may be given once")
        setattr(namespace, self.dest, values)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared = options()
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("stats", parents=[shared], help="what is kept, and what was learned of wrong hits")
    flush = actions.add_parser("flush", parents=[shared], help="delete entries; the conditions given must all hold")
    flush.add_argument("--tenant", action=_Once, help="of this tenant")
    flush.add_argument("--model", action=_Once, help="answered by this model")
    flush.add_argument("--tag", action=_Once, help="kept with this tag")
    flush.add_argument("--older-than", action=_Once, metavar="AGE", help="older than that: 10m, 2h")
    flush.add_argument("--all", action="store_true", help="every entry")
    flush.add_argument("--dry-run", action="store_true", help="count only")
    delete = actions.add_parser("delete", parents=[shared], help="delete one entry by the id that x-tiergate-cache-id showed")
    delete.add_argument("id")
    _add_eval(actions)


def _add_eval(actions: Any) -> None:
    from gateway.lab.cacheeval.arguments import add_arguments as add_eval_arguments  # noqa: PLC0415 - the product never rests on the lab

    add_eval_arguments(actions.add_parser("eval", help="score the semantic cache on labelled pairs of questions"))


def _eval(args: argparse.Namespace) -> int:
    try:
        from gateway.lab.cacheeval.command import run as run_eval  # noqa: PLC0415 - numpy and a model, which only this action needs
    except ImportError as error:
        if (error.name or "").partition(".")[0] in {"gateway", "caches"}:
            raise  # a mistake of ours, which no package mends
        print(f"tiergate cache eval: it needs {error.name}: pip install 'tiergate[semantic]'", file=sys.stderr)
        return 2
    return run_eval(args)


def run(args: argparse.Namespace) -> int:
    if args.action == "eval":
        return _eval(args)
    try:
        url, key = where(args)
        result = _call(args, url, key)
    except (ConfigError, OSError, ValueError, http.client.HTTPException) as error:
        print(f"tiergate cache: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result) if args.json else _text(args.action, result))
    return 0


def _call(args: argparse.Namespace, url: str, key: str) -> Any:
    match args.action:
        case "stats":
            return request(url, key, "GET", "/admin/cache")
        case "flush":
            wanted = {"tenant": args.tenant, "model": args.model, "tag": args.tag, "all": args.all, "dry_run": args.dry_run}
            if args.older_than:
                wanted["older_than"] = _age(args.older_than)
            return request(url, key, "POST", "/admin/cache/flush", wanted)
        case _:
            return request(url, key, "DELETE", f"/admin/cache/{quote(args.id, safe='')}")


def _age(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError(f"--older-than takes a duration such as 10m or 2h, not {text!r}") from None


def _text(action: str, result: dict[str, Any]) -> str:
    if action == "stats":
        told = [(f"{cache} {name}", value) for cache, found in result.items() if found for name, value in found.items()]
        return "\n".join(f"{name:22} {value}" for name, value in told)
    return f"{result['flushed']} entries" if action == "flush" else "deleted"
