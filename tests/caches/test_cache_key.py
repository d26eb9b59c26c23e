"""Which requests get the same cache key."""

import json
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.key import ECHOED, IGNORED, KEY_BYTES, NULLABLE, _spell, canonical, entry_id, exact_key
from caches.scope import Scope

SECRET = b"s" * 32
MODELS = (("qwen2.5-7b-instruct", "2024-09"), ("llama-3.3-70b-instruct", "1"))
BODY = {"model": "auto", "messages": [{"role": "user", "content": "Say hello"}], "temperature": 0}


def key(body, **changed):
    parts = {"secret": SECRET, "scope": Scope("acme"), "endpoint": "chat", "models": MODELS, "tier": None}
    return exact_key(body=body, **{**parts, **changed})


def key_of(text):
    return key(msgspec.json.decode(text.encode()))


def nested(depth):
    return msgspec.json.decode(b'{"x":' + b"[" * depth + b"]" * depth + b"}")


def call_at_depth(frames, function):
    return function() if frames == 0 else call_at_depth(frames - 1, function)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = (
    st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, 1, 1.0, -0.0, 0.1, 1e16, 1e22, 2**53, float(2**53)])
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=25,
)
names = texts | st.sampled_from(sorted(IGNORED | NULLABLE))
bodies = st.dictionaries(names, values, max_size=6)


def same_json(a, b):
    """Equality of JSON values, in which true is not 1; numbers are compared by value."""
    if type(a) is dict and type(b) is dict:
        return a.keys() == b.keys() and all(same_json(a[k], b[k]) for k in a)
    if type(a) is list and type(b) is list:
        return len(a) == len(b) and all(map(same_json, a, b))
    if type(a) is bool or type(b) is bool:
        return a is b
    return a == b and (type(a) is str) == (type(b) is str)


def str_bits(number):
    return f"{'-' if number < 0 else ''}{number.bit_length()}-{abs(number) & 3}"


def big(_code, data):
    return int.from_bytes(data, "big", signed=True)


def spelled(value, draw):
    """The same JSON value, written in another way."""
    pad = draw(st.sampled_from(["", " ", "\n\t", "\r\n "]))
    if type(value) is dict:
        names = draw(st.permutations(list(value)))
        members = [f"{pad}{spelled(name, draw)}{pad}:{pad}{spelled(value[name], draw)}" for name in names]
        return "{" + ",".join(members) + pad + "}"
    if type(value) is list:
        return "[" + ",".join(pad + spelled(item, draw) + pad for item in value) + "]"
    if type(value) is str:
        how = draw(st.sampled_from(["plain", "ascii", "escaped"]))
        if how == "escaped":
            units = value.encode("utf-16-be")
            return '"' + "".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2)) + '"'
        return json.dumps(value, ensure_ascii=how == "ascii")
    if type(value) is int and abs(value) <= 2**53:
        return draw(st.sampled_from([str(value), f"{value}.0", f"{value}e0", f"{value}.00E+0", f"{value}.0e-0"]))
    if type(value) is float:
        return draw(st.sampled_from([repr(value), f"{value!r}e0" if "e" not in repr(value) else repr(value)]))
    return json.dumps(value)


def left_out(name, value):
    return name in IGNORED or (value is None and name in NULLABLE)


@given(bodies, st.data())
def test_spelling_does_not_matter(body, data):
    """However the same JSON is spelled (order, space, numbers, escapes), the key is the same."""
    assert key_of(spelled(body, data.draw)) == key_of(json.dumps(body))


@given(bodies, bodies)
def test_key_is_injective_on_bodies(one, other):
    """Two bodies have one key only if they are the same but for ignored fields and nulls that mean nothing."""
    kept = [{k: v for k, v in body.items() if not left_out(k, v)} for body in (one, other)]
    assert (key(one) == key(other)) == same_json(*kept)


@given(bodies, values, names)
def test_any_added_field_changes_the_key(body, value, name):
    """A field that was not there, whatever its name, gives another key unless it is ignored or a null that means nothing."""
    plain = {k: v for k, v in body.items() if k != name}
    same = left_out(name, value)
    assert (key(plain) == key({**plain, name: value})) == same


