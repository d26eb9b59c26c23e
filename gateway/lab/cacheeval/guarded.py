"""The product's own decision as policies of this laboratory: its presets, and its guards with other cuts.

With a verifier at hand the product serves by itself only what is surely the same (`Preset.sure`) and asks about the rest down
to `Preset.grey`. How much may be asked can be widened here, to find out what a verifier needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from caches.guards import Reading, veto
from caches.semantic.decision import BALANCED, STRICT, Preset, judge
from gateway.lab.cacheeval.policies import ALL, Policy, Ruling, Verdict

PRESETS = {preset.name: preset for preset in (STRICT, BALANCED)}
_READINGS = 100_000


@dataclass(frozen=True, slots=True)
class Asking:
    """What a verifier is asked about. `vetoed`: also what a guard refuses; `sure`: also what would be served at once."""

    grey: float | None = None  # from this cosine on; None: as the preset has it
    vetoed: bool = False
    sure: bool = False


class Decision:
    """One preset, and how it is bent."""

    def __init__(self, name: str, preset: Preset, asking: Asking | None, read: Callable[[str], Reading]) -> None:
        self.name = name
        self._preset = preset
        self._asking = asking
        self._read = read

    def decide(self, cosine: float, asked: str, stored: str) -> Ruling:
        found = judge(self._read(asked), self._read(stored), cosine, self._preset)
        if found.serve and (self._asking is None or not self._asking.sure):
            return Ruling(Verdict.SERVE, found.score)
        vetoed = self._asking is not None and self._asking.vetoed and cosine >= self._preset.grey
        open_ = found.serve or found.grey or vetoed
        return Ruling(Verdict.GREY if open_ else Verdict.REFUSE, found.score, found.reason)


class Guarded:
    """The guards, and a cut on the bare cosine."""

    def __init__(self, cut: float, read: Callable[[str], Reading]) -> None:
        self.name = f"cosine >= {cut:g}, guards"
        self._cut = cut
        self._read = read

    def decide(self, cosine: float, asked: str, stored: str) -> Ruling:
        reason = veto(self._read(asked), self._read(stored)) or ("" if cosine >= self._cut else "similarity")
        return Ruling(Verdict.REFUSE if reason else Verdict.SERVE, cosine, reason)


class ProductGuards:
    def __init__(self, asking: Asking | None) -> None:
        self._asking = asking
        self._read = lru_cache(_READINGS)(Reading.of)

    def preset(self, name: str) -> Policy:
        preset = PRESETS[name]
        if self._asking is None:
            return Decision(name, preset, None, self._read)
        grey = preset.grey if self._asking.grey is None else self._asking.grey
        return Decision(name, replace(preset, serve=preset.sure, grey=grey), self._asking, self._read)

    def guarded(self, cut: float) -> Policy:
        return Guarded(cut, self._read)

    def all(self, name: str) -> Policy:
        return Decision(f"{name}, other cuts", replace(PRESETS[name], serve=ALL), None, self._read)
