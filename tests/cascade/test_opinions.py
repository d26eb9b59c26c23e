"""What an answer says by itself, whatever a backend sends; and what is made of several."""

import json
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.opinions import Opinion, opinions, result_of, wants_of
from gateway.usage import with_usage

VALUE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    VALUE, lambda it: st.lists(it, max_size=3) | st.dictionaries(st.text(max_size=5), it, max_size=3), max_leaves=5
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "message": st.fixed_dictionaries({}, optional={"content": JSON, "refusal": JSON, "tool_calls": JSON}) | JSON,
        "text": JSON,
        "finish_reason": JSON,
        "logprobs": st.fixed_dictionaries({}, optional={"content": JSON, "token_logprobs": JSON}) | JSON,
    },
)
FIELDS = st.fixed_dictionaries({}, optional={"response_format": JSON, "tools": st.lists(JSON), "tool_choice": JSON})


@settings(max_examples=50)
@given(st.lists(CHOICE | JSON, max_size=3) | JSON, FIELDS)
def test_whatever_a_backend_sends(choices, fields):
    """Nothing raises, and what cannot be read is no answer."""
    found = opinions(json.dumps({"choices": choices}).encode(), wants_of(fields))
    for least in (None, -0.1):
        assert (result_of(found, least=least) == "invalid") >= (not found)
    assert all(opinion.certainty is None or -math.inf < opinion.certainty <= 0 for opinion in found)


@given(st.binary(max_size=50))
def test_no_json(body):
    """Bytes that are no object hold no opinion, and go on unchanged."""
    assert opinions(b"\xff" + body, wants_of({})) == []
    assert with_usage(b"\xff" + body, (1, 1)) == b"\xff" + body


@pytest.mark.parametrize(
    ("texts", "result"),
    [
        (["12", "12.0"], "answered"),
        (["12", "13"], "disagreement"),
        (["12", "12", "13"], "disagreement"),
        (["12", "B"], "unchecked"),
        (["12"], "unchecked"),
        ([], "invalid"),
    ],
)
def test_what_several_say(texts, result):
    """All must say the same as the first."""
    assert result_of([Opinion(text) for text in texts], least=None) == result


@pytest.mark.parametrize(
    ("told", "certainty"),
    [
        ({"content": [{"logprob": -0.5}, {"logprob": -1.5}]}, -1.0),
        ({"token_logprobs": [-1, -3.0]}, -2.0),
        ({"token_logprobs": [None, -3.0]}, None),
        ({"token_logprobs": [1e308, 1e308]}, None),
        ({"content": []}, None),
        (None, None),
    ],
)
def test_certainty(told, certainty):
    """The mean of all tokens, in the shape of either endpoint; None where one is missing or none was told."""
    [opinion] = opinions(json.dumps({"choices": [{"text": "12", "logprobs": told}]}).encode(), wants_of({}))
    assert opinion.certainty == certainty


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_usage_is_summed(prompt, completion, more, longer):
    """Where an answer tells its usage the other calls' tokens are in it, and nothing else of its bytes changes."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, "other": {"x": 1}}
    body = b'{"id":"a","usage":' + msgspec.json.encode(usage) + b',"b":[1.50,  2]}'
    made = with_usage(body, (more, longer))
    if not prompt + completion or not more + longer:
        assert made == body
        return
    told = json.loads(made)["usage"]
    assert told == usage | {
        "prompt_tokens": prompt + more,
        "completion_tokens": completion + longer,
        "total_tokens": prompt + completion + more + longer,
    }
    assert made.endswith(b',"b":[1.50,  2]}')
