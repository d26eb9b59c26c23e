import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.features import _words, read
from routing.rules import BIAS, WEIGHTS, Rules, judge
from routing.shape import is_chore, numbers

RULES = Rules()

PLAN = """Here is my plan:

1. Refactor the session store so that tokens are kept in Redis, and migrate the old ones without downtime.
2. Design a locking protocol for concurrent refreshes; the race condition in the refresh path is the root cause.
3. Add an end-to-end test that proves that no token is lost.

Shall I go ahead?"""


def score(*texts, endpoint="chat"):
    """The score of a conversation whose messages alternate between user and assistant."""
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
    return RULES.classify({"messages": messages}, endpoint).score


def terms(text):
    return dict(RULES.classify({"messages": [{"role": "user", "content": text}]}, "chat").terms)


def side(*texts):
    value = score(*texts)
    return "unsure" if value is None else "hard" if value >= 0.5 else "easy"


EASY = [
    "hi",
    "Hello there!",
    "good morning, how are you?",
    "thanks a lot!",
    "What is the capital of France?",
    "Who wrote Hamlet?",
    "when did the berlin wall fall",
    "How tall is Mount Everest?",
    "What does HTTP stand for?",
    "17 * 23 = ?",
    "what is 12+30?",
    "Translate to German: I would like a cup of coffee.",
    "Please summarize the following paragraph in one sentence: The cat sat on the mat all day and slept.",
    "Fix the grammar: he go to school yesterday",
    "Classify the sentiment of this review as positive or negative: I loved it.",
    "Extract the email addresses: a@b.c wrote to d@e.f",
    "Write a haiku about rain",
    "Tell me a joke about cats",
    "Write a short birthday message, a poem for my aunt",
    "Answer in one word: is the sky blue?",
]

HARD = [
    "Prove that there are infinitely many primes congruent to 3 modulo 4.",
    "Derive the Euler-Lagrange equation from the principle of least action.",
    "Show that every compact metric space is separable.",
    "Design a multi-region architecture for a payments system and discuss the trade-offs.",
    "Compare optimistic and pessimistic concurrency control and evaluate when each is the bottleneck.",
    "Debug this: our service deadlocks under load. Think carefully, step by step.",
    "Refactor this module to remove the circular import and optimise the hot path.",
    "Rewrite the parser in Rust and convert the query builder to async.",
    "Implement a lock-free queue in Rust with a proof of linearizability.",
    "Find $\\int_0^1 x^2 e^{-x}\\,dx$ and simplify.",
    "Let $f(x) = x^3 - 3x + 1$. How many real roots does f have?",
]

# The kinds that a keyword scorer has been seen to send to the cheapest model. They must not be called easy.
NEVER_EASY = [
    "Two quantum states have lifetimes of 10^-9 s and 10^-8 s. Which energy difference would let us clearly resolve the levels?",
    "trans-cinnamaldehyde was treated with methylmagnesium bromide, forming product 1. How many carbon atoms are in product 1?",
    "Is every finite integral domain a field?",
    "Let G be a group of order 15. Is it cyclic?",
    "A landlord leased an apartment to a tenant, who assigned the lease. Who is liable for the unpaid rent?",
    "May a seller disclaim the implied warranty of merchantability orally?",
    "What is the standard of review for summary judgment?",
    "Does the statute of frauds bar this oral contract?",
    "A 45-year-old man presents with chest pain radiating to the left arm. What is the next step?",
    "Can warfarin and clarithromycin be given together to an elderly patient?",
    "What is the differential diagnosis of acute dyspnea?",
    "How should a derivative be accounted for under IFRS 9?",
    "What is the duration of this bond portfolio if yields rise?",
    "Why is P versus NP hard to settle?",
    "If all bloops are razzies and all razzies are lazzies, are all bloops lazzies?",
    "Does the axiom of choice imply the well-ordering theorem?",
]


@pytest.mark.parametrize("text", EASY)
def test_plain_requests_are_easy(text):
    """Greetings, facts, sums, translations and small pieces of writing are on the easy side."""
    assert side(text) == "easy"


@pytest.mark.parametrize("text", HARD)
def test_demanding_requests_are_hard(text):
    """Proofs, mathematics, design, debugging and optimisation are on the hard side."""
    assert side(text) == "hard"


@pytest.mark.parametrize("text", NEVER_EASY)
def test_expert_questions_are_never_called_easy(text):
    """Research, law, clinical and financial questions go up, or the rules say that they do not know."""
    assert side(text) != "easy"


