"""Small talk: easy for what it is, and nothing beside it, before it or after it is easier for its sake."""

import parity_pairs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.learned.assumed import HARD_PAIRS
from routing.learned.classifier import Learned
from routing.learned.shipped import shipped
from routing.rules import Rules

LEARNED, RULES = Learned(shipped()), Rules()
BOTH = pytest.mark.parametrize("classifier", [LEARNED, RULES], ids=["learned", "rules"])
GREETINGS = [
    "Hello!", "Hi", "Hello", "hi there", "Good morning", "How are you?", "Hi :)", "hello 👋", "Bye", "你好", "你好！", "早上好",
    "在吗", "嗨", "早",
]  # fmt: skip
THANKS = ["Thanks!", "thank you so much", "Thanks for your help!", "thx", "谢谢", "谢谢你的帮助", "多谢！", "非常感谢", "謝謝"]
HARD = [text for pair in (*HARD_PAIRS, *parity_pairs.HARD) for text in pair]
PROOF = "Prove that there are infinitely many prime numbers."


def judged(classifier, *texts):
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
    return classifier.classify({"messages": messages}, "chat")


@BOTH
@pytest.mark.parametrize("text", [*GREETINGS, *THANKS])
def test_a_greeting_or_thanks_is_easy_and_says_why(classifier, text):
    """In both languages: the lowest of scores, for being small talk and nothing else."""
    told = judged(classifier, text)
    assert told.idle
    assert told.score < 0.05
    assert [name for name, _ in told.terms] == ["pleasantry"]
    if classifier is LEARNED:
        assert told.small == told.large > 0.9


@BOTH
@pytest.mark.parametrize(
    "text", ["", "hola", "asdf qwer", "ok", "yes", "好的", "Нужно найти", "hi, x", "good", "how", "你", "?!", "👋"]
)
def test_what_is_not_known_is_no_small_talk(classifier, text):
    """A word that nobody knows, and one that may agree to anything."""
    assert not judged(classifier, text).idle


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([LEARNED, RULES]), st.sampled_from([*GREETINGS, *THANKS]), st.sampled_from(HARD), st.booleans(), st.booleans()
)
def test_hard_work_is_no_easier_for_a_greeting_beside_it(classifier, small, hard, first, apart):
    """In one message or in two, before it or behind it."""
    texts = [small, hard] if first else [hard, small]
    pieces = texts if apart else ["\n".join(texts)]
    told = classifier.classify({"messages": [{"role": "user", "content": text} for text in pieces]}, "chat")
    assert not told.idle
    assert told.score is None or told.score > 0.4


@BOTH
@pytest.mark.parametrize("text", ["Thanks!", "谢谢"])
def test_thanks_between_hard_work_and_its_continuation_make_that_no_easier(classifier, text):
    """They are stepped over, and are no ask that a follow-up could follow up."""
    through = judged(classifier, PROOF, "Part one.", text, "You are welcome.", "continue")
    assert through.score == pytest.approx(judged(classifier, PROOF, "Part one.", "continue").score, abs=0.01)
    assert not judged(classifier, "Hello!", "Hello, what can I do?", "xyzzy").idle


@BOTH
@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
        {"type": "input_audio"},
        {"type": ["text"]},
        5,
        None,
    ],
    ids=["image", "audio", "no type", "number", "null"],
)
@pytest.mark.parametrize("apart", [False, True], ids=["one message", "two"])
def test_a_greeting_with_a_picture_is_no_small_talk(classifier, part, apart):
    """What is asked may be in what nobody read."""
    words = {"type": "text", "text": "hi"}
    contents = [[part], [words]] if apart else [[part, words]]
    messages = [{"role": "user", "content": content} for content in contents]
    assert not classifier.classify({"messages": messages}, "chat").idle
    assert classifier.classify({"messages": [{"role": "user", "content": [words, words]}]}, "chat").idle
