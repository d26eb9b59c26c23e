"""`tiergate up`: flags → a plan. Whatever is wrong with them is said in one line, before anything starts."""

from __future__ import annotations

import argparse
import random
import sys

from gateway.lab.up import ports, trial
from gateway.lab.up.engines import ENGINES, TIERS, EngineError

MISTAKE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", choices=sorted(ENGINES), default="llamacpp", help="what plays the two tiers (default: %(default)s)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where the gateway listens; the backends stay on 127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="the gateway's port; 0: any free one (default: %(default)s)")
    parser.add_argument(
        "--small-model", metavar="MODEL", help="llamacpp: a GGUF file; vllm: a folder, or a name on the model hub"
    )
    parser.add_argument("--large-model", metavar="MODEL", help="the same for the large tier")
    parser.add_argument(
        "--vllm-args",
        metavar="FLAGS",
        default="--gpu-memory-utilization 0.45",
        help="more flags for both vLLM servers (default: '%(default)s', so that two fit on one GPU)",
    )
    parser.add_argument("--json", action="store_true", help="once ready, print one JSON object instead of the text")


def run(args: argparse.Namespace) -> int:
    try:
        plan = _plan(args)
    except (EngineError, ports.PortError) as error:
        print(f"tiergate up: {error}", file=sys.stderr)
        return MISTAKE
    return trial.start(plan)


def _plan(args: argparse.Namespace) -> trial.Plan:
    if not 0 <= args.port <= 65535:
        raise ports.PortError(f"{args.port} is no port: 0 to 65535")
    own, *backends = ports.free(1 + len(TIERS), random.Random())
    port = args.port or own
    ports.check(args.host, port)
    return trial.Plan(args.host, port, ENGINES[args.engine](args, backends), args.json)