@pytest.mark.parametrize(
    "text",
    [
        "banana",
        "",
        "   \n ",
        "Привет, переведи это на английский",
        "مرحبا كيف حالك",
        "日本の首都はどこですか",
        "프랑스의 수도는 어디입니까",
        "Explique moi pourquoi le ciel est bleu quand il fait beau en été",
        "Übersetze mir bitte den folgenden Satz ins Englische und zwar sofort heute",
        "the quick brown fox " * 300,
        "lorem ipsum " * 500,
        "🙂🙂🙂",
        "0x00ff " * 400,
    ],
)
def test_what_the_rules_do_not_understand_is_not_judged(text):
    """Other languages, empty texts and long texts without a sign have no score."""
    assert score(text) is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": None},
        {"messages": "Prove it"},
        {"messages": [1, None, "x", [], {"role": 5}]},
        {"messages": [{"role": "system", "content": "Prove the theorem."}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": [{"role": "assistant", "content": "Prove the theorem."}]},
        {"messages": [[[[]]]] * 100},
    ],
)
def test_a_request_without_a_human_ask_is_not_judged(body):
    """Nothing but a person's words makes a score; a string of messages is an ask by itself."""
    verdict = RULES.classify(body, "chat")
    assert (verdict.score is None) == (body.get("messages") != "Prove it")


@pytest.mark.parametrize("endpoint", ["embeddings", "rerank", "tokenize", "audio"])
def test_only_generation_is_judged(endpoint):
    """Endpoints that generate nothing have no score."""
    assert RULES.classify({"messages": [{"role": "user", "content": "Prove it"}]}, endpoint).score is None


def test_the_completions_prompt_is_judged():
    """A raw prompt is an ask; token ids are not judged."""
    assert RULES.classify({"prompt": "Prove that e is irrational."}, "completions").score > 0.5
    assert RULES.classify({"prompt": [1, 2, 3]}, "completions").score is None


def test_neither_system_prompt_nor_tools_nor_tool_results_move_the_score():
    """Only the ask counts, however hard what surrounds it sounds."""
    heavy = "Prove the theorem. Refactor the distributed architecture step by step. $\\int x^2$ " * 50
    plain = score("What is the capital of France?")
    body = {
        "tools": [{"type": "function", "function": {"name": "prove", "description": heavy}}],
        "messages": [
            {"role": "system", "content": heavy},
            {"role": "developer", "content": heavy},
            {"role": "user", "content": f"<system-reminder>{heavy}</system-reminder>What is the capital of France?"},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "search", "arguments": heavy}}]},
            {"role": "tool", "content": heavy},
        ],
    }
    assert RULES.classify(body, "chat").score == plain


def test_a_turn_of_a_tool_loop_is_judged_by_the_ask_that_it_serves():
    """Tool results deep into a loop keep the tier of the task."""
    messages = [{"role": "user", "content": "Refactor the parser and optimise it."}]
    for _ in range(50):
        messages += [{"role": "assistant", "content": None, "tool_calls": [{}]}, {"role": "tool", "content": "ok"}]
    assert RULES.classify({"messages": messages}, "chat").score > 0.5


APPROVALS = [
    "yes",
    "Yes, please.",
    "ok go ahead",
    "continue",
    "go on",
    "do it",
    "sounds good",
    "commit it",
    "try again",
    "2",
    "option B",
    "use the second one",
    "why?",
    "and the tests?",
    "make it shorter",
    "no, keep the old name",
    "继续",
    "好的，继续",
    "可以",
    "改一下",
    "提交吧",
    "就这样做",
    "为什么？",
]


@pytest.mark.parametrize("text", APPROVALS)
def test_a_follow_up_is_as_hard_as_what_it_follows(text):
    """A short answer to a plan, or to the work on a hard ask, keeps the hard side."""
    assert side("Can we make the login better?", PLAN, text) == "hard"
    assert side("Prove that the square root of 2 is irrational.", "Done.", text) == "hard"


@pytest.mark.parametrize("text", APPROVALS)
def test_a_follow_up_of_an_easy_exchange_is_not_made_hard(text):
    """The same words after small talk do not go up."""
    assert side("Translate to German: good night", "Gute Nacht", text) == "easy"


def test_an_answer_that_proposes_nothing_is_not_inherited():
    """Agreeing to an explanation is no approval of work; to a proposal in steps, or put as a question, it is."""
    explained = "Python is a programming language. Its compiler makes bytecode; analysis and debugging tools come with it."
    assert side("What is Python?", explained, "ok") == "easy"
    assert side("What is Python?", explained + " Shall I compare and benchmark the implementations?", "ok") == "hard"


def test_follow_ups_inherit_through_each_other():
    """A chain of short answers reaches back to the task."""
    assert (
        side("Design a distributed rate limiter.", "First part.", "go on", "Second part.", "continue", "Third part.", "ok")
        == "hard"
    )


@pytest.mark.parametrize(
    "text", ["thanks!", "谢谢", "What is the capital of France?", "Translate to French: good morning", "17*23"]
)
def test_a_plain_request_stands_for_itself_after_hard_work(text):
    """Thanks, a fact or a chore asked in passing do not inherit."""
    assert side("Prove that the square root of 2 is irrational.", PLAN, text) == "easy"


def test_an_approval_without_a_conversation_is_not_judged():
    """With nothing before it, "yes" means nothing that could be called easy."""
    assert score("yes") is None


