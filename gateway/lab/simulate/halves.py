"""A command line with two halves, of which one is used: which options of the other were given all the same?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class _Noted(argparse.Action):
    """Stores, and notes in `given` that it did, by half."""

    half = ""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - as argparse calls it
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002 - perhaps cut short
    ) -> None:
        setattr(namespace, self.dest, self.stored(namespace, values))
        if self.option_strings:
            given = namespace.__dict__.setdefault("given", {})
            given.setdefault(self.half, self.option_strings[0])

    def stored(self, namespace: argparse.Namespace, values: Any) -> Any:  # noqa: ARG002 - as the others
        return values


class _Append(_Noted):
    def stored(self, namespace: argparse.Namespace, values: Any) -> Any:
        return [*(getattr(namespace, self.dest) or ()), values]


class _True(_Noted):
    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=False, **options)

    def stored(self, namespace: argparse.Namespace, values: Any) -> Any:  # noqa: ARG002 - as the others
        return True


@contextmanager
def half(parser: argparse.ArgumentParser, name: str) -> Iterator[None]:
    """What is added meanwhile, to its groups too, is of that half."""
    _register(parser, name)
    try:
        yield
    finally:
        _register(parser, "")


def _register(parser: argparse.ArgumentParser, name: str) -> None:
    for kind, action in ((None, _Noted), ("append", _Append), ("store_true", _True)):
        parser.register("action", kind, type(action.__name__, (action,), {"half": name}))


def given(args: argparse.Namespace, name: str) -> str | None:
    """The first option of that half on the command line."""
    noted: dict[str, str] = vars(args).get("given", {})
    return noted.get(name)
