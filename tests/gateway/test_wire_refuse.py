"""Bodies that are refused, each with a 400 and a code, here and through the whole gateway."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ApiError
from gateway.wire import edit, parse

DEEP = 100_000
BAD = {
    "nothing": b"",
    "white space": b" \n",
    "not JSON": b"hello",
    "a list": b"[]",
    "a string": b'"model"',
    "a number": b"1",
    "null": b"null",
    "an open object": b'{"model":"m"',
    "an open string": b'{"model":"m',
    "a trailing comma": b'{"model":"m",}',
    "no quotes": b'{"model":"m",x}',
    "single quotes": b"{'model':'m'}",
    "something behind": b'{"model":"m"}{"model":"m"}',
    "a NUL behind": b'{"model":"m"}\x00',
    "a byte order mark": b'\xef\xbb\xbf{"model":"m"}',
    "UTF-16": '{"model":"m"}'.encode("utf-16"),
    "bytes that are no UTF-8": b'{"model":"m","x":"\xff"}',
    "a key that is no UTF-8": b'{"model":"m","\xff":1}',
    "an overlong NUL": b'{"model":"m","x":"\xc0\x80"}',
    "an encoded surrogate": b'{"model":"m","x":"\xed\xa0\x80"}',
    "a lone high surrogate": rb'{"model":"m","x":"\ud800"}',
    "a lone low surrogate": rb'{"model":"m","x":"\udc00 x"}',
    "a surrogate in a key": rb'{"model":"m","\ud800x":1}',
    "a control character": b'{"model":"m","x":"\n"}',
    "NaN": b'{"model":"m","temperature":NaN}',
    "Infinity": b'{"model":"m","temperature":-Infinity}',
    "a number out of range": b'{"model":"m","temperature":1e999}',
    "a number of 5000 digits": b'{"model":"m","n":' + b"9" * 5000 + b"}",
    "a leading zero": b'{"model":"m","n":01}',
    "lists of lists": b'{"model":"m","x":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "lists that do not end": b'{"model":"m","x":' + b"[" * DEEP,
    "objects of objects": b'{"model":"m","x":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "depth 129": b'{"model":"m","x":' + b"[" * 128 + b"]" * 128 + b"}",
    "depth 129, and large": b'{"model":"m","y":"' + b"y" * 20_000 + b'","x":' + b"[" * 128 + b"]" * 128 + b"}",
    "three million lists": b'{"model":"m","x":[' + b"[]," * 3_000_000 + b"1]}",
    "half a million lists": b'{"model":"m","x":[' + b"[]," * 500_000 + b"1]}",
    "two thousand keys": b'{"model":"m",' + b",".join(b'"%d":1' % i for i in range(2000)) + b"}",
    "the same key twice": b'{"model":"m","n":1,"n":2}',
    "no model": b"{}",
    "a model that is null": b'{"model":null}',
    "a model that is a number": b'{"model":1}',
    "an empty model": b'{"model":""}',
    "a very long model": b'{"model":"%b"}' % (b"m" * 513),
    "a stream that is a number": b'{"model":"m","stream":1}',
    "a stream that is a string": b'{"model":"m","stream":"true"}',
    "n that is a string": b'{"model":"m","n":"1"}',
    "n that is true": b'{"model":"m","n":true}',
    "n that is a half": b'{"model":"m","n":1.5}',
    "n that is a list": b'{"model":"m","n":[1]}',
    "n over the bound": b'{"model":"m","n":129}',
    "n far over the bound": b'{"model":"m","n":1e300}',
    "best_of over the bound": b'{"model":"m","best_of":100000}',
}


@pytest.mark.parametrize("raw", BAD.values(), ids=BAD)
def test_a_bad_body_is_a_400_with_a_code(raw):
    """Whatever is wrong with it, the client is told so, and nothing else is ever raised."""
    with pytest.raises(ApiError) as refused:
        parse(raw)
    error = json.loads(refused.value.body())["error"]
    assert refused.value.status == 400
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] in ("invalid_json", "duplicate_key", "missing_model", "invalid_type", "too_many_choices")


async def test_a_bad_body_is_a_400_through_the_whole_gateway(stack):
    """No backend sees any of them, the connection goes on, and every answer has the usual shape and a request id."""
    for name, raw in BAD.items():
        answer = await stack.client.post(
            "/v1/chat/completions", content=raw, headers={"authorization": "Bearer tg-test-key-of-acme"}
        )
        assert answer.status_code == 400, name
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-request-id"]
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert not [call for call in stack.small.calls if call.method == "POST"]
    await stack.at_rest()


GOOD = {
    "depth 128": b'{"model":"m","x":' + b"[" * 127 + b"]" * 127 + b"}",
    "brackets in a string": b'{"model":"m","x":"' + b"[" * DEEP + b'"}',
    "escaped quotes and brackets": b'{"model":"m","x":"' + rb"\"[{\\" * 1000 + b'"}',
    "a long flat list": b'{"model":"m","x":[' + b"{}," * 10_000 + b"1]}",
    "a number of 300 digits": b'{"model":"m","x":' + b"9" * 300 + b"}",
    "an escaped NUL": rb'{"model":"m","x":"\u0000"}',
    "a surrogate pair": rb'{"model":"m","x":"\ud83d\ude00"}',
    "n that is a whole float": b'{"model":"m","n":2.0}',
    "n that is null": b'{"model":"m","n":null}',
    "n that is negative": b'{"model":"m","n":-1}',
    "a key of a megabyte": b'{ "model":"m","' + b"k" * 1_000_000 + b'":1}',
    "a key of escapes": b'{ "model":"m","' + rb"\u006b" * 100_000 + b'":1}',
}


def filled(piece, size, end=b"1"):
    """A body of about that size with a list of nothing but that piece."""
    return b'{"model":"m","x":[' + (piece + b",") * (size // (len(piece) + 1)) + end + b"]}"


SIZES = [1_500_000, 2 * 1024 * 1024 - 300, 2 * 1024 * 1024 + 300, 8 * 1024 * 1024]
PROSE = b"It was said, and by more than one, that the model [as it is] would do. "
FULL_OF_PARTS = {
    "empty lists": b"[]",
    "empty objects": b"{}",
    "lists of one": b"[1]",
    "lists, two deep": b"[[]]",
    "lists, sixty deep": b"[" * 60 + b"]" * 60,
    "objects, a hundred deep": b'{"":' * 100 + b"1" + b"}" * 100,
    "objects of one": b'{"a":1}',
    "white space between": b"[ ] ",
    "texts and lists": b'[[],"a text of some length, \\"[[[[[[\\" it says"]',
    "short strings": b'"a"',
    "objects with a text": b'{"a":"text"}',
}
FEW_PARTS = {
    "a text": PROSE,
    "a text full of quotes": rb"\"quoted\" ",
    "a text of source code": b"def f(x): return {x: [x[0], x[1]]}\\n",
    "a text of JSON": rb"{\"a\":[1,2,{\"b\":[]}]},",
    "a text of JSON in JSON": rb"{\\\"a\\\":[1,2,{\\\"b\\\":[]}]},",
    "a text of brackets": b"[{" * 100,
    "a text of backslashes": rb"\\",
    "a text of numbers": b"1,2,3,4.5e120,",
    "a picture": b"iVBORw0KGgoAAAANSUhEUgAA" * 100,
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("text", FEW_PARTS.values(), ids=FEW_PARTS)
def test_a_long_text_passes_whatever_it_holds(text, size):
    """Quotes, brackets and commas that stand in a text are no parts: they are decoded with it."""
    raw = b'{"model":"m","messages":[{"role":"user","content":"' + text * (size // len(text)) + b'"}]}'
    assert edit(parse(raw), model="m") is raw


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("piece", FULL_OF_PARTS.values(), ids=FULL_OF_PARTS)
def test_a_body_of_very_many_parts_is_refused_whatever_its_length(piece, size):
    """While it is decoded nobody else is served, so lists, objects, keys and strings are bounded, not only the bytes."""
    with pytest.raises(ApiError, match=r"more than .* (lists and objects|keys and strings)") as refused:
        parse(filled(piece, size))
    assert (refused.value.status, refused.value.code) == (400, "invalid_json")


@pytest.mark.parametrize("where", [0, 0.3, 0.97])
@pytest.mark.parametrize("piece", [b"[]", b"[" * 100 + b"]" * 100, b'"a"'])
def test_parts_in_one_place_of_a_large_body_are_found(piece, where):
    """They take a tenth of it, behind and before a picture."""
    picture = b"A" * (12 * 1024 * 1024)
    cut = int(len(picture) * where)
    parts = (piece + b",") * (1_200_000 // (len(piece) + 1))
    raw = b'{"model":"m","a":"%b","x":[%b1],"b":"%b"}' % (picture[:cut], parts, picture[cut:])
    with pytest.raises(ApiError, match="more than"):
        parse(raw)


IDS = b"17,4711,128000"
WITHIN_BOUNDS = {
    "many messages": filled(b'{"role":"user","content":"%b"}' % (b"w" * 100), 45_000 * 132),
    "a bias for each word of a vocabulary": b'{"model":"m","logit_bias":{'
    + b",".join(b'"%d":-100' % number for number in range(128_256))
    + b"}}",
    "short inputs": filled(b'"a"', 150_000 * 4),
    "documents of a reranker": filled(b'"a document of some length, as they are"', 50_000 * 40),
    "tools": filled(b'{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}', 700_000),
    "token ids": filled(IDS, 5_000_000),
    "rows of token ids": filled(b"[" + IDS * 20 + b"]", 5_000_000),
}


@pytest.mark.parametrize("raw", WITHIN_BOUNDS.values(), ids=WITHIN_BOUNDS)
def test_what_clients_send_is_within_the_bounds(raw):
    """Conversations, documents, tools and prompts of token ids, each far beyond what a model reads at once."""
    assert edit(parse(raw), model="m") is raw


def test_more_numbers_than_any_context_holds_are_refused():
    """A list of millions of numbers is no prompt."""
    with pytest.raises(ApiError, match="more than 1000000 values"):
        parse(filled(b"1", 3_000_000))


LONG = {
    "an integer of 21 digits": b"9" * 21,
    "an integer of 4,000 digits": b"9" * 4000,
    "a fraction of 700 digits": b"0." + b"7" * 700,
    "a long exponent": b"1e" + b"0" * 40 + b"1",
    "a huge exponent": b"1e-300",
}


@pytest.mark.parametrize("number", LONG.values(), ids=LONG)
@pytest.mark.parametrize("size", [300_000, 6_000_000])
def test_very_many_numbers_that_take_long_are_refused(number, size):
    """One of 4,000 digits takes as long to decode as thousands of short ones."""
    with pytest.raises(ApiError, match="more than 2000 numbers that are very long"):
        parse(filled(number, size))


@pytest.mark.parametrize(
    "number", [b"18446744073709551615", b"0.00012345678901234567", b"1.2345678901234567e-05", b"0." + b"7" * 24]
)
def test_numbers_as_programs_write_them_are_no_long_ones(number):
    """64 bits, and all digits of a float: half a million of them pass."""
    assert parse(filled(number, 500_000 * (len(number) + 1))).model == "m"


@pytest.mark.parametrize("raw", GOOD.values(), ids=GOOD)
def test_an_odd_body_passes(raw):
    """What is valid and within the bounds goes on unchanged: it is the backend's to judge."""
    assert edit(parse(raw), model="m") is raw


