"""How a key of the config is declared: a dataclass field whose type says what it may hold, with a default and a line of doc."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gateway.config.kinds import Flag, Kind, Text

T = TypeVar("T")


def key(default: T, doc: str) -> T:
    """A key with a default."""
    return dataclasses.field(default=default, metadata={"doc": doc})


def required(doc: str, of: tuple[str, str] | None = None) -> Any:
    """A key that must be there, and not be empty; `of`: only where another key of the section has that value."""
    return dataclasses.field(metadata={"doc": doc, "required": True, "of": of})


def same_as(other: str, doc: str) -> Any:
    """A key whose default is the value of another key of the same section."""
    return dataclasses.field(default="", metadata={"doc": doc, "same_as": other})


def section(make: Callable[[], T], doc: str) -> T:
    """A section, a list or a map: `make()` is what it is when left out."""
    return dataclasses.field(default_factory=make, metadata={"doc": doc})


@lru_cache(maxsize=256)
def hints(cls: type) -> Mapping[str, Any]:
    """The types of the keys of a section, in the order they are declared in."""
    resolved = get_type_hints(cls, include_extras=True)
    return {one.name: resolved[one.name] for one in dataclasses.fields(cls)}


def without_none(hint: Any) -> tuple[Any, bool]:
    """`X | None` is (X, True)."""
    if get_origin(hint) in (Union, UnionType):
        (one,) = (part for part in get_args(hint) if part is not NoneType)
        return one, True
    return hint, False


def kind_of(hint: Any) -> Kind:
    """The kind of a scalar's type."""
    if get_origin(hint) is Annotated:
        kind: Kind = get_args(hint)[1]
        return kind
    return Flag() if hint is bool else Text()


def zero(hint: Any) -> object:
    """A list or a scalar of the right type in place of one that could not be read, so that the checks can go on."""
    if get_origin(hint) is tuple:
        return ()
    bare: Any = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return bare()


def blank(cls: Any, values: Mapping[str, object]) -> object:
    """An instance from the values that are there, the defaults, and zeros."""
    complete = dict(values)
    for one in dataclasses.fields(cls):
        if "same_as" in one.metadata:
            complete[one.name] = complete.get(one.name) or complete.get(one.metadata["same_as"], "")
        elif one.name not in complete and one.metadata.get("required"):
            complete[one.name] = zero(hints(cls)[one.name])
    return cls(**complete)
