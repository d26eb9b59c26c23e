"""The filler of JSON schemas."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.lab.fake.schema import fill

SCALARS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 5, "maxLength": 6},
        {"type": "string", "format": "date"},
        {"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 4},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["null", "integer"]},
        {"enum": ["a", 1]},
        {"const": {"x": 1}},
        {"$ref": "#/$defs/leaf"},
    ]
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("array"), "items": inner, "minItems": st.integers(0, 3)})
        | st.dictionaries(st.text(max_size=3), inner, max_size=3).map(
            lambda known: {"type": "object", "properties": known, "required": list(known)}
        )
        | st.lists(inner, min_size=1, max_size=2).map(lambda options: {"anyOf": options})
    ),
    max_leaves=6,
)


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """The few rules that the schemas above use."""
    if "$ref" in schema:
        return value == "leaf"
    if "const" in schema or "enum" in schema:
        return value in [schema.get("const"), *schema.get("enum", [])]
    if "anyOf" in schema:
        return any(fits(value, option) for option in schema["anyOf"])
    kind = schema["type"]
    if kind == "object":
        return isinstance(value, dict) and all(
            name in value and fits(value[name], schema["properties"][name]) for name in schema["required"]
        )
    if kind == "array":
        return isinstance(value, list) and len(value) >= schema["minItems"] and all(fits(item, schema["items"]) for item in value)
    if kind == "string":
        return isinstance(value, str) and schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 99)
    if kind in ("integer", ["null", "integer"]):
        return (
            isinstance(value, int)
            and schema.get("minimum", value) <= value <= schema.get("maximum", value)
            and value % schema.get("multipleOf", 1) == 0
        )
    return {"number": isinstance(value, float) and 0 < value < 1, "boolean": value is True, "null": value is None}[kind]


@given(SCHEMAS)
def test_the_filler_fits_what_it_fills(schema: dict[str, Any]) -> None:
    """A filled schema is valid under it."""
    whole = {**schema, "$defs": {"leaf": {"const": "leaf"}}}
    assert fits(fill(whole), whole)


def test_recursive_and_hostile_schemas_end() -> None:
    """A schema that holds itself ends where the depth does, and nonsense gives something."""
    tree = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}}
    assert json.dumps(fill(tree)).count("next") < 20
    loop = {"$ref": "#"}
    assert fill(loop) is None
    for nonsense in (
        None,
        True,
        [],
        "x",
        {"type": 7},
        {"allOf": [{"type": "string"}, {"minLength": 4}]},
        {"items": {}},
        {"minimum": 4},
        {"maxLength": 1},
    ):
        json.dumps(fill(nonsense))
    assert fill({"allOf": [{"type": "object", "properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]}) == {
        "a": 1,
        "b": 2,
    }
    assert fill({"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True}) == ["the0", "the1"]
    assert fill({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}]}) == [1, 2]
