"""What a provider's stream says before it is believed to be an answer."""

import pytest

from backends.litellm.answer import Rest
from backends.litellm.events import Events

ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
TEXT = {"choices": [{"index": 0, "delta": {"content": "x"}}]}
STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}}


async def stream(*chunks):
    for chunk in chunks:
        yield {**chunk}


@pytest.mark.parametrize(
    ("chunks", "answers"),
    [
        ([ROLE, TEXT, STOP], True),
        ([ROLE, STOP, USAGE], True),
        ([STOP, {"choices": []}], False),
        ([ROLE, STOP], False),
        ([], False),
    ],
)
async def test_a_stream_that_says_nothing_and_counts_nothing_is_no_answer(chunks, answers):
    """The library makes an orderly end of any garbage: without a word and without a count nothing is begun."""
    opening = await Rest(stream(*chunks), Events()).opening()
    assert bool(opening) is answers


async def test_nothing_is_lost_before_the_first_word():
    """All chunks up to the first word come with it, the others after it."""
    rest = Rest(stream(ROLE, TEXT, STOP), Events())
    opening = await rest.opening()
    assert (opening.count(b"data:"), opening.endswith(b"\n\n")) == (2, True)
    assert b'"stop"' in await rest.next()
