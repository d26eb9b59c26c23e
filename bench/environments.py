"""An environment for each gateway under `.venv-bench/`, made once: a stamp tells what it was made from."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.peers import Peer
from bench.processes import environment

FOLDER = ".venv-bench"
LOCKS = Path(__file__).with_name("locks")
CHART = {"matplotlib": "3.10.8"}
_STAMP = ".made-from"
_SOURCES = ("gateway", "routing", "caches", "limits", "backends")
_PATIENCE = 900.0  # seconds for one command of an installer


class NotInstalledError(RuntimeError):
    """The environment could not be made; the message is the reason."""


class AbsentError(NotInstalledError):
    """The system has no such program, and none can be had without being root: nobody's fault."""


def ready(name: str, peer: Peer, root: Path) -> Path:
    """The folder of the gateway's environment, made now unless one of the same contents is there."""
    if peer.installer == "npm":
        return npm(name, peer.packages, root)
    if peer.installer == "checkout":
        return checkout(name, root)
    if peer.installer == "apt":
        return apt(name, root)
    return pip(name, peer.packages, root)


def pip(name: str, packages: Mapping[str, str], root: Path, below: str = FOLDER, locks: Path = LOCKS) -> Path:
    """What the lock file of that name says, and nothing else (bench/locks.py makes them of the packages)."""
    lock = locks / f"{name}.txt"
    said = lock.read_text(encoding="utf-8")
    if lacking := [pin for pin in pins(packages) if pin not in said.split()]:
        raise NotInstalledError(f"{lock.name} has no {lacking[0]}: make lock-suites ARGS={name}")
    stamp = f"{sys.version.split()[0]} {hashlib.sha256(said.encode()).hexdigest()}"
    return _made(root / below / name, stamp, lambda folder: _venv(folder, ["--no-deps", "-r", str(lock)]))


def pins(packages: Mapping[str, str]) -> list[str]:
    """As lock files have them, without extras."""
    return [f"{package.partition('[')[0]}=={version}" for package, version in packages.items()]


def source(folder: Path, package: str, version: str) -> Path:
    """Below the environment `folder`, what the package's source distribution holds."""
    unpacked = folder / "source"
    if not unpacked.is_dir():
        fetch = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", package, "-d", "download"]
        _run([str(folder / "bin/python"), "-m", "pip", *fetch, f"{package}=={version}"], folder)
        with tarfile.open(next((folder / "download").glob("*.tar.gz"))) as archive:
            archive.extractall(unpacked, filter="data")
    return unpacked


def checkout(name: str, root: Path) -> Path:
    """tiergate as a user gets it: built from this checkout and installed, not linked to it."""
    digest = hashlib.sha256((root / "pyproject.toml").read_bytes())
    for package in _SOURCES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    stamp = f"{sys.version.split()[0]} {digest.hexdigest()}"
    return _made(root / FOLDER / name, stamp, lambda folder: _venv(folder, [str(root)]))


def npm(name: str, packages: Mapping[str, str], root: Path) -> Path:
    """The first package is installed, the others are versions that it has to take."""
    wanted, *overrides = packages.items()
    manifest = json.dumps({"private": True, "dependencies": dict([wanted]), "overrides": dict(overrides)})

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "package.json").write_text(manifest, encoding="utf-8")
        _run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"], folder)

    return _made(root / FOLDER / name, manifest, make)


def apt(name: str, root: Path) -> Path:
    """A program of the system, or of Debian's package of that name, which is unpacked and not installed."""
    there = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))

    def make(folder: Path) -> None:
        (place := folder / "usr/sbin").mkdir(parents=True)
        if there:
            (place / name).symlink_to(there)
        else:
            _run(["apt-get", "download", name], folder)
            _run(["dpkg", "-x", *map(str, folder.glob("*.deb")), str(folder)], folder)
        _run([str(place / name), "-v"], folder)

    try:
        return _made(root / FOLDER / name, there or "unpacked", make)
    except NotInstalledError as error:
        raise AbsentError(f"there is no {name} on this machine, and without being root: {error}") from None


def npm_locked(name: str, manifest: Path, root: Path, below: str) -> Path:
    """What the package-lock.json in `manifest` says."""
    files = [manifest / "package.json", manifest / "package-lock.json"]

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        for file in files:
            shutil.copy(file, folder)
        _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"], folder)

    return _made(root / below / name, hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest(), make)


def _made(folder: Path, stamp: str, make: Callable[[Path], None]) -> Path:
    mark = folder / _STAMP
    if mark.is_file() and mark.read_text(encoding="utf-8") == stamp:
        return folder
    print(f"making {folder.parent.name}/{folder.name}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    make(folder)
    mark.write_text(stamp, encoding="utf-8")
    return folder


def _venv(folder: Path, wanted: Sequence[str]) -> None:
    _run([sys.executable, "-m", "venv", str(folder)], folder.parent)
    install = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    _run(install, folder.parent)


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, check=False, capture_output=True, text=True, timeout=_PATIENCE, env=environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"{Path(command[0]).name}: {error}") from None
    if done.returncode:
        raise NotInstalledError(reason(done.stderr + done.stdout) or f"{Path(command[0]).name} ended with {done.returncode}")


def reason(output: str) -> str:
    """The line of an installer's output that says why."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = [line for line in lines if line.lower().startswith(("error", "npm error"))] or lines
    return told[-1][:200] if told else ""
