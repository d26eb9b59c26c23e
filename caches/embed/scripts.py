"""Which scripts a text is written in, as far as an embedder cares.

A model that was trained on one script maps all of another onto nearly the same place: at a cosine of 0.8, MiniLM calls 46 % of
Chinese pairs equal that are not. So letters that it does not read count, and a text with more than a few is not for it. Code,
digits and signs are no letters.
"""

from __future__ import annotations

import re

KNOWN = {
    # MiniLM drops accents. Vietnamese tells its words apart by them, so its own letters are a script here.
    "latin": "A-Za-z\u00aa\u00ba\u00c0-\u024f\u0250-\u02ff\u2c60-\u2c7f\ua720-\ua7ff\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a",
    "vietnamese": "\u1e00-\u1eff",
    "greek": "\u0370-\u03ff\u1f00-\u1fff",
    "cyrillic": "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f",
    "arabic": "\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufeff",
    "hebrew": "\u0590-\u05ff\ufb1d-\ufb4f",
    "devanagari": "\u0900-\u097f\ua8e0-\ua8ff",
    "thai": "\u0e00-\u0e7f",
    "han": "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "kana": "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "hangul": "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff",
}
"""Name → character class."""

FOREIGN = 0.05
"""Share of a text's letters that may be of other scripts: a name, a sign of mathematics."""

MOST = 4096
"""Characters that are looked at: what is longer is too long for an embedder anyway."""

_LETTERS = re.compile(r"[^\W\d_]+")


class Scripts:
    """What one embedder reads."""

    def __init__(self, names: tuple[str, ...]) -> None:
        ranges = "".join(KNOWN[name] for name in names if name != "all")
        self._all = "all" in names
        self._ascii = self._all or "latin" in names
        self._others = re.compile(rf"[^\W\d_{ranges}]+")

    def covers(self, text: str) -> bool:
        if self._all or (self._ascii and text.isascii()):
            return True
        seen = text[:MOST]
        others = _many(self._others, seen)
        return others == 0 or others <= FOREIGN * _many(_LETTERS, seen)


def _many(runs: re.Pattern[str], text: str) -> int:
    return sum(map(len, runs.findall(text)))
