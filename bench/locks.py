"""Writes the lock file of each environment of Python anew, from its pins: `make lock-suites`.

    python -m bench.locks UV [NAME ...]

`UV` is the program that resolves. A lock file names every package of an environment at one version, for any system (what
only some need has a marker), so that pip is told to take nothing else; no hashes, which would be fifty times as long.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench import environments
from bench.conformance import suites
from bench.peers import PEERS

_OPTIONS = (
    "--quiet", "--universal", "--python-version", "3.11", "--no-annotate", "--no-header", "--no-emit-index-url",
    "--no-emit-find-links",
)  # fmt: skip


def locked() -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Each lock file, and the pins that it is made from."""
    yield environments.LOCKS / "chart.txt", environments.CHART
    for name, peer in PEERS.items():
        if peer.installer == "pip":
            yield environments.LOCKS / f"{name}.txt", peer.packages
    for name, suite in suites.SUITES.items():
        if not isinstance(suite, suites.NodeSuite):
            yield suites.LOCKS / f"{name}.txt", suite.packages


def main(argv: Sequence[str]) -> int:
    uv, *names = argv
    for file, packages in locked():
        if names and file.stem not in names:
            continue
        file.parent.mkdir(exist_ok=True)
        pins = "\n".join(f"{package}=={version}" for package, version in packages.items())
        subprocess.run([uv, "pip", "compile", *_OPTIONS, "--output-file", str(file), "-"], input=pins, text=True, check=True)
        print(file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
