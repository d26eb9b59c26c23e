"""The closed list of edits to a request body, and that every other byte stays as it was."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_texts import FIELDS, VALUES, bodies, member

from gateway.errors import ApiError
from gateway.wire import PRIVILEGED, edit, parse

EDITS = st.fixed_dictionaries(
    {"model": st.sampled_from(["small", "Org/Model:7b", "mödel", 'q"uote'])},
    optional={"cache_salt": st.sampled_from(["salt", ""]), "priority": st.integers(-5, 20)},
)


def expected(raw, edits, *, stream=False):
    """The same edits, done to a dict."""
    fields = {name: value for name, value in json.loads(raw).items() if name not in PRIVILEGED}
    fields |= edits
    if stream and (fields.get("stream_options") is None or isinstance(fields["stream_options"], dict)):
        options = fields.get("stream_options") or {}
        if options.get("include_usage") is not True:
            options = {name: value for name, value in options.items() if name != "continuous_usage_stats"}
        fields["stream_options"] = {**options, "include_usage": True}
    return fields


@given(bodies(), EDITS)
def test_an_edit_is_the_edit_of_a_dict(body, edits):
    """Whatever the order, white space and escapes: what the backend parses is the dict with the edits done to it."""
    raw, _ = body
    assert json.loads(edit(parse(raw, "any"), **edits)) == expected(raw, edits)


@given(bodies(st.lists(FIELDS.filter(lambda name: name not in ("model", "stream_options")), unique=True)), st.booleans())
def test_a_streams_edit_is_the_edit_of_a_dict(body, asks):
    """On streams `include_usage` is set, beside the options that the client had, but for one that means nothing without it."""
    raw, members = body
    options = '"stream_options" : {"continuous_usage_stats": true, "include_usage":%s}' % ("true" if asks else "false")
    raw = b'{"stream":true,' + options.encode() + (b"," if members else b"") + raw.strip()[1:]
    ask = parse(raw, "any")
    assert ask.include_usage is asks
    assert json.loads(edit(ask, model="m")) == expected(raw, {"model": "m"}, stream=True)


@given(bodies(), EDITS)
def test_untouched_members_keep_their_bytes(body, edits):
    """Every member that the list does not name is found unchanged, key and value and the space between, in the old order."""
    raw, members = body
    edited = edit(parse(raw, "any"), **edits)
    position = 0
    for name, text in members:
        if name in PRIVILEGED or name == "model":
            continue
        found = edited.find(text.encode(), position)
        assert found >= 0
        position = found + len(text.encode())


@given(bodies(st.lists(FIELDS.filter(lambda name: name not in PRIVILEGED), unique=True)))
def test_a_body_that_needs_no_edit_is_the_same_object(body):
    """Where nothing is to be changed nothing is copied."""
    raw, _ = body
    fields = json.loads(raw)
    if isinstance(fields.get("model"), str) and fields["model"]:
        assert edit(parse(raw), model=fields["model"]) is raw


@pytest.mark.parametrize("space", ["", " ", "\n\t "])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("place", ["first", "middle", "last", "all"])
def test_privileged_fields_are_deleted_wherever_they_stand(place, alone, space):
    """First, last, between others, alone or all of them: they go, and the commas with them."""
    values = {
        "priority": "1",
        "cache_salt": '"s"',
        "request_id": '"r"',
        "kv_transfer_params": '{"a":[1]}',
        "ec_transfer_params": "{}",
    }
    others = [] if alone else ['"temperature":0', '"user":"u,}"']
    for name, value in values.items():
        mine = [f'"{n}":{v}' for n, v in values.items()] if place == "all" else [f'"{name}":{value}']
        at = {"first": 0, "middle": 1, "last": len(others), "all": 1}[place]
        members = others[:at] + mine + others[at:]
        raw = ("{" + space + f"{space},{space}".join(members) + space + "}").encode()
        edited = edit(parse(raw, "m"), model="m")
        assert json.loads(edited) == ({"model": "m"} if alone else {"temperature": 0, "user": "u,}", "model": "m"})


def test_escapes_in_keys_do_not_hide_them():
    """`mo\\u0064el` is `model`, and an escaped privileged name is deleted like a plain one."""
    raw = rb'{"mo\u0064el":"a", "pri\u006frity" : 3, "\u0070lain":1}'
    ask = parse(raw)
    assert ask.model == "a"
    assert edit(ask, model="b") == rb'{"mo\u0064el":"b", "\u0070lain":1}'
    assert edit(ask, model="a") == rb'{"mo\u0064el":"a", "\u0070lain":1}'


def test_an_own_way_of_writing_is_kept():
    """Pretty-printed bodies keep their lines; new members stand at the end."""
    raw = b'{\n  "model": "a",\n  "stream": true,\n  "priority": 1,\n  "messages": []\n}\n'
    edited = edit(parse(raw), model="b", cache_salt="s")
    assert edited == (
        b'{\n  "model": "b",\n  "stream": true,\n  "messages": [],"stream_options":{"include_usage":true},"cache_salt":"s"\n}\n'
    )


def test_the_gateways_own_values_replace_the_tenants():
    """Where the pool wants a priority or a salt, it stands where the client's stood."""
    raw = b'{"priority":-9,"model":"a","cache_salt":"mine"}'
    assert edit(parse(raw), model="a", cache_salt="ours", priority=10) == b'{"priority":10,"model":"a","cache_salt":"ours"}'


