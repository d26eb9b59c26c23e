"""What a verifier makes of what was found: a yes to the best that was nearly served serves it; no word in time is no yes.

A scope that has shown too many wrong answers is served nothing, whatever a verifier says.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from caches.semantic.types import Asked, Found
from caches.verify.types import Verifier, VerifierAway

if TYPE_CHECKING:
    from caches.semantic.cache import SemanticCache


async def verified(cache: SemanticCache, verifier: Verifier, asked: Asked, found: Found, cut: float) -> Found:
    """`cut` is what the scope's scores are held against just now."""
    grey = found.grey
    if found.entry is not None and verifier.all:
        no = await _objection(verifier, asked, found.kept)
        return found if no is None else no
    if found.entry is not None or grey is None or cut == inf:
        return found
    no = await _objection(verifier, asked, grey.text)
    if no is not None:
        return no
    taken = await cache.take(asked, grey)
    return taken if taken.entry is not None else replace(found, away=taken.away)


async def _objection(verifier: Verifier, asked: Asked, kept: str) -> Found | None:
    """None: it approves."""
    try:
        right = await verifier.approves(asked.text, kept, scope=asked.tenant)
    except VerifierAway as away:
        return Found(away=f"verifier {away.reason}", why="verifier")
    return None if right else Found(why="verifier")
