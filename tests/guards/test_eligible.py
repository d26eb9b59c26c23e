"""Which questions are not looked up by meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.semantic.eligible import MAX_CHARS, refusal


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" ?! ", "empty"),
        ("x" * (MAX_CHARS + 1), "long"),
        ("What's the weather today?", "time"),
        ("What is the latest version of Java?", "time"),
        ("Who won the match last week?", "time"),
        ("Who is the current president?", "time"),
        ("What’s today’s date?", "time"),
        ("现在几点了", "time"),
        ("最新的手机是什么", "time"),
        ("What is the weather in Oslo?", "time"),
        ("Is it raining in Oslo?", "time"),
        ("What is the price of bitcoin?", "time"),
        ("What day is it?", "time"),
        ("Is the post office open?", "time"),
        ("Generate a strong password", "varied"),
        ("Please create a secret token with 32 characters", "varied"),
        ("Can you suggest a username?", "varied"),
        ("Flip a coin", "varied"),
        ("Roll two dice", "varied"),
        ("What is the word of the day?", "varied"),
        ("Write me a poem about cats", "varied"),
        ("Tell me a joke", "varied"),
        ("Give me a random number", "varied"),
        ("Give me another one", "varied"),
        ("讲个笑话", "varied"),
        ("Summarize the above", "context"),
        ("why?", "context"),
        ("can you explain this?", "context"),
    ],
)
def test_refused(text, reason):
    """A question whose answer will not do for the next who asks it says why."""
    assert refusal(text) == reason


@pytest.mark.parametrize(
    "text",
    [
        "What is the capital of France?",
        "Who wrote this poem by Keats?",
        "How do I reset my password?",
        "How do I create a strong password?",
        "What makes weather?",
        "How do I shuffle a list in Python?",
        "What is the difference between a key and a password?",
        "How do I transfer money to my current account?",
        "法国的首都是哪里？",
        "Why is the sky blue?",
        "2+2",
    ],
)
def test_let_through(text):
    """A plain question is looked up."""
    assert refusal(text) is None


@pytest.mark.parametrize(
    "text", ["How do I reset my password?", "Call +44 20 7946 0958", "Is a@example.org taken?", "我的订单在哪里", "Do we ship?"]
)
def test_personal_questions_are_refused_only_where_the_policy_says_so(text):
    """Who asks, an address and a telephone number are personal markers."""
    assert refusal(text) is None
    assert refusal(text, personal=True) == "personal"


@pytest.mark.parametrize(
    "text",
    [
        "How do I reset my password?",
        "I am pregnant, can I eat sushi?",
        "Why did I lose weight? I have diabetes",
        "Why does she call me names?",
        "Is account 12345678 blocked?",
        "Who lives at 221 Baker Street?",
        "I live in Leeds, when are bins emptied?",
    ],
)
def test_what_is_said_of_oneself_is_personal(text):
    """What somebody has, is, did, and where, is about that person."""
    assert refusal(text, personal=True) == "personal"


@pytest.mark.parametrize(
    "text",
    [
        "How long should I boil an egg?",
        "How can I learn to swim?",
        "Can you show me how to tie a tie?",
        "Do I have to tip in Japan?",
        "What do I have to bring to an interview?",
        "Should I stretch before running?",
        "What is the name of the longest river in France?",
        "How do I open a bank account?",
    ],
)
def test_anybody_who_asks_how_to_is_no_person(text):
    """`I` and `me` in a question about a method are whoever reads the answer."""
    assert refusal(text, personal=True) is None


@given(st.text(max_size=200), st.booleans())
def test_any_text_is_judged(text, personal):
    """No text makes the check fail."""
    assert refusal(text, personal=personal) in {None, "empty", "long", "time", "varied", "context", "language", "personal"}
