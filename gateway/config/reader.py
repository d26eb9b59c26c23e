"""A tree of YAML nodes and a schema of dataclasses to values.

Rules: nothing stops at the first error; what could not be read is replaced by its default or a zero, so that the
cross-checks run on the rest; `${NAME}` and `${NAME:-default}` (for unset or empty) are filled into values, never into
keys, never twice, and the result is never repeated in a message; `$${` is a literal `${`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping as MappingABC
from types import MappingProxyType
from typing import Any, get_args, get_origin

from gateway.config import fields
from gateway.config.kinds import Kind, Text, Unfit
from gateway.config.problems import Path, Problems, nearest, quote
from gateway.config.yamltree import Mapping, Mark, Node, Scalar, Sequence

_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_BROKEN = object()
_START = Mark(1, 1)


class Reader:
    """Reads one file. `marks` says afterwards where each value stood, `from_env` which texts must not be repeated."""

    def __init__(self, env: MappingABC[str, str], problems: Problems) -> None:
        self._env = env
        self._problems = problems
        self.marks: dict[Path, Mark] = {}
        self.from_env: set[str] = set()

    def root(self, cls: type, node: Node | None) -> object:
        """The whole file as an instance of `cls`."""
        return self._section(cls, node if node is not None else Mapping(_START, ()), ())

    def mark(self, path: Path) -> Mark:
        """Where the value at `path` stands; one that was left out stands where its section does."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path, _START)

    def _read(self, hint: Any, node: Node, path: Path) -> object:
        self.marks[path] = node.mark
        hint, nullable = fields.without_none(hint)
        if nullable and isinstance(node, Scalar) and node.null:
            return None
        if dataclasses.is_dataclass(hint):
            return self._section(hint, node, path)
        if get_origin(hint) is tuple:
            return self._sequence(get_args(hint)[0], node, path)
        if get_origin(hint) is MappingABC:
            return self._mapping(hint, node, path)
        return self._scalar(fields.kind_of(hint), node, path, nullable)

    def _section(self, cls: Any, node: Node, path: Path) -> object:
        self.marks[path] = node.mark
        hints = fields.hints(cls)
        values: dict[str, object] = {}
        seen: set[str] = set()
        for key, value in self._entries(node, path):
            if key.text not in hints:
                meant = None if self._problems.full else nearest(key.text, hints)
                seen.add(meant or "")  # then it is not missing as well
                self._add(key.mark, (*path, key.text), f'unknown key; did you mean "{meant}"?' if meant else "unknown key")
            elif not self._left_out(hints[key.text], value):
                seen.add(key.text)
                read = self._read(hints[key.text], value, (*path, key.text))
                if read is not _BROKEN:
                    values[key.text] = read
        self._require(cls, seen, values, node.mark, path)
        return fields.blank(cls, values)

    @staticmethod
    def _left_out(hint: Any, node: Node) -> bool:
        """A section or a list whose lines are all commented out is null in YAML: it has its defaults."""
        return (
            isinstance(node, Scalar) and node.null and (dataclasses.is_dataclass(hint) or get_origin(hint) in (tuple, MappingABC))
        )

    def _require(self, cls: Any, seen: set[str], values: dict[str, object], mark: Mark, path: Path) -> None:
        defaults = {one.name: one.default for one in dataclasses.fields(cls) if one.name not in seen}
        for one in dataclasses.fields(cls):
            of = one.metadata.get("of")
            if not one.metadata.get("required") or (of and {**defaults, **values}.get(of[0]) != of[1]):
                continue
            if one.name not in seen:
                self._add(mark, path, f'missing key "{one.name}"')
            elif values.get(one.name) == ():
                self._add(self.mark((*path, one.name)), (*path, one.name), "must not be empty")

    def _entries(self, node: Node, path: Path) -> tuple[tuple[Scalar, Node], ...]:
        if isinstance(node, Mapping):
            return node.entries
        if not (isinstance(node, Scalar) and node.null):
            self._add(node.mark, path, f"expected keys and values, got {_shape(node)}")
        return ()

    def _sequence(self, hint: Any, node: Node, path: Path) -> object:
        if not isinstance(node, Sequence):
            self._add(node.mark, path, f"expected a list, got {_shape(node)}")
            return _BROKEN
        items = [self._read(hint, item, (*path, index)) for index, item in enumerate(node.items)]
        return tuple(fields.zero(hint) if item is _BROKEN else item for item in items)

    def _mapping(self, hint: Any, node: Node, path: Path) -> object:
        key_hint, value_hint = get_args(hint)
        values: dict[object, object] = {}
        for key, value in self._entries(node, path):
            here = (*path, key.text)
            try:
                name = fields.kind_of(key_hint).read(key.text)
            except Unfit as unfit:
                self._add(key.mark, here, str(unfit).replace("{}", quote(key.text)))
                continue
            read = self._read(value_hint, value, here)
            if read is not _BROKEN:
                values[name] = read
        return MappingProxyType(values)

    def _scalar(self, kind: Kind, node: Node, path: Path, nullable: bool) -> object:
        if not isinstance(node, Scalar):
            self._add(node.mark, path, f"expected {kind.expects}, got {_shape(node)}")
            return _BROKEN
        if node.null:
            self._add(node.mark, path, f"expected {kind.expects}, got nothing; leave the key out for its default")
            return _BROKEN
        text = self._expand(node, path)
        if text is None:
            return _BROKEN
        if nullable and text in ("", "null") and "${" in node.text and not isinstance(kind, Text):
            return None
        try:
            return kind.read(text)
        except Unfit as unfit:
            shown = quote(text) if "${" not in node.text else "a value from the environment"
            self._add(node.mark, path, str(unfit).replace("{}", shown))
            return _BROKEN

    def _expand(self, node: Scalar, path: Path) -> str | None:
        """The text with its variables filled in; None when that failed."""
        failed: list[str] = []
        from_env = False

        def fill(match: re.Match[str]) -> str:
            nonlocal from_env
            if match[0] == "$${":
                return "${"
            name = _NAME.fullmatch(match[1] or "")
            if name is None:
                failed.append("expected ${NAME} or ${NAME:-default}; write $${ for a literal ${")
                return ""
            value = self._env.get(name[1], "" if name[2] is not None else None)
            if value is None:
                failed.append(f"environment variable {name[1]} is not set, and has no default")
                return ""
            from_env = from_env or bool(value)
            return value or name[2] or ""

        text = _VARIABLE.sub(fill, node.text) if "${" in node.text else node.text
        for message in failed:
            self._add(node.mark, path, message)
        if from_env:
            self.from_env.add(text)
        return None if failed else text

    def _add(self, mark: Mark, path: Path, message: str) -> None:
        self._problems.add(mark.line, mark.column, path, message)


def _shape(node: Node) -> str:
    if isinstance(node, Scalar):
        return "a single value"
    return "a list" if isinstance(node, Sequence) else "keys and values"
