"""Does a JSON value fit a JSON Schema, as far as the part of it that requests for structured answers use says?

type, enum, const, properties, required, additionalProperties, items, prefixItems, anyOf, oneOf, allOf, $ref within the schema,
minimum and its kin, minLength and its kin, minItems and its kin. Other keywords, `pattern` and `format` among them, are not
looked at, so a value that fits here may not fit altogether. Schema and value are hostile: nothing raises, and what takes more
than MOST steps or DEPTH levels fits not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MOST = 20_000
DEPTH = 64


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
}
_AT_LEAST: Mapping[str, Callable[[Any], Any]] = {
    "minLength": len,
    "minItems": len,
    "minProperties": len,
    "minimum": lambda it: it,
}
_AT_MOST: Mapping[str, Callable[[Any], Any]] = {"maxLength": len, "maxItems": len, "maxProperties": len, "maximum": lambda it: it}
_OF: Mapping[str, str] = {
    "Length": "string", "Items": "array", "Properties": "object", "imum": "number",
}  # fmt: skip


class _TooMuch(Exception):  # noqa: N818 - it names what it is
    """The bound of steps or levels."""


def fits(value: object, schema: object) -> bool:
    try:
        return _Check(schema).fits(value, schema, 0)
    except (_TooMuch, RecursionError):
        return False


class _Check:
    __slots__ = ("_left", "_root")

    def __init__(self, root: object) -> None:
        self._root = root
        self._left = MOST

    def fits(self, value: Any, schema: Any, depth: int) -> bool:
        self._left -= 1
        if self._left < 0 or depth > DEPTH:
            raise _TooMuch
        if not isinstance(schema, dict):
            return schema is not False
        return (
            _plain(value, schema)
            and self._combined(value, schema, depth + 1)
            and (not isinstance(value, dict) or self._object(value, schema, depth + 1))
            and (not isinstance(value, list) or self._array(value, schema, depth + 1))
        )

    def _combined(self, value: Any, schema: dict[str, Any], depth: int) -> bool:
        if "$ref" in schema and not self.fits(value, self._pointed(schema["$ref"]), depth):
            return False
        for name, fit in (("allOf", all), ("anyOf", any), ("oneOf", _one)):
            parts = schema.get(name)
            if isinstance(parts, list) and not fit(self.fits(value, part, depth) for part in parts):
                return False
        return True

    def _pointed(self, reference: object) -> object:
        """What cannot be found asks nothing."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        found: object = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name, True) if isinstance(found, dict) else True
        return found

    def _object(self, value: dict[str, Any], schema: dict[str, Any], depth: int) -> bool:
        required, known, others = schema.get("required"), schema.get("properties"), schema.get("additionalProperties", True)
        if isinstance(required, list) and any(isinstance(name, str) and name not in value for name in required):
            return False
        known = known if isinstance(known, dict) else {}
        free = "patternProperties" in schema
        return all(
            self.fits(each, known[name], depth) if name in known else free or self.fits(each, others, depth)
            for name, each in value.items()
        )

    def _array(self, value: list[Any], schema: dict[str, Any], depth: int) -> bool:
        first, items = schema.get("prefixItems"), schema.get("items", True)
        first = first if isinstance(first, list) else []
        return all(
            self.fits(each, first[place] if place < len(first) else items, depth) for place, each in enumerate(value)
        )  # fmt: skip


def _plain(value: Any, schema: dict[str, Any]) -> bool:
    """What a schema says of a value itself."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [] if kind is None else [kind]
    if kinds and not any(isinstance(it, str) and it in _TYPES and _TYPES[it](value) for it in kinds):
        return False
    options = schema.get("enum")
    if isinstance(options, list) and not any(_same(value, option) for option in options):
        return False
    if "const" in schema and not _same(value, schema["const"]):
        return False
    return _within(value, schema)


def _within(value: Any, schema: dict[str, Any]) -> bool:
    for name, measure in (*_AT_LEAST.items(), *_AT_MOST.items()):
        bound = schema.get(name)
        if bound is None or not _is_number(bound) or not _TYPES[_OF[name[3:]]](value):
            continue
        measured = measure(value)
        if (measured < bound) if name in _AT_LEAST else (measured > bound):
            return False
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if not _is_number(value):
        return True
    return not (_is_number(low) and value <= low) and not (_is_number(high) and value >= high)


def _same(one: Any, other: Any) -> bool:
    """True is not 1."""
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _one(found: Any) -> bool:
    return sum(map(bool, found)) == 1
