"""What is known of a model before it is loaded: enough for a fingerprint, and to turn away what it cannot read.

A folder of a model holds `embedder.json`:

    {
      "name": "all-MiniLM-L6-v2-int8",
      "dimension": 384,
      "max_tokens": 256,          a longer text has no vector
      "pooling": "mean",          mean, cls, last; none: the model pools by itself
      "prefix": "",               put before each text (e5: "query: ")
      "scripts": ["latin"],       what it reads: names of caches.embed.scripts, or "all" (the default)
      "sha256": {"model.onnx": "83…", "tokenizer.json": "5f…"}       optional: saves reading them to say who the model is
    }
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from caches.embed.scripts import KNOWN as SCRIPTS

POOLINGS = ("mean", "cls", "last", "none")
FILES = ("model.onnx", "tokenizer.json")
CHARACTERS_A_TOKEN = 12
"""More than prose of any language has, on average. A text with more is not even cut into tokens."""


class About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What any folder of a model says of itself. Raises ValueError."""

    name: str
    max_tokens: int
    scripts: tuple[str, ...] = ("all",)
    sha256: dict[str, str] = {}

    def __post_init__(self) -> None:
        if not self.name or not 1 <= self.max_tokens <= 1_048_576:
            raise ValueError("needs a name and a number of tokens, max_tokens")
        if unknown := [name for name in self.scripts if name != "all" and name not in SCRIPTS]:
            raise ValueError(f"unknown script {unknown[0]!r}: all, {', '.join(SCRIPTS)}")

    @property
    def max_chars(self) -> int:
        return self.max_tokens * CHARACTERS_A_TOKEN


class Description(About, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dimension: int
    pooling: str = "mean"
    prefix: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.dimension <= 65_536:
            raise ValueError("needs a dimension")
        if self.pooling not in POOLINGS:
            raise ValueError(f"pooling is one of {', '.join(POOLINGS)}")

    @property
    def fingerprint(self) -> str:
        """The scripts are not part of it: they do not change a vector."""
        told = [self.name, self.dimension, self.max_tokens, self.pooling, self.prefix, sorted(self.sha256.items())]
        return hashlib.sha256(msgspec.json.encode(told)).hexdigest()[:12]


D = TypeVar("D", bound=About)


@dataclass(frozen=True, slots=True)
class Folder(Generic[D]):
    """A model on disk."""

    path: Path
    about: D

    def check(self) -> None:
        """That the files are those of the fingerprint. Raises ValueError and OSError; takes a moment."""
        for name, told in self.about.sha256.items():
            if digest(self.path / name) != told:
                raise ValueError(f"{self.path / name} is not the file that {self.about.name} was described with")


def read_folder(path: Path) -> Folder[Description]:
    """Of an embedder. Raises ValueError, with a line for whoever named the folder."""
    return described(path, "embedder", Description)


def described(path: Path, what: str, kind: type[D]) -> Folder[D]:
    """The folder that `what`.json describes. Raises ValueError."""
    file = path / f"{what}.json"
    try:
        about = msgspec.json.decode(file.read_bytes(), type=kind)
        sums = {name: about.sha256.get(name) or digest(path / name) for name in FILES}
    except OSError as error:
        lacking = Path(error.filename or path).name
        raise ValueError(f"{path} is no {what}'s folder: {lacking}: {error.strerror or error}") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from None
    return Folder(path, msgspec.structs.replace(about, sha256=sums))


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
