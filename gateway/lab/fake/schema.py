"""A value that fits a JSON schema, for tool calls and structured outputs: the dullest one, the same for the same schema.

Required and optional properties are all there down to a depth; below it only required ones, and below twice that nothing.
`pattern` is not solved (guided generation does that; a filler cannot in general), and a schema that refers to itself ends
where the depth does.
"""

from __future__ import annotations

import math
from typing import Any

_DEPTH = 5
_HARD_DEPTH = 12
_ITEMS = 3
_FORMATS = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "duration": "PT1M",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def fill(schema: Any) -> Any:
    """A JSON value for `schema`; for a schema that is none, an empty object."""
    return _fill(schema, schema if isinstance(schema, dict) else {}, 0)


def _fill(schema: Any, root: dict[str, Any], depth: int) -> Any:
    if schema is True or not isinstance(schema, dict) or depth > _HARD_DEPTH:
        return {} if depth == 0 else None
    if "$ref" in schema:
        return _fill(_resolve(schema["$ref"], root), root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf"):
        if isinstance(schema.get(union), list) and schema[union]:
            return _fill(_shallow(schema[union], depth), root, depth + 1)
    if isinstance(schema.get("allOf"), list):
        return _fill(_merged(schema, root), root, depth + 1)
    return _by_type(_type(schema), schema, root, depth)


def _by_type(kind: str, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        return _array(schema, root, depth)
    if kind == "string":
        return _string(schema)
    if kind in ("integer", "number"):
        return _number(schema, whole=kind == "integer")
    return True if kind == "boolean" else None


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if isinstance(kind, str):
        return kind
    if "items" in schema or "prefixItems" in schema:
        return "array"
    if "minLength" in schema or "maxLength" in schema or "format" in schema:
        return "string"
    return "number" if "minimum" in schema or "maximum" in schema else "object"


def _resolve(reference: Any, root: dict[str, Any]) -> Any:
    """A reference within the document; any other one allows everything."""
    node: Any = root
    for part in str(reference).removeprefix("#").strip("/").split("/"):
        if part:
            node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def _shallow(options: list[Any], depth: int) -> Any:
    """Deep down a union takes its simplest member, so that recursive types end."""
    if depth < _DEPTH:
        return options[0]
    plain = [option for option in options if isinstance(option, dict) and option.get("type") not in ("object", "array", None)]
    return plain[0] if plain else options[-1]


def _merged(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {name: value for name, value in schema.items() if name != "allOf"}
    for member in schema["allOf"]:
        found = _resolve(member["$ref"], root) if isinstance(member, dict) and "$ref" in member else member
        for name, value in found.items() if isinstance(found, dict) else ():
            if isinstance(value, dict) and isinstance(merged.get(name), dict):
                merged[name] = {**merged[name], **value}
            elif isinstance(value, list) and isinstance(merged.get(name), list):
                merged[name] = merged[name] + value
            else:
                merged[name] = value
    return merged


def _object(schema: dict[str, Any], root: dict[str, Any], depth: int) -> dict[str, Any]:
    known = schema.get("properties")
    properties: dict[str, Any] = known if isinstance(known, dict) else {}
    required = [name for name in schema.get("required") or () if isinstance(name, str)]
    names = list(properties) if depth < _DEPTH else [name for name in properties if name in required]
    filled = {name: _fill(properties[name], root, depth + 1) for name in names}
    for name in required:
        filled.setdefault(name, "the")
    return filled


def _array(schema: dict[str, Any], root: dict[str, Any], depth: int) -> list[Any]:
    first = schema.get("prefixItems")
    if isinstance(first, list):
        return [_fill(item, root, depth + 1) for item in first]
    least = schema.get("minItems")
    least = least if isinstance(least, int) else 0
    length = max(least, min(1 if depth < _DEPTH else 0, schema.get("maxItems", 1)))
    items = [
        _fill(schema.get("items", {"type": "string"}), root, depth + 1) for _ in range(min(length, max(least, _ITEMS), 1000))
    ]
    return (
        [f"{item}{at}" for at, item in enumerate(items)]
        if schema.get("uniqueItems") and items and isinstance(items[0], str)
        else items
    )


def _string(schema: dict[str, Any]) -> str:
    text = _FORMATS.get(str(schema.get("format")), "the")
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int) and len(text) < least:
        text = (text + " ").ljust(min(least, 10_000), "a")
    return text[:most] if isinstance(most, int) else text


def _number(schema: dict[str, Any], *, whole: bool) -> int | float:
    gap = 1 if whole else 0.5
    low = max(_limit(schema, "minimum", 0, -math.inf), _limit(schema, "exclusiveMinimum", gap, -math.inf))
    high = min(_limit(schema, "maximum", 0, math.inf), _limit(schema, "exclusiveMaximum", -gap, math.inf))
    step = _limit(schema, "multipleOf", 0, 0)
    value: float = low if low > -math.inf else min(1, high)
    if step > 0:
        value = math.ceil(value / step) * step
    elif whole:
        value = math.ceil(value)
    if value > high > -math.inf and low > -math.inf:
        value = math.floor(high) if whole else (low + high) / 2
    return int(value) if whole else value


def _limit(schema: dict[str, Any], name: str, shift: float, missing: float) -> float:
    value = schema.get(name)
    return value + shift if isinstance(value, (int, float)) and not isinstance(value, bool) else missing
