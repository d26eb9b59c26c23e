"""The shipped policy behind the classifier: conversations, two languages, and what it does not claim."""

import gzip
import json
from pathlib import Path

import numpy as np
import parity_pairs
import pytest

from gateway.lab.routing.metrics import apgr, placed
from routing.learned.assumed import EASY_PAIRS, HARD_PAIRS
from routing.learned.classifier import Learned
from routing.learned.shipped import SHIPPED, shipped

DATA = Path(__file__).parents[3] / "shared" / "data" / "routing"
LEARNED = Learned(shipped())
PRIOR = np.array(shipped().scores)


def verdict(*texts, system=None):
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return LEARNED.classify({"messages": messages}, "chat")


def test_the_verdict_tells_both_heads_the_score_and_the_version():
    """The score is what large gains on small, on a scale from 0 to 1; the policy is named."""
    told = verdict("Prove that there are infinitely many prime numbers.")
    assert told.score == pytest.approx((1 + told.large - told.small) / 2)
    assert told.policy == shipped().version
    assert told.terms


def test_the_file_is_small():
    """About a megabyte lies in the repository."""
    assert SHIPPED.stat().st_size < 1_100_000


@pytest.mark.parametrize("text", ["yes", "continue", "好", "继续"])
def test_short_follow_ups_inherit(text):
    """An answer to a plan is as hard as what was asked; alone it says nothing of the kind."""
    ask = "Design a distributed cache and analyse its trade-offs."
    assert verdict(ask, "Shall I go on?", text).score >= verdict(ask).score


def test_only_the_persons_words_count():
    """System prompts and harness blocks change nothing."""
    ask = "Translate into Spanish: good morning"
    reminder = "<system-reminder>Prove the theorem by induction and refactor the code.</system-reminder>"
    alone = verdict(ask)
    assert verdict(ask, system="You prove theorems of algebra, step by step.") == alone
    assert verdict(f"{reminder}\n{ask}") == alone


@pytest.mark.parametrize(
    "text", ["ええと、これをお願いします", "Нужно найти хорошую книгу", "이 문장을 번역해 주세요", "asdf qwer zxcv"]
)
def test_what_it_knows_nothing_of_it_does_not_score(text):
    """Languages and words that training never had: "don't know", not a number."""
    assert verdict(text).score is None


@pytest.mark.parametrize(("share", "alike"), [(0.5, 0.95), (0.3, 0.85)])
def test_both_languages_of_an_ask_land_on_the_same_side(share, alike):
    """Of the pairs that nothing was trained on, and of all: 95 % where half goes up, as by default; and most of them rightly."""
    cut = float(np.quantile(PRIOR, 1 - share))
    held = [*parity_pairs.EASY, *parity_pairs.HARD]
    for pairs in (held, [*EASY_PAIRS, *HARD_PAIRS, *held]):
        sides = [[goes_up(text, cut) for text in pair] for pair in pairs]
        assert sum(english == chinese for english, chinese in sides) >= alike * len(pairs)
    wanted = [place >= len(parity_pairs.EASY) for place in range(len(held))]
    sides = [[goes_up(text, cut) for text in pair] for pair in held]
    assert sum(side == want for pair, want in zip(sides, wanted, strict=True) for side in pair) >= 0.8 * 2 * len(held)


def goes_up(text, cut):
    """Who cannot be rated goes up, as by default."""
    score = verdict(text).score
    return score is None or score >= cut


@pytest.mark.skipif(not DATA.is_dir(), reason="the public data is not here")
def test_order_on_a_set_that_was_not_learned():
    """On MT-Bench, which is kept for measuring, the order is better than chance."""
    with gzip.open(DATA / "routellm_mtbench.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if not row["contaminated"]]
    scores = placed([verdict(row["prompt"]).score for row in rows])
    small, large = ([row["scores"][model] for row in rows] for model in ("mixtral-8x7b-instruct-v0.1", "gpt-4-1106-preview"))
    assert apgr(scores, small, large) > 0.6
