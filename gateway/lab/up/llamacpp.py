"""One llama.cpp server in this process: the program behind a tier of the small engine.

    python -m gateway.lab.up.llamacpp --model FILE.gguf --alias NAME [--port 0] [--context 2048] [--slots 4] [--threads 1]

Prints one JSON line with its port once the weights are loaded. SIGTERM ends it at once: it holds nothing worth saving.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

PROMPT_CACHE_MIB = 128
"""llama.cpp keeps finished prompts in host memory, up to 8 GiB if it is let; a trial shares the machine with its user."""


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    server = start(options)
    port = urlsplit(server.listening_address).port
    print(json.dumps({"port": port, "model": options.alias}), flush=True)
    while True:
        signal.pause()


def start(options: argparse.Namespace) -> Any:
    import xllamacpp  # noqa: PLC0415 - 100 MB of machine code that only this process shall load

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {options.alias}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_parallel = options.slots
    params.n_ctx = options.context * options.slots  # the server divides it among its slots
    # Both kinds of work, tokens and prompts, wait at barriers: more threads than cores cost four fifths of the speed.
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.endpoint_metrics = True
    params.ui = False
    return xllamacpp.Server(params)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gateway.lab.up.llamacpp")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--alias", required=True, help="the name it is served under")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--context", type=int, default=2048, help="tokens a request may use, prompt and answer together")
    parser.add_argument("--slots", type=int, default=4, help="requests worked on at the same time")
    parser.add_argument("--threads", type=int, default=1)
    return parser


if __name__ == "__main__":
    sys.exit(main())
