"""What verified answers have shown, and the cut that keeps the error under a bound.

A label says of one answer, served or nearly served at a score, whether it was right. Served answers are verified at random, a
few in a hundred, nearly served ones always, so labels have weights: for how many answers each one speaks. The share of wrong
answers above a cut is then estimated with the effective number of labels (Kish: the weights' sum squared over the sum of their
squares), and bounded by Wilson's interval.

    operator's bound, enough labels     the lowest cut whose upper bound is under it; none: the scope serves nothing
    operator's bound, too few           the preset's cut
    no bound                            the preset's cut, until the lower bound of the error above it exceeds what the preset
                                        stands for: then the lowest higher cut that does not, or none

Enough is 300 effective labels: few that speak for many each are worth no more than their number, however many speak for
themselves. Before that a bound could not be stated, and a scope would be judged by chance.

Labels belong to an embedder and a scope (a tenant, or tenants that share). A scope with too few borrows all scopes' labels.
A scope that serves nothing goes on collecting labels of answers that it would nearly have served, so it may recover.
Per-entry thresholds (vCache, Schroeder et al., 2025) need more labels an entry than an exact tier leaves it: what is learned
of an entry only retires it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import msgspec

from caches.semantic.wilson import interval

ENOUGH = 300
"""Effective labels before a bound is stated."""

_MOST = 2_000  # labels of a scope
_MOST_SCOPES = 1_000
_ABOVE = 50  # labels that a cut must have above it
_EVERY = 10  # new labels before the cut is sought again

Label = tuple[float, bool, float]


@dataclass(frozen=True, slots=True)
class Shown:
    """The share of wrong answers at and above a cut, weighted."""

    labels: int
    wrong: int
    share: float
    low: float
    high: float


class _Scope:
    __slots__ = ("_squares", "_weights", "cuts", "labels", "since")

    def __init__(self) -> None:
        self.labels: deque[Label] = deque()
        self.cuts: dict[tuple[float, float, float | None], float] = {}
        self.since = 0
        self._weights = self._squares = 0.0

    @property
    def effective(self) -> float:
        return self._weights * self._weights / self._squares if self._squares > 0 else 0.0

    def add(self, label: Label) -> None:
        self.labels.append(label)
        self._weigh(label, 1)
        if len(self.labels) > _MOST:
            self._weigh(self.labels.popleft(), -1)
        self.since += 1
        if self.since >= _EVERY:
            self.since = 0
            self.cuts.clear()

    def _weigh(self, label: Label, sign: int) -> None:
        self._weights += sign * label[2]
        self._squares += sign * label[2] * label[2]


class Evidence:
    """Of one embedder. `enough`: effective labels before a bound is stated."""

    def __init__(self, enough: int = ENOUGH) -> None:
        self._enough = enough
        self._all = _Scope()
        self._scopes: OrderedDict[str, _Scope] = OrderedDict()
        self.changed = False

    def learn(self, scope: str, score: float, *, right: bool, weight: float = 1.0) -> None:
        label = (score, right, weight)
        self._all.add(label)
        self._scope(scope).add(label)
        self.changed = True

    def cut(self, scope: str, preset_cut: float, stands_for: float, max_error: float | None) -> float:
        """The score from which answers are served; infinite: none are.

        `stands_for`: the share of wrong answers that the preset promises to stay under.
        """
        own = self._scopes.get(scope)
        known = own if own is not None and own.effective >= self._enough - 1e-6 else self._all
        if known.effective < self._enough - 1e-6:
            return preset_cut
        wanted = (preset_cut, stands_for, max_error)
        cut = known.cuts.get(wanted)
        if cut is None:
            cut = known.cuts[wanted] = _cut(known.labels, preset_cut, stands_for, max_error)
        return cut

    def shown(self, cut: float, scope: str | None = None) -> Shown:
        """What the labels at and above a cut say; None: of all scopes."""
        known = self._all if scope is None else self._scopes.get(scope, _Scope())
        return shown([label for label in known.labels if label[0] >= cut])

    def scopes(self) -> list[str]:
        return list(self._scopes)

    def packed(self) -> bytes:
        self.changed = False
        return msgspec.msgpack.encode({name: list(scope.labels) for name, scope in self._scopes.items()})

    def load(self, packed: bytes) -> None:
        """Take up what `packed` gave. Raises nothing: a damaged record is none."""
        try:
            known = msgspec.msgpack.decode(packed, type=dict[str, list[Label]])
        except msgspec.MsgspecError:
            return
        changed = self.changed  # while what was kept could not be read yet
        for name, labels in known.items():
            for label in labels:
                self.learn(name, label[0], right=label[1], weight=label[2])
        self.changed = changed

    def forget(self, scope: str | None = None) -> None:
        """Begin anew; None: everywhere."""
        if scope is None:
            self._scopes.clear()
            self._all = _Scope()
        else:
            self._scopes.pop(scope, None)
        self.changed = True

    def _scope(self, name: str) -> _Scope:
        known = self._scopes.get(name)
        if known is None:
            known = self._scopes[name] = _Scope()
            while len(self._scopes) > _MOST_SCOPES:
                self._scopes.popitem(last=False)
        self._scopes.move_to_end(name)
        return known


def shown(labels: Iterable[Label]) -> Shown:
    count = wrong = 0
    weights = squares = missed = 0.0
    for _, right, weight in labels:
        count += 1
        weights += weight
        squares += weight * weight
        if not right:
            wrong += 1
            missed += weight
    if not count:
        return Shown(0, 0, 0.0, 0.0, 1.0)
    share = missed / weights
    return Shown(count, wrong, share, *interval(share, weights * weights / squares))


def _cut(labels: Iterable[Label], preset_cut: float, stands_for: float, max_error: float | None) -> float:
    ranked = sorted(labels, reverse=True)
    if max_error is not None:
        return _lowest(ranked, -inf, max_error, upper=True)
    at_preset = shown(label for label in ranked if label[0] >= preset_cut)
    if at_preset.labels < _ABOVE or at_preset.low <= stands_for:
        return preset_cut
    return _lowest(ranked, preset_cut, stands_for, upper=False)


def _lowest(ranked: list[Label], floor: float, bound: float, *, upper: bool) -> float:
    """The lowest score above which the error stays under the bound: its upper estimate, or its best one."""
    found = inf
    weights = squares = missed = 0.0
    for place, (score, right, weight) in enumerate(ranked):
        if score < floor:
            break
        weights += weight
        squares += weight * weight
        missed += 0.0 if right else weight
        tied = place + 1 < len(ranked) and ranked[place + 1][0] == score
        if place + 1 < _ABOVE or tied:
            continue
        share = missed / weights
        if (interval(share, weights * weights / squares)[1] if upper else share) <= bound:
            found = score
    return found
