"""CPU per request and per streamed token of this checkout as it stands, beside `smg` if wanted: a look while working.

    .venv/bin/python bench/quick.py [--smg PATH/TO/smg] [--rounds 5] [--json]

It measures as `make bench` does, with what is installed already and without the sizes of bodies; nothing is written. The ratio is
what counts: absolute figures belong to one machine and one day.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.compare import INTERRUPTED, end_at_sigterm
from bench.peers import PEERS, Peer, rust_router, serve_tiergate
from bench.records import OURS
from bench.report import brief
from bench.rounds import Plan
from bench.stages import ROOT, Field, base


def field(smg: str | None) -> dict[str, Peer]:
    """This interpreter on this checkout, and the command of somebody's environment."""
    peers = {
        OURS: replace(PEERS[OURS], command=lambda place: serve_tiergate(sys.executable, place), env={"PYTHONPATH": str(ROOT)})
    }
    if smg:
        command = str(Path(smg).absolute())
        peers["smg"] = replace(PEERS["smg"], command=lambda place: rust_router([command, "launch"], place))
    return peers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smg", help="the smg command of an environment of its own (pip install smg==1.13.0)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    end_at_sigterm()
    peers = field(args.smg)
    try:
        records = base(Field(peers, dict.fromkeys(peers, ROOT)), Plan(args.rounds), sizes={})
    except KeyboardInterrupt:
        return INTERRUPTED
    print(msgspec.json.encode(records).decode() if args.json else brief(records))
    return int(any(record.failure for record in records.values()))


if __name__ == "__main__":
    sys.exit(main())