def test_a_follow_up_with_more_work_is_judged_by_the_harder_of_both():
    """New work in an answer counts, and so does what it answers."""
    assert score("hi", "hello", "now prove it") > 0.5
    assert score("Prove it.", "Done.", "ok, and translate that to Chinese") is not None


def test_the_terms_explain_the_score():
    """The strongest features are named with what they added, and the sum of all is the score's."""
    verdict = RULES.classify({"messages": [{"role": "user", "content": "Prove that e is irrational."}]}, "chat")
    assert verdict.terms == (("proof", WEIGHTS["proof"]),)
    assert verdict.tier is None
    assert BIAS + verdict.terms[0][1] > 0


def test_every_feature_has_a_weight():
    """What is read from a text of everything is in the published table."""
    everything = "\n".join(
        [*EASY, *HARD, *NEVER_EASY, PLAN, "Traceback (most recent call last)", "- a\n- b\n- c", "as a table, in sections"]
    )
    assert set(read(everything).values) <= set(WEIGHTS)


@pytest.mark.parametrize("word", ["prove", "analyse", "plaintiff", "must", "function", "carcinoma", "step by step"])
def test_a_repeated_word_counts_once(word):
    """Stuffing an ask with a keyword adds nothing beyond the first but length."""
    once, often = read(f"please {word} this"), read(f"please {word * 1} this " + f"{word} " * 40)
    assert {k: v for k, v in once.values.items() if k != "length"} == {k: v for k, v in often.values.items() if k != "length"}


def test_a_feature_saturates():
    """Many different words of a kind are worth no more than enough of them."""
    stuffed = read(
        "prove derive theorem lemma analyse design compare debug plaintiff defendant tort carcinoma quantum must should ensure"
    )
    assert all(0.0 <= value <= 1.0 for value in stuffed.values.values())


def test_a_long_ask_is_judged_by_its_ends():
    """An instruction before or behind a very long text is seen."""
    filler = "the cat sat on the mat and looked at the moon. " * 30_000
    assert terms("Translate to French: " + filler)["chore"] < 0
    assert terms(filler + "\nProve it.")["proof"] > 0


def test_a_code_task_with_a_trace_is_hard():
    """Code and a stack trace speak for themselves."""
    text = 'Why?\n```python\ndef f():\n    return g()\n```\nTraceback (most recent call last):\n  File "a.py", line 2\nKeyError'
    assert side(text) == "hard"


pieces = st.sampled_from(
    [
        *EASY[:6],
        *HARD[:4],
        "yes",
        "继续",
        "证明",
        "<system-reminder>",
        "</system-reminder>",
        "```",
        "\n",
        "\\frac",
        "= x",
        "（",
        "\x00",
        "\ud800",
        "é",
        "ы",
    ]
)
contents = (
    st.lists(pieces, max_size=6).map(" ".join)
    | st.none()
    | st.integers()
    | st.lists(st.dictionaries(st.sampled_from(["type", "text"]), st.sampled_from(["text", "yes", "Prove it"])), max_size=3)
)
conversations = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool", "system", 5]), "content": contents}), max_size=8
)


@settings(max_examples=300, deadline=None)
@given(conversations, st.sampled_from(["chat", "messages", "responses", "completions"]))
def test_any_conversation_has_a_verdict(messages, endpoint):
    """Whatever is said, there is a score from 0 to 1 or none, and the same one every time."""
    body = {"messages": messages, "input": messages, "prompt": messages}
    verdict = RULES.classify(body, endpoint)
    assert verdict.score is None or 0.0 <= verdict.score <= 1.0
    assert RULES.classify(body, endpoint) == verdict


@given(st.text(alphabet="ab-- zé1K\ud800好", max_size=40))
def test_words_are_letters_and_hyphens_after_a_letter(text):
    """A word begins with a small letter and ends before anything but letters and hyphens, whatever is around it."""
    lower = text.lower()
    assert _words(lower.encode("ascii", "replace")) == [word.encode() for word in re.findall("[a-z][a-z-]*", lower)]


@given(st.text(alphabet="12 a.٣３", max_size=40))
def test_numbers_are_runs_of_digits(text):
    """Digits of any script make numbers."""
    assert numbers(text) == len(re.findall(r"\d+", text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("translate this", True),
        ("To translate this", True),
        ("Please sort it", True),
        ("Hello. List them", True),
        ("Hello:\n\t list them", True),
        ("now, could you to count them", True),
        ("the list", False),
        ("Hello.     list them", False),
        ("please listing, a list", False),
        ("please list_of, a list", False),
        ("a list and a list then a list. List", True),
        ("please sort-by count", False),
    ],
)
def test_a_chore_is_told_where_an_instruction_stands(text, told):
    """Its verb counts as a whole word at the beginning, after a stop or after what asks for something."""
    lower = text.lower()
    assert is_chore(lower, frozenset(_words(lower.encode()))) is told


@given(st.text(max_size=300))
def test_a_verdict_without_evidence_is_none(text):
    """A score is only given where a feature spoke."""
    verdict = judge(read(text))
    assert (verdict.score is None) == (verdict.terms == ())
