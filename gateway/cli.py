"""`tiergate`: one command, a table of subcommands. A subcommand's module is loaded when it is the one that runs."""

from __future__ import annotations

import argparse
import importlib
import sys

from gateway import __version__

COMMANDS = {
    "serve": ("gateway.commands.serve", "run the gateway"),
    "up": ("gateway.lab.up.command", "a local trial: two small models and the gateway together"),
    "check": ("gateway.commands.check", "validate a config and print what is in effect"),
    "doctor": ("gateway.commands.doctor", "reach every backend, and say what to mend"),
    "explain": ("gateway.commands.explain", "what would happen to a request, without sending it"),
    "keys": ("gateway.commands.keys", "make, list, revoke and rotate API keys"),
    "budgets": ("gateway.commands.budgets", "what tenants of a running gateway have used of their budgets"),
    "cache": ("gateway.commands.cache", "look at and empty the caches of a running gateway"),
    "calibrate": ("gateway.lab.calibrate.command", "learn the routing policy from own traffic"),
    "load": ("gateway.lab.load.command", "open-loop load on an OpenAI-compatible endpoint, and what came of it"),
    "simulate": (
        "gateway.lab.simulate.command",
        "what the choice of a replica, or an order of the queue, does to waiting times, in virtual time",
    ),
    "route-eval": ("gateway.lab.routing.command", "score the complexity router on labelled outcomes of two models"),
    "fake-vllm": ("gateway.lab.fake.command", "a vLLM look-alike without a GPU"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; its exit code. A user's mistake is one line and code 2."""
    arguments = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="tiergate", description="The gateway in front of your vLLM fleet.")
    parser.add_argument("--version", action="version", version=f"tiergate {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == chosen:
            importlib.import_module(module).add_arguments(command)
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help()
        return 2
    try:
        return int(importlib.import_module(COMMANDS[parsed.command][0]).run(parsed))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has what it wanted
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
