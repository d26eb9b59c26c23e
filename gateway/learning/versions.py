"""The policies that were made, and which one is in force: a folder with a file for each and a manifest.

Rules of this file
- A policy's file is whole before the manifest names it, and the manifest is replaced by one step. One writer at a time.
- The manifest has each file's digest; a file that is another one is none.
- In force is `current`; null is the policy that ships with the product. `before` are those that it replaced, the last one last:
  a rollback takes it. What was rolled back is `refused`: it is not put in force again.
- What is no longer named goes: the last KEPT are named, the one in force, and what it replaced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import msgspec

from gateway.filelock import locked, replace
from gateway.learning.opening import read_regular

KEPT = 10
_MOST_REFUSED = 100
_MOST = 16 * 1024 * 1024  # bytes of a policy's file
_MOST_MANIFEST = 1024 * 1024

Version = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]


class Made(msgspec.Struct, forbid_unknown_fields=False):
    """One policy, and what it measured when it was made."""

    version: Version
    at: float  # seconds since the epoch
    sha256: str
    base: str  # the version that it was held against
    labels: int
    until: float  # when its newest label was written
    figures: dict[str, float | None] = {}


class Manifest(msgspec.Struct):
    format: int = 1
    current: Version | None = None
    before: list[Version | None] = []
    refused: list[Version] = []
    policies: list[Made] = []

    def find(self, version: str | None) -> Made | None:
        return next((made for made in self.policies if made.version == version), None)


class BadVersions(Exception):  # noqa: N818 - it says what was met
    """The folder does not hold what it should. The message is one line, for the operator."""


class Versions:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest_path = folder / "manifest.json"

    def manifest(self) -> Manifest:
        """Raises BadVersions; an empty one where there is none."""
        try:
            data = read_regular(self.manifest_path, _MOST_MANIFEST + 1)
        except FileNotFoundError:
            return Manifest()
        except OSError as error:
            raise BadVersions(f"{self.manifest_path}: {error.strerror or error}") from None
        try:
            found = msgspec.json.decode(data, type=Manifest)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadVersions(f"{self.manifest_path} is no manifest: {error}") from None
        if found.format != 1 or (found.current is not None and found.find(found.current) is None):
            raise BadVersions(f"{self.manifest_path} is no manifest of this version, or names a policy that it does not have")
        return found

    def data(self, made: Made) -> bytes:
        """A policy's file. Raises BadVersions."""
        path = self.path(made.version)
        try:
            data = read_regular(path, _MOST + 1)
        except OSError as error:
            raise BadVersions(f"{path}: {error.strerror or error}") from None
        if hashlib.sha256(data).hexdigest() != made.sha256:
            raise BadVersions(f"{path} is damaged, or another one than the manifest says")
        return data

    def path(self, version: str) -> Path:
        return self.folder / f"{version}.policy"

    def add(self, made: Made, data: bytes) -> None:
        """Keep a policy, and put it in force. Raises BadVersions, OSError and TimeoutError."""
        with self._changing() as manifest:
            replace(self.path(made.version), data)
            others = [other for other in manifest.policies if other.version != made.version]
            manifest.before = [*manifest.before, manifest.current][-KEPT:]
            manifest.policies, manifest.current = [*others, made], made.version

    def roll_back(self) -> str | None:
        """The version that is in force then; None is the one that ships. Raises BadVersions, OSError and TimeoutError."""
        with self._changing() as manifest:
            if not manifest.before:
                raise BadVersions("there is no version before this one")
            if manifest.current is not None:
                manifest.refused = [*manifest.refused, manifest.current][-_MOST_REFUSED:]
            manifest.current = manifest.before.pop()
            made = manifest.find(manifest.current)
            if made is not None:
                self.data(made)
            return manifest.current

    @contextmanager
    def _changing(self) -> Iterator[Manifest]:
        with locked(self.manifest_path):
            manifest = self.manifest()
            yield manifest
            named = {made.version for made in manifest.policies[-KEPT:]} | {manifest.current, *manifest.before}
            manifest.policies = [made for made in manifest.policies if made.version in named]
            replace(self.manifest_path, msgspec.json.format(msgspec.json.encode(manifest)))
            for path in self.folder.glob("*.policy"):
                if path.stem not in named:
                    with suppress(OSError):
                        path.unlink()
