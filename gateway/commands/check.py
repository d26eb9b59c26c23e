"""`tiergate check CONFIG`: everything that is wrong with a config, or the whole effective one, and what is hardly meant."""

from __future__ import annotations

import argparse
import json
import sys

from gateway.config import ConfigError, effective, load, plain
from gateway.config.doubts import doubts
from gateway.config.problems import render_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="the config file (default: config.yaml)")
    parser.add_argument("--config", dest="named", default="config.yaml", metavar="CONFIG", help="the same, as `serve` takes it")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    name = args.config or args.named
    try:
        config = load(name)
    except ConfigError as error:
        if args.json:
            errors = [{"line": p.line, "column": p.column, "path": p.path, "message": p.message} for p in error.errors]
            print(json.dumps({"ok": False, "errors": errors, "warnings": [], "config": None}, indent=2))
        else:
            print(error, file=sys.stderr)
        return 2
    warnings = [{"path": render_path(path), "message": message} for path, message in doubts(config)]
    if args.json:
        print(json.dumps({"ok": True, "errors": [], "warnings": warnings, "config": plain(config)}, indent=2))
    else:
        for one in warnings:
            print(f"{name}: warning: {one['path']}: {one['message']}", file=sys.stderr)
        print(effective(config), end="")
    return 0
