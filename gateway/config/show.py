"""The config as text: the effective one with its secrets hidden, and the reference of its keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

import yaml

from gateway.config import fields
from gateway.config.schema import Config


@dataclass(frozen=True, slots=True)
class KeyDoc:
    """One key: `models[].replicas[].url`, what it may hold, its default as YAML shows it (None: required), its doc."""

    path: str
    expects: str
    default: str | None
    doc: str


def plain(config: Config) -> dict[str, Any]:
    """The whole config as JSON values, secrets hidden, durations and sizes as people write them."""
    shown: dict[str, Any] = _section(Config, config)
    return shown


def effective(config: Config) -> str:
    """The same as YAML, which reads back to the same config but for the secrets."""
    return yaml.safe_dump(plain(config), sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)


def reference() -> Iterator[KeyDoc]:
    """Every key of the schema in its order, sections before what they hold."""
    yield from _keys(Config, "")


def _section(cls: Any, value: object) -> Any:
    return {name: _show(hint, getattr(value, name)) for name, hint in fields.hints(cls).items()}


def _show(hint: Any, value: Any) -> Any:
    hint, _ = fields.without_none(hint)
    if value is None:
        return None
    if dataclasses.is_dataclass(hint):
        return _section(hint, value)
    if get_origin(hint) is tuple:
        return [_show(get_args(hint)[0], item) for item in value]
    if get_origin(hint) is Mapping:
        return {name: _show(get_args(hint)[1], item) for name, item in value.items()}
    return fields.kind_of(hint).show(value)


def _keys(cls: Any, prefix: str) -> Iterator[KeyDoc]:
    hints = fields.hints(cls)
    for one in dataclasses.fields(cls):
        inner, path = fields.without_none(hints[one.name])[0], prefix + one.name
        origin, expects = get_origin(inner), ""
        if origin is tuple:
            inner, path, expects = get_args(inner)[0], path + "[]", "a list of: "
        elif origin is Mapping:
            inner, path, expects = get_args(inner)[1], path + ".NAME", "names, each with: "
        if dataclasses.is_dataclass(inner):
            expects += "keys"
        else:
            expects += fields.kind_of(inner).expects
        yield KeyDoc(path, expects, _default(one, hints[one.name]), one.metadata["doc"])
        if dataclasses.is_dataclass(inner):
            yield from _keys(inner, path + ".")


def _default(one: dataclasses.Field[Any], hint: Any) -> str | None:
    if one.metadata.get("required"):
        return None
    if "same_as" in one.metadata:
        return f"as {one.metadata['same_as']}"
    if one.default is dataclasses.MISSING:
        return ""
    return yaml.safe_dump(_show(hint, one.default), default_flow_style=True).removesuffix("...\n").strip()
