"""The kind of question: when is not where, how much is not how long."""

from __future__ import annotations

from caches.guards.reading import Reading

_DEFINITE = frozenset(
    "@when @where @who @why @how @price @howmany @howlong @howoften @howfar @howold @howbig @howtall @howheavy @howfast".split()
)
_AKIN = frozenset({frozenset({"@howlong", "@howmany"}), frozenset({"@howlong", "@when"}), frozenset({"@howtall", "@howbig"})})


def question(a: Reading, b: Reading) -> str | None:
    if a.frame == b.frame or a.frame not in _DEFINITE or b.frame not in _DEFINITE:
        return None
    return None if frozenset((a.frame, b.frame)) in _AKIN else "question"
