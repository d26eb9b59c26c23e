"""Words that narrow or widen what is asked, and words that say in what form the answer is wanted."""

from __future__ import annotations

from caches.guards.tables import words

STRONG = words(
    """
    only first last next previous second third least worst except atleast atmost morethan lessthan upto
    nonmember beginner beginners advanced expert experts extended enterprise premium minimum maximum average total oldest
    newest latest earliest original official unofficial outside inperson nearest farthest furthest alone together without half
    double twice before after during until since
    ex northern southern eastern western central federal provincial municipal deputy assistant vice acting honorary adopted
    biological oral topical intravenous wholesale retail remotely inclusive exclusive mini ultra lite
    lethal fatal severe acute chronic mild silent frozen raw unripe soft deep shallow nested
    recursive recursively silk leather abroad overseas pregnant diabetic elderly newborn
    amateur residential industrial vegan vegetarian halal kosher electric diesel wireless asynchronous
    temporary unpaid overdue
    """
)
"""One more of these on either side is another question."""

FORMS = {
    "table": "table", "tables": "table", "bullets": "bullets", "numberedlist": "numbered", "onesentence": "sentence",
    "oneparagraph": "paragraph", "oneline": "line", "oneword": "word", "poem": "poem", "haiku": "haiku", "rhyme": "rhyme",
    "essay": "essay", "brief": "short", "briefly": "short", "short": "short", "shortly": "short", "concise": "short",
    "concisely": "short", "detailed": "long", "detail": "long", "thoroughly": "long", "stepbystep": "steps",
    "plainly": "simple", "formal": "formal", "informal": "informal", "casual": "casual", "paragraph": "paragraph",
    "paragraphs": "paragraph", "sentence": "sentence", "sentences": "sentence", "diagram": "diagram", "emoji": "emoji",
    "emojis": "emoji", "uppercase": "upper", "lowercase": "lower", "tldr": "short",
}  # fmt: skip
"""Word → the form of an answer that it may ask for; read as such behind `as`, `in`, `with`, `using` or a verb of writing."""

ASKED_FOR = words(
    """
    write explain describe summarize summarise give list show answer tell draft compose generate create make translate provide
    """
)
"""Verbs with which such a word is about the answer."""

KIN = words(
    """
    mother father mom dad parent brother sister sibling son daughter child grandmother grandfather grandparent grandma grandpa
    uncle aunt cousin nephew niece wife husband spouse partner grandson granddaughter grandchild
    """
)
BEFORE_KIN = words("great step half foster god law second third distant late former adoptive ex own")
"""One more of these makes another relative."""

PARTICLES = words("out off up down away apart")
"""Behind the same verb, and nothing else changed, one more or less is another verb."""
