"""The product's own decision as policies of this laboratory: its presets, and its guards with other cuts.

With a verifier at hand the product serves by itself only what is surely the same (`Preset.sure`) and asks about the rest down
to `Preset.grey`. How much may be asked can be widened here, to find out what a verifier needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from caches.guards import Reading
from caches.semantic.decision import BALANCED, STRICT, Preset, judge
from gateway.lab.cacheeval.learner import Learner, Widening
from gateway.lab.cacheeval.policies import Policy, Ruling, Verdict

PRESETS = {preset.name: preset for preset in (STRICT, BALANCED)}
_READINGS = 100_000


@dataclass(frozen=True, slots=True)
class Asking:
    """What a verifier is asked about. `vetoed`: also what a guard refuses; `sure`: also what would be served at once."""

    grey: float | None = None  # from this score on; None: as the preset has it
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
        if found.serve or found.grey or self._opened(cosine, found.score):
            return Ruling(Verdict.GREY, found.score, found.reason)
        return Ruling(Verdict.REFUSE, found.score, found.reason)

    def _opened(self, cosine: float, score: float) -> bool:
        """Whether the verifier is asked all the same about what a guard refuses. Such a score is no measure, the cosine is."""
        return self._asking is not None and self._asking.vetoed and max(cosine, score) >= self._preset.grey


class Moving:
    """A preset whose cut somebody else moves."""

    def __init__(self, preset: Preset, learner: Learner, read: Callable[[str], Reading]) -> None:
        self.name = f"{preset.name}, learning"
        self._preset = preset
        self._learner = learner
        self._read = read

    def decide(self, cosine: float, asked: str, stored: str) -> Ruling:
        moved = replace(self._preset, serve=self._learner.cut())
        return Decision(self.name, moved, None, self._read).decide(cosine, asked, stored)


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
        return Decision(f"cosine >= {cut:g}, guards", replace(STRICT, serve=cut, grey=cut), None, self._read)

    def learning(self, name: str, max_error: float) -> tuple[Policy, Learner]:
        preset = PRESETS[name]
        learner = Widening(preset.serve, max_error)
        return Moving(preset, learner, self._read), learner