@pytest.mark.parametrize(
    ("options", "after"),
    [
        (None, {"include_usage": True}),
        ("null", {"include_usage": True}),
        ("{}", {"include_usage": True}),
        ('{"include_usage":false,"x":1}', {"include_usage": True, "x": 1}),
        ('{"include_usage":null}', {"include_usage": True}),
        ("[]", []),
        ('"all"', "all"),
        ("7", 7),
    ],
)
def test_stream_options_are_merged_and_odd_ones_left_to_the_backend(options, after):
    """An object keeps its other members, null counts as absent, and what is no object is the backend's to refuse."""
    raw = (
        b'{"model":"m","stream":true}'
        if options is None
        else b'{"model":"m","stream":true,"stream_options":%b}' % options.encode()
    )
    assert json.loads(edit(parse(raw), model="m"))["stream_options"] == after


@pytest.mark.parametrize("stream", ["false", "null"])
def test_stream_options_are_left_alone_off_streams(stream):
    """Usage is asked for on streams only, and a client that asks itself gets its bytes unedited."""
    raw = b'{"model":"m","stream":%b,"stream_options":{"include_usage":false}}' % stream.encode()
    assert edit(parse(raw), model="m") is raw
    raw = b'{"model":"m","stream":true,"stream_options":{ "include_usage":true }}'
    assert edit(parse(raw), model="m") is raw


@pytest.mark.parametrize("body", [b'{"model":"body"}', b'{"model":null}', b"{}", b'{"model":7}', b" { } "])
def test_the_paths_model_wins(body):
    """In the Azure form the path names the model, whatever the body says."""
    ask = parse(body, "path/model")
    assert ask.model == "path/model"
    assert json.loads(edit(ask, model="served")) == {"model": "served"}


@given(bodies(st.lists(FIELDS, unique=True, min_size=1)), st.data())
def test_a_name_twice_is_refused(body, data):
    """Whatever the two values are, wherever they stand, however the second key is spelled: two readers could disagree."""
    _, members = body
    name, _ = data.draw(st.sampled_from(members))
    other = data.draw(member(name, data.draw(VALUES)))
    texts = [each for _, each in members]
    texts.insert(data.draw(st.integers(0, len(texts))), other)
    for separator in (",", ", ", " , "):
        with pytest.raises(ApiError) as refused:
            parse(("{" + separator.join(texts) + "}").encode(), "m")
        assert (refused.value.status, refused.value.code) == (400, "duplicate_key")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"n":12,"n":1}',
        b'{"a":12,"a":1}',
        b'{ "a":1.5,"a":1}',
        b'{ "a":1e5,"a":1}',
        b'{"a":"x","a":"x"}',
        b'{"a":{"a":1},"a":{"a":1}}',
        b'{"b":1,"a":1,"a":1}',
        b'{"a":1,"b":"\\"a\\":1","a":1}',
        b'{ "a" :1,"a": 1}',
        b'{"a":1,"\\u0061":1}',
        b'{"":1,"":1}',
        b'{"a":[1,"a"],"a":[1,"a"]}',
        b'{"a":"\\",\\"a\\":1","a":1}',
        b'{"b":{"a":1},"a":{"b":{"a":1}},"b":{"a":1}}',
        b'{"model":"a","x":1,"model":"b"}',
        b'{"model":"m", "messages":1, "messages":1}',
        b'{"a":1,"a":12,"a":1}',
    ],
)
def test_constructions_that_try_to_lead_the_scanner_astray(raw):
    """Values that begin with one another, that repeat, that hold the text of members: still a duplicate key."""
    with pytest.raises(ApiError) as refused:
        parse(raw, "m")
    assert refused.value.code == "duplicate_key"


def test_repeated_names_below_the_top_level_are_the_backends():
    """They pass as they are. Who reads them keeps the last, as Python's reader does."""
    raw = b'{"model":"m","metadata":{"a":1,"a":2},"priority":1}'
    assert edit(parse(raw), model="m") == b'{"model":"m","metadata":{"a":1,"a":2}}'
