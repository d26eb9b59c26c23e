"""What is seen at a glance to be worth keeping is so."""

import json

from hypothesis import given
from hypothesis import strategies as st

from caches.worth import worth_keeping
from gateway.exchange import Work
from gateway.relay import NoAnswer, json_object, read_usage

TEXT = st.sampled_from(["said", "", " \n", "é", None, 5, [], ["x"], {}, {"id": "a"}])
MESSAGE = st.fixed_dictionaries(
    {"content": TEXT},
    optional={"tool_calls": TEXT, "function_call": TEXT, "refusal": TEXT, "reasoning": TEXT},
)
CHOICE = st.fixed_dictionaries(
    {"finish_reason": st.sampled_from(["stop", "stop", "length", "tool_calls", None, 3])},
    optional={"message": st.one_of(MESSAGE, MESSAGE, MESSAGE, TEXT), "text": TEXT},
)
ANSWER = st.fixed_dictionaries(
    {"choices": st.one_of(st.lists(CHOICE, max_size=2), st.lists(CHOICE, max_size=2), TEXT)},
    optional={
        "object": st.sampled_from(["chat.completion", "response", None, 1]),
        "type": st.sampled_from(["message", None, "other"]),
        "data": st.lists(st.just({"embedding": [1]}), max_size=1),
        "error": st.sampled_from([None, {}, {"message": "no"}, ""]),
        "usage": st.sampled_from([None, {"prompt_tokens": 3}, 7]),
    },
)


def looked_at(body):
    """What is told of a body by reading it once, with the usage."""
    work = Work()
    work.storable = True
    try:
        counted = read_usage(body, work)
    except NoAnswer:
        counted = "none"
    plain = Work()
    try:
        assert counted == read_usage(body, plain)
    except NoAnswer:
        assert counted == "none"
    assert (work.prompt_tokens, work.completion_tokens) == (plain.prompt_tokens, plain.completion_tokens)
    assert plain.sound is None
    return work.sound is body


@given(ANSWER)
def test_what_a_glance_keeps_is_worth_keeping(answer):
    """Whatever it is made of; and the usage is the same as without the glance."""
    if looked_at(json.dumps(answer).encode()):
        assert worth_keeping(answer)


def chat(**more):
    message = {"role": "assistant", "content": "Hello."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "choices": [choice], **more}


def test_a_plain_answer_is_seen_at_a_glance():
    """Nearly all answers are such."""
    assert looked_at(json.dumps(chat(usage={"prompt_tokens": 1, "completion_tokens": 2})).encode())


def test_what_no_reader_can_read_is_not_seen():
    """A name of the backend's own whose text is no UTF-8 is passed over, but the answer is none that could be replayed."""
    body = json.dumps(chat(trace="here")).encode()
    assert looked_at(body)
    broken = body.replace(b"here", b"\xff")
    assert not looked_at(broken)
    assert json_object(broken) is None
