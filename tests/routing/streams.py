"""Streams of scores, and a scope that is asked and told as the gateway does it."""

import gzip
import json
import random
from itertools import accumulate
from pathlib import Path

from routing.aims import Told
from routing.rules import Rules

DATA = Path(__file__).parents[3] / "shared" / "data" / "routing"
EVEN = [(place + 0.5) / 64 for place in range(64)]


def send(scope, scores, draws=None):
    """Whether each went up. None: nobody can rate it; True and False: it was forced up or down."""
    ups = []
    for place, score in enumerate(scores):
        cut = scope.cut(lambda at=place: draws[at % len(draws)] if draws else at * 0.618033988749895 % 1.0)
        if isinstance(score, bool):
            ups.append(score)
            scope.tell(Told(score, open=False))
            continue
        up = cut.lets_up() if score is None else score >= cut.threshold
        ups.append(up)
        scope.tell(Told(up, True, score))
    return ups


def worst(ups, share):
    """The most by which any requests in a row are above or below the share of them, in requests."""
    sums = list(accumulate((up - share for up in ups), initial=0.0))
    return max(sums) - min(sums)


def worst_of(ups, share, length):
    """The most by which the share of any so many in a row is off."""
    sums = list(accumulate(ups, initial=0))
    return max(abs((sums[at + length] - sums[at]) / length - share) for at in range(len(ups) - length + 1))


def public_scores(name, count):
    """What the rules make of a public set's prompts, in a seeded order."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        prompts = [json.loads(line)["prompt"] for line in lines]
    random.Random(name).shuffle(prompts)
    rules = Rules()
    return [rules.classify({"messages": [{"role": "user", "content": text}]}, "chat").score for text in prompts[:count]]
