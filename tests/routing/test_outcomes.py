"""The rules on public benchmark prompts.

Rules about words are known to be weak at telling which prompts a small model fails, and nothing here says otherwise. What is held
is one promise: hard benchmarks are not called easy, and where the rules do not know they say so.
"""

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from routing.rules import Rules

DATA = Path(__file__).parents[3] / "shared" / "data" / "routing"
RULES = Rules()
SAMPLE = 400

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the public data is not here")


def sides(name):
    """For each category, how many of its first prompts are on each side."""
    counted = defaultdict(Counter)
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            tally = counted[row["category"]]
            if tally.total() < SAMPLE:
                score = RULES.classify({"messages": [{"role": "user", "content": row["prompt"]}]}, "chat").score
                tally["unsure" if score is None else "hard" if score >= 0.5 else "easy"] += 1
    return {
        category: {side: tally[side] / tally.total() for side in ("easy", "unsure", "hard")}
        for category, tally in counted.items()
    }


def test_professional_and_college_questions_are_not_called_easy():
    """Of the examination questions of every subject hardly one is called easy."""
    for subject, share in sides("mmlu_pro.jsonl.gz").items():
        assert share["easy"] <= 0.04, subject


@pytest.mark.parametrize(
    ("subject", "hard"), [("professional_law", 0.8), ("professional_medicine", 0.8), ("high_school_mathematics", 0.7)]
)
def test_law_medicine_and_mathematics_go_up(subject, hard):
    """Where the field is plain from the words, most questions are on the hard side."""
    assert sides("routellm_mmlu.jsonl.gz")[subject]["hard"] >= hard


def test_mathematics_and_code_are_not_easy_and_questions_of_fact_are_not_hard():
    """Competition mathematics, word problems, code and logic puzzles stay off the easy side; trivia stays off the hard one."""
    shares = sides("llmrouter.jsonl.gz")
    for task in ("math", "gsm8k", "agentverse-mgsm", "agentverse-logicgrid", "mbpp"):
        assert shares[task]["easy"] <= 0.05, task
    for task in ("natural_qa", "trivia_qa", "commonsense_qa"):
        assert shares[task]["hard"] <= 0.06, task
