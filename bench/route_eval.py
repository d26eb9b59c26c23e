"""docs/routing-eval.md and its picture, over the public outcomes.

    make route-eval
    python -m bench.route_eval [--data DIR] [--out DIR]

Without the whole sets beside the checkout the page is not written; the samples in bench/routing are told on the screen instead.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.route_page import page

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "routing"
SAMPLE = ROOT / "bench" / "routing"
SETS = ("llmrouter", "routellm_mmlu", "mmlu_pro", "zeroeval_gsm", "routellm_mtbench")
ANSWERS = "cascade_answers.jsonl.gz"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="where the sets are (%(default)s)")
    parser.add_argument("--rows", type=int, metavar="N", help="of each set at most; for a page in a hurry, which says so (all)")
    parser.add_argument("--document", type=Path, metavar="FILE", help="keep the figures; if it is there, only write the page")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="where the page goes (%(default)s)")
    args = parser.parse_args(argv)
    files = [args.data / f"{name}.jsonl.gz" for name in SETS]
    missing = [file.name for file in (*files, args.data / ANSWERS) if not file.is_file()]
    if missing:
        print(f"{', '.join(missing)}: not in {args.data}; the samples of bench/routing instead, and no page", file=sys.stderr)
        files = sorted(SAMPLE.glob("[mz]*_sample.jsonl.gz"))
        return _run(["route-eval", *map(str, files), "--stream", "--cascade", str(SAMPLE / "cascade_sample.jsonl.gz")])
    few = [] if args.rows is None else ["--rows", str(args.rows)]
    asked = [*(file.name for file in files), *few, "--stream", "--cascade", ANSWERS]
    if args.document is not None and args.document.is_file():
        found = json.loads(args.document.read_text(encoding="utf-8"))
    else:
        told = [*map(str, files), *few, "--stream", "--cascade", str(args.data / ANSWERS)]
        found = _document(told, args.out / "routing-eval.png")
    if args.document is not None:
        args.document.write_text(json.dumps(found), encoding="utf-8")
    (args.out / "routing-eval.md").write_text(page(found, f"tiergate route-eval {shlex.join(asked)}"), encoding="utf-8")
    return 0


def _run(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "gateway.cli", *arguments], cwd=ROOT, check=False).returncode


def _document(arguments: Sequence[str], picture: Path) -> dict[str, Any]:
    with tempfile.TemporaryFile("w+") as out:
        command = [sys.executable, "-m", "gateway.cli", "route-eval", *arguments, "--json", "--png", str(picture)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=out)
        out.seek(0)
        return dict(json.load(out))


if __name__ == "__main__":
    sys.exit(main())
