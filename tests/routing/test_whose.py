import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.whose import names_of

KEY = b"k" * 32
TURNS = ["Refactor the parser", "now add tests", "commit it", "继续", "and the docs?", "thanks"]


def user(text):
    return {"role": "user", "content": text}


def said(text):
    return {"role": "assistant", "content": text}


def loop(number):
    """A call of a tool and its result."""
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{number}"}]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": "exit 0"},
    ]


def names(messages, *, tenant="acme", route="auto", endpoint="chat", session=None, **fields):
    field = "input" if endpoint == "responses" else "messages"
    return names_of(KEY, tenant, route, {field: messages, **fields}, endpoint, session)


def conversation(turns, reply=said):
    """Its requests in order."""
    messages, requests = [{"role": "system", "content": "Be brief."}], []
    for text in turns:
        messages = [*messages, user(text)]
        requests.append(messages)
        messages = [*messages, reply("done")]
    return requests


def test_each_turn_finds_what_the_last_one_left():
    """However long it gets; the first finds nothing."""
    found = [names(messages) for messages in conversation(TURNS)]
    assert found[0].before == b""
    assert [one.before for one in found[1:]] == [one.own for one in found[:-1]]
    assert len({one.own for one in found}) == len(TURNS)
    assert [one.newest for one in found] == TURNS


def test_a_tool_loop_has_the_name_of_its_ask():
    """At every step, and only from the second request on it goes on."""
    begun = conversation(TURNS[:2])[-1]
    first, inside = names(begun), [names([*begun, *loop(1)]), names([*begun, *loop(1), *loop(2)])]
    assert not first.goes_on
    for one in inside:
        assert one.goes_on
        assert (one.own, one.before, one.ask) == (first.own, first.before, first.ask)


def test_results_that_ride_in_a_persons_message_go_on():
    """Anthropic's form, and the items of the responses endpoint."""
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "exit 0"}]}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "sh", "input": {}}]}
    assert names([user("Fix it"), call, result], endpoint="messages").goes_on
    items = [user("Fix it"), {"type": "function_call", "call_id": "x"}, {"type": "function_call_output", "call_id": "x"}]
    assert names(items, endpoint="responses").goes_on
    assert not names([user("Fix it")], endpoint="responses").goes_on


def test_what_programs_change_between_turns_changes_no_name():
    """Reminders that come and go, cache marks, reasoning that is left out, a system prompt with the time in it."""
    plain = names([{"role": "system", "content": "It is 10:00"}, user("Fix it"), said("<think>hm</think>ok"), user("go on")])
    marked = {"type": "text", "text": "Fix it", "cache_control": {"type": "ephemeral"}}
    reminder = {"type": "text", "text": "<system-reminder>todo is empty</system-reminder>"}
    other = names(
        [{"role": "system", "content": "It is 10:05"}, user([reminder, marked]), said("ok"), user("go on"), user([reminder])]
    )
    assert (plain.own, plain.before) == (other.own, other.before)


def test_one_tenants_conversation_is_never_anothers():
    """Nor one route's, nor that of somebody with another key, whether it is named or not."""
    for session in (None, "s-1"):
        every = [
            names([user("hello")], session=session),
            names([user("hello")], session=session, tenant="globex"),
            names([user("hello")], session=session, route="cheap"),
            names_of(b"other" * 5, "acme", "auto", {"messages": [user("hello")]}, "chat", session),
        ]
        assert len({one.own for one in every}) == 4


def test_parts_of_a_name_do_not_run_into_each_other():
    """A tenant that ends like a route begins is another tenant."""
    assert names([user("x")], tenant="ab", route="c").own != names([user("x")], tenant="a", route="bc").own
    assert names([user("x")], tenant="a", session="b").own != names([user("b")], tenant="a").own


def test_users_of_one_tenant_are_told_apart_where_clients_say_who_they_are():
    """Two that begin with the same word."""
    alone = {names([user("hello")], user=name).own for name in ("ann", "bob")}
    assert len(alone) == 2
    assert len({names([user("hello")], prompt_cache_key=name).own for name in ("1", "2")}) == 2
    assert names([user("hello")], user={"no": "text"}).own == names([user("hello")]).own


def test_where_nobody_talks_there_is_no_conversation():
    """A session's embeddings are none of its turns."""
    assert names_of(KEY, "acme", "", {"input": "x", "messages": [user("x")]}, "embeddings", "s-1") is None


@given(st.text(max_size=3000), st.text(max_size=300))
@settings(max_examples=60)
def test_a_session_may_be_anything(session, text):
    """Of any length and bytes: the name is 16 bytes, the same on each turn, and tells the asks in it apart."""
    session = session or "\0"
    first, second = names([user(text)], session=session), names([user(text), said("ok"), user("more")], session=session)
    assert first.own == first.before == second.own
    assert len(first.own) == 16
    assert first.ask != second.ask


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "user"]), inner)
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from(["chat", "completions", "responses", "messages", "embeddings"]))
@settings(max_examples=150)
def test_any_body_has_a_name_or_none(value, endpoint):
    """Nothing that is JSON raises."""
    for body in ({"messages": value, "input": value, "prompt": value, "user": value}, {"messages": [value, user("x"), value]}):
        found = names_of(KEY, "acme", "auto", body, endpoint)
        assert found is None or len(found.own) == 16


def test_a_very_long_loop_still_knows_its_ask():
    """As far back as is looked; beyond that a request has no name of its own."""
    inside = [user("Fix it"), *(message for number in range(900) for message in loop(number))]
    assert names(inside).own == names([user("Fix it")]).own
    beyond = [user("Fix it"), *(message for number in range(1100) for message in loop(number))]
    assert names(beyond) is None
    assert names(beyond, session="s").own == names([user("Fix it")], session="s").own


@pytest.mark.parametrize("size", [1, 40])
def test_asks_in_several_messages_are_one(size):
    """A program may send its context and the words in messages of their own."""
    begun = [*(user(f"part {number}") for number in range(size))]
    assert names([*begun, said("ok"), user("more")]).before == names(begun).own
    assert json.dumps(names(begun).newest)
