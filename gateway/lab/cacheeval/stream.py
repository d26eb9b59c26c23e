"""A stream of questions through an exact cache and a policy behind it: other policies than the product's, to compare with.

The exact cache serves a text that was stored, the policy chooses among the nearest stored ones; a miss stores the question. What
was served by meaning is not stored: asked again it is looked up again, and is wrong again.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.lab.cacheeval.course import Course, End
from gateway.lab.cacheeval.drawing import Ask
from gateway.lab.cacheeval.policies import Policy
from gateway.lab.cacheeval.shelf import Shelf, choose
from gateway.lab.cacheeval.vectors import Vectors


def run(policy: Policy, asks: Sequence[Ask], vectors: Vectors) -> Course:
    course = Course(policy.name, {ask.text: ask.cluster for ask in asks})
    shelf = Shelf(vectors.model.dimension, len(course.clusters))
    exact: set[str] = set()
    for text in (ask.text for ask in asks):
        vector = None if text in exact else vectors.of(text)
        course.embedded += vector is not None
        choice = choose(policy, text, shelf.nearest(vector)) if vector is not None else None
        if text in exact:
            course.served(text, text, End.EXACT)
        elif choice is not None and choice.served is not None:
            course.served(text, choice.served.key, End.SEMANTIC)
        else:
            course.missed()
            exact.add(text)
            if vector is not None:
                shelf.put(text, vector)
    return course
