"""The product's own decision as policies of this laboratory: its presets, and its guards with other cuts.

With a verifier at hand the product asks it about what is nearly served, down to `Preset.grey`. How much may be asked can be
widened here, to find out what a verifier needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from caches.guards import Reading, veto
from caches.semantic.decision import BALANCED, STRICT, Preset, judge
from caches.semantic.eligible import refusal
from gateway.lab.cacheeval.policies import ALL, Policy, Ruling, Verdict

PRESETS = {preset.name: preset for preset in (STRICT, BALANCED)}
_TEXTS = 100_000


@dataclass(frozen=True, slots=True)
class Asking:
    """What a verifier is asked about. `vetoed`: also what a guard refuses; `served`: also what would be served at once."""

    grey: float | None = None  # from this cosine on; None: as the preset has it
    vetoed: bool = False
    served: bool = False


class Texts:
    """Each text is read once. `all_eligible`: also those that the product never looks up."""

    def __init__(self, *, all_eligible: bool) -> None:
        self.read = lru_cache(_TEXTS)(Reading.of)
        self._refusal = lru_cache(_TEXTS)((lambda _text: None) if all_eligible else refusal)

    def barred(self, asked: str, stored: str) -> str:
        """Why the product would never look one of them up; empty: it would."""
        return self._refusal(asked) or self._refusal(stored) or ""


class Decision:
    """One preset, and how it is bent."""

    def __init__(self, name: str, preset: Preset, asking: Asking | None, texts: Texts) -> None:
        self.name = name
        self._preset = preset
        self._asking = asking
        self._texts = texts

    def decide(self, cosine: float, asked: str, stored: str) -> Ruling:
        barred = self._texts.barred(asked, stored)
        if barred:
            return Ruling(Verdict.REFUSE, ALL, barred)
        found = judge(self._texts.read(asked), self._texts.read(stored), cosine, self._preset)
        if found.serve:
            asks = self._asking is not None and self._asking.served
            return Ruling(Verdict.GREY if asks else Verdict.SERVE, found.score)
        asks = self._asking is not None and self._asking.vetoed and cosine >= self._preset.grey
        return Ruling(Verdict.GREY if found.grey or asks else Verdict.REFUSE, found.score, found.reason)


class Guarded:
    """The guards, and a cut on the bare cosine."""

    def __init__(self, cut: float, texts: Texts) -> None:
        self.name = f"cosine >= {cut:g}, guards"
        self._cut = cut
        self._texts = texts

    def decide(self, cosine: float, asked: str, stored: str) -> Ruling:
        read = self._texts.read
        reason = self._texts.barred(asked, stored) or veto(read(asked), read(stored)) or ""
        if not reason and cosine < self._cut:
            reason = "similarity"
        return Ruling(Verdict.REFUSE if reason else Verdict.SERVE, cosine, reason)


class ProductGuards:
    def __init__(self, asking: Asking | None, *, all_eligible: bool) -> None:
        self._asking = asking
        self._texts = Texts(all_eligible=all_eligible)

    def preset(self, name: str) -> Policy:
        preset, asking = PRESETS[name], self._asking
        if asking is not None and asking.grey is not None:
            preset = replace(preset, grey=asking.grey)
        return Decision(name, preset, asking, self._texts)

    def guarded(self, cut: float) -> Policy:
        return Guarded(cut, self._texts)

    def all(self, name: str) -> Policy:
        return Decision(f"{name}, other cuts", replace(PRESETS[name], serve=ALL), None, self._texts)
