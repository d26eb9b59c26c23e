"""`tiergate budgets list|reset`: what tenants of a running gateway have used of their budgets, through its admin API."""

from __future__ import annotations

import argparse
import http.client
import json
import sys
from typing import Any
from urllib.parse import quote

from gateway.commands.remote import options, request, where
from gateway.config import ConfigError

_HEAD = ("tenant", "budget of", "period", "used", "limit", "left", "ends")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared = options()
    actions = parser.add_subparsers(dest="action", required=True)
    listed = actions.add_parser("list", parents=[shared], help="what is used and what is left, of every tenant that has a budget")
    listed.add_argument("--tenant", help="of this tenant only")
    reset = actions.add_parser("reset", parents=[shared], help="nothing is used of a tenant's budgets any more")
    reset.add_argument("tenant")


def run(args: argparse.Namespace) -> int:
    try:
        url, key = where(args)
        if args.action == "reset":
            found = [request(url, key, "POST", f"/admin/tenants/{quote(args.tenant, safe='')}/budgets/reset")]
        else:
            found = _wanted(request(url, key, "GET", "/admin/tenants")["tenants"], args.tenant)
    except (ConfigError, OSError, ValueError, http.client.HTTPException) as error:
        print(f"tiergate budgets: {error}", file=sys.stderr)
        return 2
    told = [{"name": tenant["name"], "budgets": tenant["budgets"]} for tenant in found if tenant["budgets"]]
    nothing = f"tenant {args.tenant} has no budgets" if args.tenant else "no tenant has a budget"
    print(json.dumps(told) if args.json else _table(told) or nothing)
    return 0


def _wanted(tenants: list[dict[str, Any]], name: str | None) -> list[dict[str, Any]]:
    if name is not None and all(tenant["name"] != name for tenant in tenants):
        raise ValueError(f"there is no tenant {name!r}")
    return [tenant for tenant in tenants if name in (None, tenant["name"])]


def _table(tenants: list[dict[str, Any]]) -> str:
    rows = [
        (tenant["name"], f"{one['kind']} {one['name']}", one["period"], f"{one['used']:,}", f"{one['limit']:,}",
         f"{one['remaining']:,}", one["ends_at"])
        for tenant in tenants
        for one in tenant["budgets"]
    ]  # fmt: skip
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD))]
    numbers = range(3, 6)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (_HEAD, *rows)
    )
