"""YAML text to a tree of nodes that know their line and column.

Rules: nothing is built but mappings with scalar keys, sequences and scalars; tags and merge keys are refused; a key
twice is an error; size, depth and the number of nodes (aliases counted at what they expand to) are bounded. Scalars
stay text: what a text means is for the schema to say, so `version: 1.10` is not the number 1.1 and `log: off` is a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from gateway.config.problems import Path, Problems, quote

MAX_BYTES = 4 * 1024 * 1024  # ten thousand tenants with their keys are 1.3 MB
TOO_LARGE = f"larger than {MAX_BYTES // 2**20} MiB"
MAX_DEPTH = 32
MAX_NODES = 200_000
_UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_YamlMark = Any  # yaml.Mark, or its twin in libyaml's binding: both have line and column, from 0
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast; the wheels have it


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the file, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    mark: Mark
    text: str
    plain: bool  # written without quotes

    @property
    def null(self) -> bool:
        return self.plain and self.text in _NULLS


@dataclass(frozen=True, slots=True)
class Sequence:
    mark: Mark
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    mark: Mark
    entries: tuple[tuple[Scalar, Node], ...]


Node = Scalar | Sequence | Mapping


class _UnreadableError(Exception):
    """Nothing after this place can be read."""

    def __init__(self, mark: Mark, message: str) -> None:
        super().__init__(message)
        self.mark = mark
        self.message = message


def compose(text: str, problems: Problems) -> Node | None:
    """The one document in `text`; None when it is empty or cannot be read, which `problems` then says."""
    try:
        _check_text(text)
        return _Composer(text, problems).document()
    except _UnreadableError as error:
        problems.add(error.mark.line, error.mark.column, (), error.message)
    except yaml.MarkedYAMLError as error:
        mark = _mark(error.problem_mark or error.context_mark)
        hint = "; ${…} inside braces needs quotes" if "${" in _line(text, mark.line) else ""
        problems.add(mark.line, mark.column, (), f"not valid YAML: {_one_line(error.problem or error.context)}{hint}")
    except (yaml.YAMLError, ValueError, OverflowError):  # the pure Python scanner lets chr() fail on \UFFFFFFFF
        problems.add(1, 1, (), "not valid YAML")
    return None


def _check_text(text: str) -> None:
    if len(text) > MAX_BYTES:
        raise _UnreadableError(Mark(1, 1), TOO_LARGE)
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        raise _UnreadableError(Mark(line, column), f"the character U+{ord(bad[0]):04X} is not allowed: is this a text file?")


def _mark(mark: _YamlMark | None) -> Mark:
    return Mark(mark.line + 1, mark.column + 1) if mark is not None else Mark(1, 1)


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number - 1] if number <= len(lines) else ""


def _one_line(text: str | None) -> str:
    return " ".join((text or "cannot be read").split())


class _Composer:
    def __init__(self, text: str, problems: Problems) -> None:
        self._events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=_Loader))
        self._problems = problems
        self._anchors: dict[str, tuple[Node, int] | None] = {}  # None while the anchored node is still open
        self._nodes = 0

    def document(self) -> Node | None:
        root: Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise _UnreadableError(_mark(event.start_mark), "a second YAML document: a config is one")
                root = self._node(next(self._events), 0, ())
        return None if isinstance(root, Scalar) and root.null else root

    def _node(self, event: yaml.Event, depth: int, path: Path) -> Node:
        mark = _mark(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor, mark)
        self._count(1, mark)
        if depth > MAX_DEPTH:
            raise _UnreadableError(mark, f"nested more than {MAX_DEPTH} deep")
        anchor, before = getattr(event, "anchor", None), self._nodes
        if getattr(event, "tag", None) is not None:
            raise _UnreadableError(mark, "YAML tags (!…) are not supported")
        if anchor is not None:
            self._anchors[anchor] = None
        node = self._build(event, mark, depth, path)
        if anchor is not None:
            self._anchors[anchor] = (node, self._nodes - before + 1)
        return node

    def _alias(self, anchor: str | None, mark: Mark) -> Node:
        if anchor is None or anchor not in self._anchors:
            raise _UnreadableError(mark, f"unknown anchor {quote(anchor or '')}")
        target = self._anchors[anchor]
        if target is None:
            raise _UnreadableError(mark, f"the alias {quote(anchor)} holds itself")
        self._count(target[1], mark)
        return target[0]

    def _count(self, nodes: int, mark: Mark) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise _UnreadableError(mark, f"more than {MAX_NODES:,} values, aliases expanded")

    def _build(self, event: yaml.Event, mark: Mark, depth: int, path: Path) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(mark, event.value, not event.style)
        if isinstance(event, yaml.SequenceStartEvent):
            return Sequence(mark, tuple(self._items(depth, path)))
        return Mapping(mark, tuple(self._entries(depth, path)))

    def _items(self, depth: int, path: Path) -> Iterator[Node]:
        index = 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, depth + 1, (*path, index))
            index += 1

    def _entries(self, depth: int, path: Path) -> Iterator[tuple[Scalar, Node]]:
        lines: dict[str, int] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1, path)
            value = self._node(next(self._events), depth + 1, (*path, key.text if isinstance(key, Scalar) else "?"))
            if not isinstance(key, Scalar):
                self._problems.add(key.mark.line, key.mark.column, path, "a key must be a word")
            elif key.plain and key.text == "<<":
                self._problems.add(key.mark.line, key.mark.column, path, "merge keys (<<) are not supported")
            elif key.text in lines:
                message = f"duplicate key; the first is on line {lines[key.text]}"
                self._problems.add(key.mark.line, key.mark.column, (*path, key.text), message)
            else:
                lines[key.text] = key.mark.line
                yield key, value