@pytest.mark.parametrize(
    ("value", "result"),
    [("1", 1), ("0", 0), ("-3", 0), ("2.0", 2), ("null", None), ("1e3", 1000), ("9" * 30, int("9" * 30))],
)
def test_what_counts_as_an_integer(value, result):
    """Whole numbers in any spelling, never below zero; null is absent."""
    ask = parse(b'{"model":"m","max_tokens":%b}' % value.encode())
    found = ask.integer("max_tokens")
    assert found == result
    assert found is None or type(found) is int
    assert ask.integer("absent") is None


@pytest.mark.parametrize("value", ['"1"', "1.5", "true", "false", "[]", "{}", "1e-3"])
def test_what_is_no_integer_is_refused_by_name(value):
    """Strings, halves, booleans, lists and objects are a 400 that names the field."""
    with pytest.raises(ApiError) as refused:
        parse(b'{"model":"m","max_tokens":%b}' % value.encode()).integer("max_tokens")
    assert (refused.value.status, refused.value.code, refused.value.param) == (400, "invalid_type", "max_tokens")


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\ue01ntf.- ', max_size=40).map(str.encode))
def test_any_bytes_are_parsed_or_refused(raw):
    """Random bytes and random JSON-like text never raise anything but a 400."""
    with suppress(ApiError):
        assert json.loads(edit(parse(raw, "m"), model="other"))["model"] == "other"


def test_half_a_surrogate_is_named():
    """A client that cuts an emoji in two learns that, and not only that the input was too short."""
    with pytest.raises(ApiError, match="half of a surrogate pair"):
        parse(b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}')
