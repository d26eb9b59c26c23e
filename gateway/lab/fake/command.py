"""`tiergate fake-vllm`: the fake as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

import uvloop

from gateway.lab.fake.handle import FakeVLLM
from gateway.lab.fake.options import PROFILES, Options, duration

_DEFAULTS = Options()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 chooses one (%(default)s)")
    names = parser.add_argument("--model", "--served-model-name", dest="models", action="append", metavar="NAME")
    names.help = "a name the model is served under; may be given again, the first one signs the answers (fake)"
    parser.add_argument("--lora-modules", nargs="*", default=[], metavar="NAME", help="adapters, listed and served as models")
    speed = parser.add_argument_group("speed: durations like 20ms, 0.5s or plain seconds")
    speed.add_argument("--profile", choices=sorted(PROFILES), default="instant", help="a set of speeds (%(default)s)")
    speed.add_argument("--ttft", type=_duration, metavar="TIME", help="time to the first token")
    speed.add_argument("--itl", type=_duration, metavar="TIME", help="time between tokens")
    speed.add_argument("--prefill", type=_duration, metavar="TIME", help="time for each prompt token that is not cached")
    size = parser.add_argument_group("size")
    size.add_argument("--tokens", type=int, default=_DEFAULTS.tokens, metavar="N", help="tokens of a made-up reply (%(default)s)")
    size.add_argument(
        "--max-num-seqs", type=int, default=_DEFAULTS.max_num_seqs, metavar="N", help="that run at once (%(default)s)"
    )
    size.add_argument("--max-num-queued-reqs", type=int, metavar="N", help="refuse with 503 above N running and waiting")
    size.add_argument("--max-model-len", type=int, default=_DEFAULTS.max_model_len, metavar="N", help="context (%(default)s)")
    size.add_argument(
        "--block-size", type=int, default=_DEFAULTS.block_size, metavar="N", help="tokens of a KV block (%(default)s)"
    )
    size.add_argument("--kv-blocks", type=int, default=_DEFAULTS.kv_blocks, metavar="N", help="KV blocks there are (%(default)s)")
    size.add_argument("--dimensions", type=int, default=_DEFAULTS.dimensions, metavar="N", help="of embeddings (%(default)s)")
    rest = parser.add_argument_group("behaviour")
    rest.add_argument("--seed", type=int, default=0, metavar="N", help="of everything that is drawn (%(default)s)")
    rest.add_argument("--api-key", metavar="KEY", help="ask for this bearer token under /v1")
    rest.add_argument(
        "--scheduling-policy", choices=("fcfs", "priority"), default="fcfs", help="order of the queue (%(default)s)"
    )
    rest.add_argument("--strict-priority", action="store_true", help="answer 400 to a priority that fcfs would ignore")
    rest.add_argument("--enable-prompt-tokens-details", action="store_true", help="tell cached_tokens in the usage")
    rest.add_argument("--enable-auto-tool-choice", action="store_true", help="taken for vLLM's sake: tools are served anyway")
    rest.add_argument("--tool-call-parser", metavar="NAME", help="word streams as vLLM does with a parser, whichever it is")
    rest.add_argument("--guided-json", action="store_true", help="obey the field guided_json, which vLLM 0.32 ignores")
    rest.add_argument("--script", metavar="FILE", help="replies written beforehand, YAML or JSON")


def options_of(args: argparse.Namespace) -> Options:
    """Raises ValueError for what does not go together."""
    return Options(
        models=tuple(args.models or _DEFAULTS.models),
        lora_modules=tuple(name.partition("=")[0] for name in args.lora_modules),
        profile=args.profile,
        ttft=args.ttft,
        itl=args.itl,
        prefill=args.prefill,
        tokens=args.tokens,
        max_num_seqs=args.max_num_seqs,
        max_num_queued_reqs=args.max_num_queued_reqs,
        max_model_len=args.max_model_len,
        block_size=args.block_size,
        kv_blocks=max(args.kv_blocks, -(-args.max_model_len // args.block_size)),
        dimensions=args.dimensions,
        seed=args.seed,
        api_key=args.api_key,
        scheduling_policy=args.scheduling_policy,
        strict_priority=args.strict_priority,
        enable_prompt_tokens_details=args.enable_prompt_tokens_details,
        tool_call_parser=args.tool_call_parser,
        guided_json=args.guided_json,
        script=args.script,
        host=args.host,
        port=args.port,
    )


def run(args: argparse.Namespace) -> int:
    try:
        options = options_of(args)
        fake = FakeVLLM(options)
    except (ValueError, OSError) as error:
        print(f"tiergate fake-vllm: {error}", file=sys.stderr)
        return 2
    try:
        uvloop.run(_serve(fake))
    except OSError as error:
        print(f"tiergate fake-vllm: cannot listen on {options.host}:{options.port}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


async def _serve(fake: FakeVLLM) -> None:
    """Until SIGTERM or SIGINT; then at once, as a killed server would."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, told.set)
    async with fake:
        models = ", ".join((*fake.options.models, *fake.options.lora_modules))
        print(f"fake vLLM serves {models} at {fake.url} ({fake.options.profile})", flush=True)
        await told.wait()


def _duration(text: str) -> float:
    try:
        return duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
