"""A command line turned into what a run needs. Every mistake of the user's is found here, before anything is sent."""

from __future__ import annotations

import argparse
import random
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends.client import Origin
from gateway.lab.load import arrivals, traces
from gateway.lab.load.arrivals import Arrival
from gateway.lab.load.bodies import Bodies, Form, FromFile, Synthetic
from gateway.lab.load.descriptors import sockets
from gateway.lab.load.prompts import Lengths, Prefixes, Prompts
from gateway.lab.load.sender import Target
from gateway.lab.load.slo import Slo

DURATION = 30.0
MAX_KEYS = 100_000
KEY_VARIABLE = "TIERGATE_API_KEY"


@dataclass(frozen=True, slots=True)
class Plan:
    target: Target = field(repr=False)
    url: str
    bodies: Bodies
    probe: bytes | None  # a body to try first
    arrivals: Iterator[Arrival]
    warmup: float
    max_inflight: int
    slo: Slo | None
    fail_under: float | None
    parameters: Mapping[str, Any]  # for the report: nothing secret


def plan_of(args: argparse.Namespace, environ: Mapping[str, str]) -> Plan:
    """Raises ValueError, OSError."""
    _together(args)
    salt = args.salt or secrets.token_hex(3)
    model = args.model or (None if args.bodies else "auto")
    most = args.max_tokens or (None if args.bodies else Lengths.parse("128"))
    form = Form(args.endpoint, model, args.stream, most, args.ignore_eos)
    target = Target(Origin.parse(args.url), args.endpoint, _keys(args, environ), args.header, args.stream, args.timeout)
    bodies = _bodies(args, form, salt)
    due, told = _arrivals(args)
    inflight = sockets(args.max_inflight)
    return Plan(
        target, args.url, bodies, None if args.no_probe else _probe(form, bodies), due, args.warmup, inflight, args.slo,
        args.fail_under, _parameters(args, told, model, most, salt, inflight, len(target.keys)),
    )  # fmt: skip


def _together(args: argparse.Namespace) -> None:
    if (args.rate is None) == (args.trace is None):
        raise ValueError("give either --rate, requests a second, or --trace, a file")
    if args.fail_under is not None and args.slo is None:
        raise ValueError("--fail-under is about the goodput: give an --slo too")
    if args.slo is not None and not args.stream and (args.slo.ttft or args.slo.tpot):
        raise ValueError("without a stream there is no TTFT and no TPOT: use an SLO like e2e=10s")
    if args.key is not None and args.keys is not None:
        raise ValueError("give either --key or --keys")


def _keys(args: argparse.Namespace, environ: Mapping[str, str]) -> tuple[str, ...]:
    if args.keys is None:
        key = args.key if args.key is not None else environ.get(KEY_VARIABLE, "")
        found = [key] if key else []
    else:
        lines = (line.strip() for line in args.keys.read_text(encoding="utf-8").splitlines())
        found = [line for line in lines if line and not line.startswith("#")]
        if not 0 < len(found) <= MAX_KEYS:
            raise ValueError(f"{args.keys.name} must hold from 1 to {MAX_KEYS:,} keys, one a line")
    if not all(key.isascii() and key.isprintable() and " " not in key for key in found):
        raise ValueError("a key must be printable ASCII without spaces")
    return tuple(found)


def _random(args: argparse.Namespace, what: str) -> random.Random:
    """One generator for each thing that is drawn, so that longer prompts do not move the arrivals."""
    return random.Random(f"{args.seed}/{what}")


def _bodies(args: argparse.Namespace, form: Form, salt: str) -> Bodies:
    if args.bodies is not None:
        return FromFile(args.bodies, form, _random(args, "output"))
    prefixes = Prefixes(args.prefixes, args.prefix_tokens if args.prefixes else 0)
    prompts = Prompts(args.prompt_tokens, prefixes, salt, _random(args, "prompts"))
    return Synthetic(form, prompts, _random(args, "output"))


def _probe(form: Form, bodies: Bodies) -> bytes:
    """A short question; with a file of bodies its first one, for what they are is not known here."""
    if isinstance(bodies, FromFile):
        return bodies.first
    rng = random.Random(0)
    short = Form(form.endpoint, form.model, form.stream, Lengths.parse("1"))
    return Synthetic(short, Prompts(Lengths.parse("8"), Prefixes(), secrets.token_hex(3), rng), rng).next(Arrival(0.0))


def _arrivals(args: argparse.Namespace) -> tuple[Iterator[Arrival], str]:
    """The arrivals, and what to call them."""
    seconds: float | None = args.duration
    if args.trace is not None:
        rows = traces.read(args.trace, limit=args.limit, unit=args.time_unit)
        if args.jitter:
            rows = traces.spread(rows, args.jitter, _random(args, "jitter"))
        due, told = arrivals.replay(rows, speed=args.speed), f"{args.trace.name}, {args.speed:g} times as fast"
    else:
        if seconds is None and args.requests is None:
            seconds = DURATION
        made: Callable[[], Iterator[Arrival]] = {
            "poisson": lambda: arrivals.poisson(args.rate, _random(args, "arrivals")),
            "constant": lambda: arrivals.constant(args.rate),
        }[args.arrivals]
        due, told = made(), f"{args.arrivals} {args.rate:g}/s"
    return arrivals.bounded(due, warmup=args.warmup, seconds=seconds, requests=args.requests), told


def _parameters(
    args: argparse.Namespace, told: str, model: str | None, most: Lengths | None, salt: str, inflight: int, keys: int
) -> dict[str, Any]:
    trace = None
    if args.trace is not None:
        trace = {
            "file": args.trace.name,
            "speed": args.speed,
            "jitter_s": args.jitter,
            "limit": args.limit,
            "unit": args.time_unit,
        }
    return {
        "url": args.url,
        "endpoint": args.endpoint,
        "model": model,
        "arrivals": told,
        "rate": args.rate,
        "trace": trace,
        "duration_s": args.duration,
        "requests": args.requests,
        "warmup_s": args.warmup,
        "seed": args.seed,
        "salt": salt,
        "bodies": _name(args.bodies),
        "prompt_tokens": args.prompt_tokens.text,
        "prefixes": args.prefixes,
        "prefix_tokens": args.prefix_tokens if args.prefixes else 0,
        "max_tokens": most.text if most is not None else None,
        "ignore_eos": args.ignore_eos,
        "stream": args.stream,
        "timeout_s": args.timeout,
        "max_inflight": inflight,
        "keys": keys,
        "headers": sorted({name for name, _ in args.header}),
        "slo": args.slo.text if args.slo is not None else None,
        "probe": not args.no_probe,
    }


def _name(path: Path | None) -> str | None:
    return path.name if path is not None else None
