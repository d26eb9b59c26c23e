"""`tiergate simulate`: run, tell. With a trace, or `--made`, it is about replicas (gateway.lab.fleet), with `--route` about tiers
(gateway.lab.tiers), else about the queue.

Exit codes: 0; 2 for a mistake of the user's: a trace that cannot be read, a picture that cannot be written; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gateway.lab.fleet import command as replicas
from gateway.lab.fleet import plots as curves
from gateway.lab.fleet.study import run as run_replicas
from gateway.lab.fleet.table import table as replicas_table
from gateway.lab.load.traces import read
from gateway.lab.simulate import arguments, plots
from gateway.lab.simulate.fleet import Speed
from gateway.lab.simulate.halves import given
from gateway.lab.simulate.policies import BY_NAME, Policy, ours
from gateway.lab.simulate.study import Draw, Json, Source, Study
from gateway.lab.simulate.study import run as run_study
from gateway.lab.simulate.table import table
from gateway.lab.simulate.terms import Tenants, parsed
from gateway.lab.simulate.workload import PACES, TRACE, USES, of_trace, synthetic
from gateway.lab.tiers import command as tiers
from gateway.lab.tiers import plots as lines
from gateway.lab.tiers.study import run as run_tiers
from gateway.lab.tiers.table import table as tiers_table
from limits.waiting import Order

add_arguments = arguments.add_arguments
_TENANTS = {"one": ("all",), "eight": tuple("abcdefgh"), "uses": ()}
_MIXES = {"one": "made up, one tenant", "eight": "made up, eight tenants", "uses": "made up, a tenant for each use"}


def run(args: argparse.Namespace) -> int:
    of_replicas = bool(args.traces or args.made)
    try:
        _one_half(args, of_replicas=of_replicas)
        _look(args.png)
        if args.route is not None:
            documents = [run_tiers(study, _say) for study in tiers.studies_of(args)]
        elif of_replicas:
            documents = [run_replicas(study, _say) for study in replicas.studies_of(args)]
        else:
            documents = [run_study(study, _say) for study in studies_of(args)]
    except (ValueError, OSError) as error:
        _say(str(error))
        return 2
    tell, draw = (replicas_table, curves.draw) if of_replicas else (table, plots.draw)
    if args.route is not None:
        tell, draw = tiers_table, lines.draw
    print(json.dumps(documents) if args.json else tell(documents), flush=True)
    return 0 if args.png is None else _draw(args.png, documents, draw)


def _one_half(args: argparse.Namespace, *, of_replicas: bool) -> None:
    """Raises ValueError where an option would say nothing."""
    option = given(args, arguments.QUEUE if of_replicas else arguments.REPLICAS)
    if option is not None and of_replicas:
        raise ValueError(f"{option} is about the queue, and with a TRACE or --made it is about replicas")
    if option is not None:
        raise ValueError(f"{option} is about replicas, which need a TRACE or --made; without it is about the queue")


def studies_of(args: argparse.Namespace) -> list[Study]:
    """Raises ValueError, OSError."""
    mixes = args.mix or ([] if args.trace else arguments.MIXES)
    sources = [Source(_MIXES[mix], partial(synthetic, tenants=_TENANTS[mix])) for mix in mixes]
    sources += [Source(path.name, _lengths(path)) for path in args.trace]
    paces = [pace for pace in PACES if not args.load or pace.name in args.load]
    speed, seeds = Speed(args.base, args.token), range(1, args.seeds + 1)
    policies, tenants = policies_of(args), Tenants(parsed(args.tenant), args.tpm)
    known = {name for mix in mixes for name in _TENANTS[mix] or USES} | ({TRACE} if args.trace else set())
    if unknown := sorted(set(tenants.given) - known):
        raise ValueError(f"--tenant {unknown[0]}: nobody is called so; there are {', '.join(sorted(known))}")
    reserved = sum(terms.reserved or 0 for terms in tenants.given.values())
    if reserved >= args.slots:
        raise ValueError(f"{reserved} slots are reserved, of {args.slots}: one must be left to all others")
    return [
        Study(source, policies, paces, seeds, args.requests or arguments.REQUESTS, args.slots, speed, tenants)
        for source in sources
    ]


def policies_of(args: argparse.Namespace) -> list[Policy]:
    """Raises ValueError."""
    wanted = dict(BY_NAME, ours=ours(Order(args.order_token, args.cap)))
    if unknown := set(args.policy or ()) - set(wanted):
        raise ValueError(f"no order {min(unknown)!r}; there are {', '.join(wanted)}")
    return [policy for name, policy in wanted.items() if name == "fcfs" or not args.policy or name in args.policy]


def _look(picture: Path | None) -> None:
    """Now, so that a long run is not lost to a path that cannot be written."""
    if picture is not None and (picture.is_dir() or not picture.parent.is_dir()):
        raise ValueError(f"{picture} cannot be written")


def _lengths(path: Path) -> Draw:
    rows = read(path)
    return lambda rng: of_trace(rows, rng)


def _draw(picture: Path, documents: list[Json], draw: Callable[[Path, list[Json]], None]) -> int:
    try:
        draw(picture, documents)
    except ImportError:
        _say(plots.MISSING)
    except OSError as error:
        _say(f"cannot write: {error}")
        return 2
    else:
        _say(f"wrote {picture}")
    return 0


def _say(text: str) -> None:
    print(f"tiergate simulate: {text}", file=sys.stderr, flush=True)
