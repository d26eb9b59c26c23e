"""The short way through runs of plain chunks, held against the long one."""

import json

from hypothesis import given
from hypothesis import strategies as st

from caches.assemble import assemble, put_together

TEXT = st.sampled_from(["a", "", "é", '"q"', "\\", "\n", "[DONE]", "}", '","x":"', '{"delta":{"content":"z"}}', " ", "\u2028"])
DELTA = st.one_of(
    st.builds(lambda text: {"content": text}, TEXT),
    st.sampled_from(
        [{"role": "assistant", "content": ""}, {"content": None}, {"reasoning": "r"}, {"content": "x", "reasoning": "y"}]
    ),
    st.just({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{"}}]}),
)
PIECE = st.fixed_dictionaries(
    {
        "index": st.sampled_from([0, 0, 0, 1]),
        "delta": DELTA,
        "logprobs": st.sampled_from([None, None, {"content": [{"token": "a"}]}]),
        "finish_reason": st.sampled_from([None, None, None, "stop"]),
    },
    optional={"token_ids": st.sampled_from([None, [1]]), "stop_reason": st.sampled_from([None, 5])},
)
CHUNK = st.fixed_dictionaries(
    {"id": st.sampled_from(["i", "j"]), "model": st.just("m"), "choices": st.lists(PIECE, min_size=1, max_size=2)},
    optional={"usage": st.sampled_from([None, {"prompt_tokens": 1}]), "x": st.sampled_from([None, 1, 2])},
)


@st.composite
def streams(draw):
    """Chunks of which many are followed by others that differ in their text alone."""
    chunks = []
    for chunk in draw(st.lists(CHUNK, min_size=1, max_size=5)):
        chunks.append(chunk)
        for text in draw(st.lists(TEXT, max_size=3)):
            again = json.loads(json.dumps(chunk))
            delta = again["choices"][0]["delta"]
            if isinstance(delta.get("content"), str):
                delta["content"] = text
            chunks.append(again)
    return chunks


def sent(chunks, *, alike):
    """The events; `alike` False: no two neighbours have the same spelling, which bars the short way."""
    spellings = [(",", ":"), (", ", ": ")]
    events = [
        b"data: " + json.dumps(chunk, separators=spellings[0 if alike else number % 2]).encode() + b"\n\n"
        for number, chunk in enumerate(chunks)
    ]
    return [*events, b"data: [DONE]\n\n"]


@given(streams())
def test_the_short_way_says_what_the_long_way_says(chunks):
    """A stream is put together to the same answer whether or not its chunks are spelled alike."""
    assert assemble("chat", sent(chunks, alike=True)) == assemble("chat", sent(chunks, alike=False))


@given(streams())
def test_what_it_was_made_from_is_what_it_says(chunks):
    """Whoever is given both need not decode the answer."""
    told = put_together("chat", sent(chunks, alike=True))
    assert told is None or json.loads(told[0]) == told[1]


def test_a_long_run_ends_at_the_first_text_that_is_none():
    """Of many chunks alike, those before a broken one count, and with a broken one there is no answer."""
    chunks = [{"id": "i", "choices": [{"index": 0, "delta": {"content": f"w{n} "}, "finish_reason": None}]} for n in range(40)]
    last = {"id": "i", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    events = sent([*chunks, last], alike=True)
    whole = json.loads(assemble("chat", events))
    assert whole["choices"][0]["message"]["content"] == "".join(f"w{n} " for n in range(40))
    for place in (2, 20, 39):
        for broken in (b'a"b', b"a\\q", b"a\nb", b"\xff"):
            spoiled = list(events)
            spoiled[place] = spoiled[place].replace(f"w{place} ".encode(), broken)
            assert assemble("chat", spoiled) is None
