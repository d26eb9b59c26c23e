"""Which cuts go with which embedder.

A cosine means nothing by itself: of 0.9 the one model says "the same" and another "both are English". So a preset belongs to the
fingerprint of an embedder. One that nobody has measured gets cuts that serve the same words in another order or form and
little else; `tiergate cache eval --calibrate` measures. What it finds is a cut on the score that STRICT or BALANCED gives, and
`cache.semantic.cut` puts it in the place of theirs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf

from caches.semantic.decision import BALANCED, STRICT, Preset

MEASURED = frozenset({"bab1e4f22557"})
"""Fingerprints of the embedders that STRICT and BALANCED were set with: all-MiniLM-L6-v2, int8."""

_UNKNOWN = {
    "strict": replace(STRICT, base=0.92, reword=1.0, most=inf),
    "balanced": replace(BALANCED, base=0.9, edit=1.0, reword=0.7),
}
_KNOWN = {preset.name: preset for preset in (STRICT, BALANCED)}


@lru_cache(maxsize=8)
def preset_for(name: str, fingerprint: str, cut: float | None = None) -> Preset:
    """`cut`: the least score that serves, as calibrated for this embedder. Raises KeyError for a preset that is none."""
    if cut is not None:
        return replace(_KNOWN[name], serve=cut)
    return (_KNOWN if fingerprint in MEASURED else _UNKNOWN)[name]
