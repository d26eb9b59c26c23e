"""`tiergate check CONFIG`: everything that is wrong with a config, or the whole effective one."""

from __future__ import annotations

import argparse
import json
import sys

from gateway.config import ConfigError, effective, load, plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="the config file (default: config.yaml)")
    parser.add_argument("--config", dest="named", default="config.yaml", metavar="CONFIG", help="the same, as `serve` takes it")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    try:
        config = load(args.config or args.named)
    except ConfigError as error:
        if args.json:
            errors = [{"line": p.line, "column": p.column, "path": p.path, "message": p.message} for p in error.errors]
            print(json.dumps({"ok": False, "errors": errors, "config": None}, indent=2))
        else:
            print(error, file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps({"ok": True, "errors": [], "config": plain(config)}, indent=2))
    else:
        print(effective(config), end="")
    return 0
