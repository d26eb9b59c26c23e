"""The command line of `tiergate load`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.lab.load.prompts import Lengths
from gateway.lab.load.slo import Slo
from gateway.lab.load.traces import UNITS
from gateway.lab.numbers import number, whole
from gateway.units import parse_duration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _target(parser.add_argument_group("target"))
    _arrivals(parser.add_argument_group("arrivals (open loop: a slow server does not slow them down)"))
    _requests(parser.add_argument_group("requests; a LENGTH is 512, uniform:100:800 or lognormal:MEDIAN:SIGMA[:MOST]"))
    _results(parser.add_argument_group("results"))


def _target(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--url", default="http://127.0.0.1:8000/v1", help="OpenAI base_url (%(default)s)")
    group.add_argument("--endpoint", choices=("chat", "completions"), default="chat", help="(%(default)s)")
    group.add_argument("--key", metavar="KEY", help="API key; better in TIERGATE_API_KEY, where `ps` does not show it")
    group.add_argument("--keys", type=Path, metavar="FILE", help="API keys, one a line, that take turns: several tenants")
    group.add_argument(
        "-H", "--header", action="append", default=[], type=_header, metavar="'NAME: VALUE'", help="may be repeated"
    )
    group.add_argument("--model", help="model to ask for (auto; with --bodies what they say)")
    group.add_argument("--timeout", type=_positive, default=300.0, metavar="TIME", help="of a whole request (300s)")
    group.add_argument("--no-probe", action="store_true", help="do not try one request first")


def _arrivals(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--arrivals", choices=("poisson", "constant"), default="poisson", help="(%(default)s)")
    group.add_argument("--rate", type=_rate, metavar="R", help="requests a second")
    group.add_argument("--trace", type=Path, metavar="FILE", help="times and lengths of a trace instead, CSV or JSON lines")
    group.add_argument("--speed", type=_rate, default=1.0, metavar="X", help="replay the trace X times as fast (%(default)s)")
    group.add_argument("--jitter", type=_duration, default=0.0, metavar="TIME", help="spread requests of the trace by up to TIME")
    group.add_argument("--time-unit", choices=sorted(UNITS), help="of the trace's numbers, where not as its form has it")
    group.add_argument("--limit", type=_count, metavar="N", help="read only the first N requests of the trace")
    group.add_argument("--duration", type=_positive, metavar="TIME", help="measure that long (30s; a trace: all of it)")
    group.add_argument("--requests", type=_count, metavar="N", help="measure so many requests")
    group.add_argument("--warmup", type=_duration, default=0.0, metavar="TIME", help="send that long before measuring (0s)")
    group.add_argument(
        "--max-inflight", type=_count, metavar="N", help="drop, and count, what comes above (4096 or what ulimit allows)"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of all that is drawn (%(default)s)")


def _requests(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--prompt-tokens", type=_length, default=Lengths.parse("256"), metavar="LENGTH", help="of a prompt (256)")
    group.add_argument(
        "--prefixes", type=_count, default=0, metavar="N", help="so many shared prefixes, one drawn for each request"
    )
    group.add_argument("--prefix-tokens", type=_count, default=1024, metavar="N", help="tokens of each prefix (%(default)s)")
    group.add_argument("--max-tokens", type=_length, metavar="LENGTH", help="of an answer (128; with --bodies what they say)")
    group.add_argument("--ignore-eos", action="store_true", help="ask vLLM for exactly max_tokens")
    group.add_argument("--stream", action=argparse.BooleanOptionalAction, default=True, help="as server-sent events")
    group.add_argument("--bodies", type=Path, metavar="FILE", help="request bodies instead, one JSON object a line, in turn")
    group.add_argument("--salt", type=_salt, metavar="TEXT", help="begin of all prompts (random, so that no cache knows them)")


def _results(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--slo", type=_slo, metavar="TARGETS", help="count the goodput: ttft=200ms,tpot=50ms,e2e=10s")
    group.add_argument("--fail-under", type=_share, metavar="SHARE", help="exit code 1 when the goodput is below, e.g. 0.99")
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument("--out", type=Path, metavar="DIR|FILE.json", help="write JSON, and a picture beside it")


def _length(text: str) -> Lengths:
    try:
        return Lengths.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _slo(text: str) -> Slo:
    try:
        return Slo.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 30s, 5m or 200ms") from None


def _positive(text: str) -> float:
    seconds = _duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError("it must be longer than nothing")
    return seconds


def _rate(text: str) -> float:
    return number(text, lambda value: 0 < value <= 1e6, "a number above 0, and at most a million")


def _share(text: str) -> float:
    return number(text, lambda value: 0 <= value <= 1, "a share from 0 to 1")


def _count(text: str) -> int:
    return whole(text, 10**9)


def _salt(text: str) -> str:
    if not text.isascii() or not text.isalnum() or len(text) > 6:
        raise argparse.ArgumentTypeError("a salt is one to six letters or digits")
    return text


def _header(text: str) -> tuple[str, str]:
    """Its value may be a secret: no message repeats it."""
    name, colon, value = text.partition(":")
    name, value = name.strip().lower(), value.strip()
    if not colon or not name or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise argparse.ArgumentTypeError("a header is written 'name: value'")
    if not value.isascii() or not value.isprintable():
        raise argparse.ArgumentTypeError(f"the value of the header {name} must be printable ASCII")
    if name in {"content-length", "transfer-encoding", "connection", "content-type"}:
        raise argparse.ArgumentTypeError(f"the header {name} is not yours to set here")
    return name, value