@given(values)
def test_both_writers_agree(value):
    """The writer that needs no stack writes what the fast one writes, so a key does not depend on how deep it was made."""
    body = {"x": value}
    assert canonical(body, "chat") == _spell(body)
    assert same_json(msgspec.msgpack.decode(_spell(body), ext_hook=big), body)


@pytest.mark.parametrize("count", [0, 15, 16, 65_535, 65_536])
@pytest.mark.parametrize("make", [lambda count: {"x": [7] * count}, lambda count: {"x": {str(n): 7 for n in range(count)}}])
def test_both_writers_agree_on_sizes(make, count):
    """Lists and objects of any length begin the same, whichever writer wrote them."""
    assert canonical(make(count), "chat") == _spell(make(count))


@pytest.mark.parametrize(
    "number", [2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63), -(2**63) - 1, 2**2000, -(2**2000)], ids=str_bits
)
def test_integers_of_any_size_are_keyed(number):
    """The bounds of 64 bits change how an integer is written, and nothing else."""
    body = {"x": [number], "y": 1}
    assert same_json(msgspec.msgpack.decode(canonical(body, "chat"), ext_hook=big), body)
    assert len({key(body), key({"x": [number - 1], "y": 1}), key({"x": [str(number)], "y": 1})}) == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"x":1}', '{"x":1.0}', True),
        ('{"x":1}', '{"x":1e0}', True),
        ('{"x":0.1}', '{"x":0.10}', True),
        ('{"x":0}', '{"x":-0.0}', True),
        ('{"x":100000000000000000000}', '{"x":1e20}', True),
        ('{"x":{"y":[1]}}', '{"x":{"y":[1.0]}}', True),
        ('{"x":"A"}', '{"x":"\\u0041"}', True),
        ('{"stop":null}', "{}", True),
        ('{"x":null}', "{}", False),
        ('{"x":null}', '{"x":false}', False),
        ('{"x":{"y":null}}', '{"x":{}}', False),
        ('{"x":true}', '{"x":1}', False),
        ('{"x":false}', '{"x":0}', False),
        ('{"x":"1"}', '{"x":1}', False),
        ('{"x":0.1}', '{"x":0.2}', False),
        ('{"x":9007199254740993}', '{"x":9007199254740992}', False),
        ('{"x":18446744073709551616}', '{"x":18446744073709551617}', False),
        ('{"x":[1,2]}', '{"x":[2,1]}', False),
        ('{"x":[]}', '{"x":{}}', False),
        ('{"x":""}', "{}", False),
        ('{"x":"é"}', '{"x":"e\u0301"}', False),
    ],
)
def test_what_is_the_same_value(one, other, same):
    """Numbers are compared by value, everything else by type and value; text is not normalised."""
    assert (key_of(one) == key_of(other)) is same


@pytest.mark.parametrize(
    "field",
    [
        '"reasoning_effort":"low"', '"thinking":{"type":"enabled"}', '"max_tokens":5', '"max_completion_tokens":5',
        '"logit_bias":{"5":-100}', '"seed":7', '"top_k":1', '"top_p":0.5', '"min_p":0.1', '"repetition_penalty":1.1',
        '"presence_penalty":0.5', '"frequency_penalty":0.5', '"chat_template_kwargs":{"enable_thinking":false}',
        '"structured_outputs":{"regex":"a+"}', '"guided_json":{"type":"object"}', '"guided_regex":"a+"', '"stop":["x"]',
        '"stop_token_ids":[1]', '"n":2', '"best_of":2', '"logprobs":true', '"top_logprobs":2', '"prompt_logprobs":1',
        '"tools":[{"type":"function","function":{"name":"f"}}]', '"tool_choice":"auto"', '"parallel_tool_calls":false',
        '"response_format":{"type":"json_object"}', '"encoding_format":"base64"', '"dimensions":8', '"echo":true',
        '"suffix":"x"', '"modalities":["text"]', '"ignore_eos":true', '"min_tokens":1', '"num_ctx":4096', '"lora":"x"',
        '"truncate_prompt_tokens":3', '"a_field_of_next_year":{}',
    ],
)  # fmt: skip
def test_output_changing_fields_are_in_the_key(field):
    """Each field that may change the answer, known or not, makes another key."""
    assert key_of('{"messages":[{"role":"user","content":"x"}]}') != key_of(
        '{"messages":[{"role":"user","content":"x"}],' + field + "}"
    )


