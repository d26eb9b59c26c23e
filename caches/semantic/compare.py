"""Do two answers say the same? Asked of a kept answer and the one that a model gives now.

equal but for case, white space and punctuation at the ends     yes
different numbers, dates, polarity or names (`caches.guards`)   nobody can tell: models word things differently
by the meaning of their beginnings                              yes from `SAME` on, no under `OTHER`
between                                                         nobody can tell; a judge may be asked
"""

from __future__ import annotations

from caches.embed.types import Embedder, EmbedderAway, TooLong
from caches.guards import Reading, veto
from caches.semantic.partition import READ

SAME = 0.92
OTHER = 0.55
_SECONDS = 5.0  # for a vector: nobody waits for it
_SHORT = 200  # characters: what is said in so many is said whole, so its details count


async def same_answer(embedder: Embedder, kept: str, fresh: str, tenant: str) -> bool | None:
    """None: nobody can tell."""
    one, other = _plain(kept), _plain(fresh)
    if one == other:
        return True
    if not embedder.covers(one) or not embedder.covers(other):
        return None
    try:
        first = await embedder.embed(one[:READ], scope=tenant, within=_SECONDS)
        second = await embedder.embed(other[:READ], scope=tenant, within=_SECONDS)
    except (EmbedderAway, TooLong):
        return None
    cosine = float(first @ second)
    if cosine < OTHER:
        return False
    if max(len(one), len(other)) <= _SHORT and veto(Reading.of(one), Reading.of(other)) is not None:
        return None
    return True if cosine >= SAME else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!?\"'`*")
