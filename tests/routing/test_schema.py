"""Whether a JSON value fits a JSON Schema, and whether an answer refuses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.refusing import refuses
from routing.schema import fits

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
KEYWORDS = st.sampled_from(
    ["type", "enum", "const", "properties", "required", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "allOf",
     "$ref", "minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxProperties"]
)  # fmt: skip
PERSON = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 0},
        "of": {"$ref": "#/$defs/kind"},
        "names": {"items": {"minLength": 1}},
    },
    "required": ["age"],
    "additionalProperties": False,
    "$defs": {"kind": {"enum": ["cat", 1, None]}},
}


@pytest.mark.parametrize(
    "value", [{"age": 1}, {"age": 2.0, "of": "cat"}, {"age": 0, "of": None, "names": []}, {"age": 1, "names": ["x"]}]
)
def test_what_fits(value):
    """All that is asked of it holds."""
    assert fits(value, PERSON)


@pytest.mark.parametrize(
    "value",
    [{}, [], {"age": True}, {"age": 1.5}, {"age": -1}, {"age": 1, "of": "dog"}, {"age": 1, "of": True}, {"age": 1, "x": 2},
     {"age": 1, "names": [""]}],
)  # fmt: skip
def test_what_does_not(value):
    """One thing does not."""
    assert not fits(value, PERSON)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, [None, "x"], [1]),
        ({"oneOf": [{"minimum": 1}, {"maximum": 5}]}, [0, 6], [3]),
        ({"allOf": [{"minimum": 1}, {"maximum": 5}]}, [3], [0, 6]),
        ({"type": ["string", "number"]}, ["x", 1.5], [True, None]),
        ({"prefixItems": [{"const": 1}], "items": False}, [[], [1]], [[2], [1, 1]]),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 1}, [0.5, "x"], [0, 1]),
        ({"minItems": 1, "maxItems": 2}, [[1], "abc"], [[], [1, 2, 3]]),
    ],
)
def test_keywords(schema, good, bad):
    """Each means what JSON Schema says; of values of other types nothing."""
    assert all(fits(value, schema) for value in good)
    assert not any(fits(value, schema) for value in bad)


@settings(max_examples=50)
@given(JSON, st.dictionaries(KEYWORDS, JSON, max_size=4) | JSON)
def test_hostile_schemas(value, schema):
    """Whatever a client calls a schema, nothing raises, and the empty one asks nothing."""
    assert fits(value, schema) in (True, False)
    assert fits(value, {})


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}] * 50}, {"items": {"$ref": "#"}, "allOf": [{"$ref": "#"}] * 9}]
)
def test_schemas_without_an_end(schema):
    """A circle fits nothing, and ends."""
    assert not fits([[1]], schema)


@pytest.mark.parametrize(
    "text",
    ["I'm sorry, but I can't help.", "I cannot assist with this.", "As an AI language model, I", "Sorry, I can’t do it.",
     "Unfortunately, I am unable to answer.", "抱歉，我无法回答这个问题。", "我无法提供这些信息", "对不起，我不能"],
)  # fmt: skip
def test_refusals(text):
    """In English and Chinese, by their beginning."""
    assert refuses(text)


@pytest.mark.parametrize(
    "text", ["42", "Sorry state of affairs: 3", "I can do it", "The word can't is short.", "“抱歉”的英文是 sorry", ""]
)
def test_no_refusals(text):
    """Answers that hold the same words are none."""
    assert not refuses(text)


@given(st.text())
def test_any_text(text):
    """Nothing raises."""
    assert refuses(text) in (True, False)