@pytest.mark.parametrize("field", sorted(IGNORED))
def test_ignored_fields_are_not_in_the_key(field):
    """The documented fields that cannot change the answer do not split the cache."""
    assert key(BODY) == key({**BODY, field: "anything"}) == key({**BODY, field: {"x": [1.0]}})


@pytest.mark.parametrize("field", sorted(ECHOED))
def test_what_an_answer_repeats_is_in_its_key(field):
    """An answer of /v1/responses tells the metadata and the user of its request, so another's are another request."""
    asked = {"model": "m", "input": "hello"}
    assert key({**asked, field: "a"}, endpoint="responses") != key({**asked, field: "b"}, endpoint="responses")
    assert key({**asked, field: "a"}) == key({**asked, field: "b"})


@pytest.mark.parametrize("field", sorted(IGNORED - ECHOED))
def test_what_no_answer_repeats_is_in_no_key(field):
    """The other ignored fields do not count on /v1/responses either."""
    asked = {"input": "hello"}
    assert key(asked, endpoint="responses") == key({**asked, field: "a"}, endpoint="responses")


@pytest.mark.parametrize("field", sorted(NULLABLE))
def test_null_is_absence_where_the_api_says_so(field):
    """A null that stands for the default of its field does not split the cache, and any value does."""
    assert key({**BODY, field: None}) == key({k: v for k, v in BODY.items() if k != field}) != key({**BODY, field: "x"})


@pytest.mark.parametrize(
    ("endpoint", "field"),
    [("completions", "max_tokens"), ("chat", "tool_choice"), ("responses", "truncation"), ("chat", "next_year")],
)
def test_null_counts_where_it_means_something(endpoint, field):
    """vLLM reads these nulls as something else than no field at all, and of unknown fields nobody knows."""
    assert key({"seed": 1, field: None}, endpoint=endpoint) != key({"seed": 1}, endpoint=endpoint)


@given(texts, st.booleans(), texts, st.booleans())
def test_no_two_scopes_share_a_tag(one, one_shared, other, other_shared):
    """Whatever they are called, a shared scope is never taken for a tenant, nor one tenant for another."""
    scopes = Scope(one, one_shared), Scope(other, other_shared)
    assert (scopes[0].tag == scopes[1].tag) == (scopes[0] == scopes[1])


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "content": "42", "tool_call_id": "b"},
        {"role": "tool", "content": "42", "tool_call_id": "a", "name": "f"},
        {"role": "user", "content": "42", "tool_call_id": "a"},
        {"role": "tool", "content": [{"type": "text", "text": "42"}], "tool_call_id": "a"},
        {"role": "tool", "content": "42", "tool_call_id": "a", "stream": True},
        {"role": "tool", "content": None, "tool_call_id": "a"},
        {"role": "tool", "tool_call_id": "a"},
    ],
)
def test_every_part_of_a_message_counts(message):
    """Two tool results that differ in their call's id or name are different, and the ignored names are only top-level."""
    assert key({"messages": [{"role": "tool", "content": "42", "tool_call_id": "a"}]}) != key({"messages": [message]})


def test_order_of_messages_counts():
    """The same messages in another order are another conversation."""
    a, b = {"role": "user", "content": "a"}, {"role": "user", "content": "b"}
    assert key({"messages": [a, b]}) != key({"messages": [b, a]})


