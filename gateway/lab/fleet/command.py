"""`tiergate simulate TRACE`: what is asked becomes studies."""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from gateway.lab.fleet.arguments import REQUESTS
from gateway.lab.fleet.costs import Costs, Setting, Shape
from gateway.lab.fleet.job import Job
from gateway.lab.fleet.made import KINDS, RATES, agents
from gateway.lab.fleet.policies import UNASKED, Policy, policy_of
from gateway.lab.fleet.servegen import ServeGen, is_servegen
from gateway.lab.fleet.study import Draw, Study
from gateway.lab.fleet.traces import Trace


def studies_of(args: argparse.Namespace) -> list[Study]:
    """Raises ValueError, OSError."""
    sources = [(path.name, _traced(path, args)) for path in args.traces if not is_servegen(path)]
    archives = [path for path in args.traces if is_servegen(path)]
    if archives:
        sources.append((archives[0].name, _clients(archives, args)))
    sources += [(f"made up, {kind}", _made(kind, args)) for kind in args.made]
    setting, policies = setting_of(args), policies_of(args.policy)
    between = next((name for name in args.policy or () if "@" in name), None)
    if args.gateways == 1 and (between or args.tell is not None):
        raise ValueError(f"{between or '--tell'} is about several gateways: say --gateways")
    speeds, seeds = sorted(set(args.speed or [1.0])), range(1, args.seeds + 1)
    return [Study(name, draw, policies, speeds, seeds, setting, args.goal) for name, draw in sources]


def policies_of(names: Sequence[str] | None) -> list[Policy]:
    """In the order in which they are asked for. Raises ValueError."""
    return [policy_of(name) for name in dict.fromkeys(names or UNASKED)]


def setting_of(args: argparse.Namespace) -> Setting:
    prompt, thousand, squared = args.prefill
    step, request, context = args.decode
    return Setting(
        replicas=args.replicas,
        slots=args.max_inflight,
        costs=Costs(prompt, thousand / 1e3, squared / 1e6, step, request, context),
        shape=Shape(args.chunk, args.seats, args.blocks, args.block),
        error=args.error,
        index=args.index,
        sessions=args.sessions,
        gateways=args.gateways,
        tell=Setting().tell if args.tell is None else args.tell,
    )


def _traced(path: Path, args: argparse.Namespace) -> Draw:
    trace = Trace(path, args.spread)
    return lambda seed: _paced(_part(trace.jobs(seed, args.block), args), args.rate)


def _clients(paths: Sequence[Path], args: argparse.Namespace) -> Draw:
    clients = ServeGen(paths)
    return lambda seed: _paced(_part(clients.jobs(seed, args.requests or REQUESTS), args), args.rate)


def _made(kind: str, args: argparse.Namespace) -> Draw:
    rate = args.rate or RATES[kind] * args.replicas
    make = KINDS[kind]
    if kind == "agents":
        make = partial(agents, count=args.agents, beginning=args.beginning, shift=args.shift)
    return lambda seed: list(islice(make(random.Random(seed), rate, args.block), args.requests or REQUESTS))


def _part(jobs: list[Job], args: argparse.Namespace) -> list[Job]:
    middle = len(jobs) // 2
    jobs = jobs[:middle] if args.half == "first" else jobs[middle:] if args.half == "second" else jobs
    jobs = jobs[: args.requests] if args.requests else jobs
    return [job._replace(number=number, at=job.at - jobs[0].at) for number, job in enumerate(jobs)]


def _paced(jobs: list[Job], rate: float | None) -> list[Job]:
    """As they come, but so many a second on average."""
    lasting = jobs[-1].at if jobs else 0.0
    if rate is None or not lasting:
        return jobs
    factor = len(jobs) / rate / lasting
    return [job._replace(at=job.at * factor) for job in jobs]