@pytest.mark.parametrize(
    "changed",
    [
        {"scope": Scope("acme2")},
        {"scope": Scope("acme", shared=True)},
        {"endpoint": "completions"},
        {"tier": "small"},
        {"tier": ""},
        {"models": MODELS[:1]},
        {"models": MODELS[::-1]},
        {"models": ()},
        {"models": (("qwen2.5-7b-instruct", "2025-01"), MODELS[1])},
        {"models": (("qwen2.5-7b-instruct2024-09", ""), MODELS[1])},
        {"secret": b"t" * 32},
        {"secret": b"s" * 33},
    ],
)
def test_identity_is_in_the_key(changed):
    """Scope, endpoint, tier, models, versions and the secret each make another key."""
    assert key(BODY) != key(BODY, **changed)


@given(
    st.lists(st.tuples(texts, texts, texts, texts, st.none() | texts), min_size=2, max_size=2, unique=True),
)
def test_parts_cannot_run_into_each_other(parts):
    """Moving characters from one part of the identity to the next never gives the same key."""
    one, other = (
        key(BODY, scope=Scope(tenant), endpoint=endpoint, models=((name, version),), tier=tier)
        for tenant, endpoint, name, version, tier in parts
    )
    assert one != other


@pytest.mark.parametrize("depth", [10, 500, 900])
def test_deep_nesting_keeps_its_key(depth):
    """What the decoder lets through can be keyed, and the depth of the caller's stack does not show in the key."""
    body = nested(depth)
    shallow = key(body)
    assert shallow == call_at_depth(200, lambda: key(body))
    assert shallow != key(nested(depth - 1))


def test_the_largest_integer_that_parses_has_a_key():
    """An integer of thousands of digits neither raises nor loses its last digit."""
    digits = "1" * 4299
    assert key_of('{"seed":' + digits + "1}") != key_of('{"seed":' + digits + "2}")


ROWS = [[1] * 10 for _ in range(5_000)]
MANY_VALUES = {
    "a whole float in front": [1.0] + [1] * 50_000,
    "whole floats": [2.0] * 50_000,
    "a whole float in one of many lists": [*ROWS, [1.0]],
    "an integer of 65 bits": [1] * 50_000 + [1 << 64],
    "integers of many digits": [10**200] * 20_000,
    "an integer of thousands of digits": [*ROWS, 10**4299],
}


@pytest.mark.parametrize("values", MANY_VALUES.values(), ids=MANY_VALUES)
def test_a_body_of_very_many_values_is_keyed_without_spelling_each(values):
    """What takes a call for each value would hold up everybody: beyond a few thousand the fast writer's bytes have to do."""
    body, calls = {"x": values, "y": "z"}, 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        made = canonical(body, "chat")
    finally:
        sys.setprofile(None)
    assert calls < 30_000
    assert made != canonical({"x": [*values, 1], "y": "z"}, "chat")
    assert made != canonical({"x": values[::-1], "y": "z"}, "chat") or values == values[::-1]
    assert made == canonical({"x": list(values), "y": "z", "user": "u"}, "chat")


def test_a_long_secret_counts_in_full():
    """A secret longer than the hash takes is folded, not cut."""
    assert key(BODY, secret=b"s" * 80 + b"a") != key(BODY, secret=b"s" * 80 + b"b")


def test_no_secret_is_refused():
    """Without a secret the ids would be guessable, so there is no key without one."""
    with pytest.raises(ValueError, match="secret"):
        key(BODY, secret=b"")


def test_key_and_id_have_their_shape():
    """A key is 24 bytes; an id is `ce-` and 24 hex digits, depends on the secret, and does not contain the key."""
    made = key(BODY)
    ident = entry_id(SECRET, made)
    assert len(made) == KEY_BYTES == 24
    assert len(ident) == 27
    assert ident.startswith("ce-")
    assert int(ident[3:], 16) >= 0
    assert ident != entry_id(b"t" * 32, made)
    assert ident[3:] not in made.hex()


def test_the_body_is_not_changed():
    """Making a key leaves the parsed body as it was."""
    body = {"temperature": 1.0, "logit_bias": {"5": 1.0}, "user": "u", "stop": None}
    key(body)
    assert repr(body) == "{'temperature': 1.0, 'logit_bias': {'5': 1.0}, 'user': 'u', 'stop': None}"
