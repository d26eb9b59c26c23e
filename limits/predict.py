"""How many tokens an answer will have, told before it is made, from what is known of the request and of the ones before.

Rules of this file
- Seen are the tenant, the form (operation, streamed or not, tools …), the size of the prompt and the maximum that the client
  named. The true length of a request is learned when it is over.
- Groups of requests, each within the one before: all, a tenant's, those of one form and about the same maximum, those whose
  prompt is about as long, those whose prompt is as long within a tenth: what one template makes. Of each a mean that forgets:
  see `limits.mean`. A group that has seen little leans on the one that it is in.
- Memory is bounded: the groups that were not seen for longest are forgotten.
- Both verbs are on the path of every request: the groups of one like it are found by one look, and their means are worked out in
  place.
- A prediction is for the order alone. Nothing is reserved or refused by it, and the order bounds what a wrong one can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from limits.mean import KEEP, Mean
from limits.waiting import SlotAsk

_FIRST = 256.0  # before anything is known
_LEAN = 4.0  # answers that the wider group's mean counts for
_GENERATION = 4096
_FINE = 8  # sizes of prompts between one and twice as many tokens
_Group = tuple[object, ...]


class Predictor:
    """Of one model's answers. Groups are kept in two generations: the older is dropped when the younger is full."""

    def __init__(self) -> None:
        self._young: dict[_Group, Mean] = {}
        self._old: dict[_Group, Mean] = {}
        self._paths: dict[_Group, Sequence[Mean]] = {}  # the means of requests alike, all of them young

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def predict(self, ask: SlotAsk) -> int:
        """Output tokens; never more than the client's maximum."""
        most = ask.most
        if most is not None and most <= 1:
            return max(0, most)
        value = _FIRST
        ask.means = self._means(ask)
        for mean in ask.means:
            value = (mean.total + _LEAN * value) / (mean.weight + _LEAN)
        tokens = round(value)
        return tokens if most is None or tokens < most else most

    def learn(self, ask: SlotAsk, output: int) -> None:
        """A request like this was answered with so many tokens."""
        for mean in ask.means or self._means(ask):
            mean.total = mean.total * KEEP + output
            mean.weight = mean.weight * KEEP + 1

    def _means(self, ask: SlotAsk) -> Sequence[Mean]:
        """Of its groups, from the widest to the narrowest."""
        most = -1 if ask.most is None else ask.most.bit_length()
        like = ask.tenant, ask.form, most, int(log2(ask.prompt + 1) * _FINE)
        return self._paths.get(like) or self._walk(*like)

    def _walk(self, tenant: str, form: str, most: int, size: int) -> Sequence[Mean]:
        groups = (), (tenant,), (tenant, form, most), (tenant, form, most, size // _FINE), (tenant, form, most, size, _FINE)
        young = self._young
        means = [self._young.get(group) or self._met(group) for group in groups]
        if self._young is young:  # else those that were found first are of the generation before
            self._paths[tenant, form, most, size] = means
        return means

    def _met(self, group: _Group) -> Mean:
        """One that is new in this generation."""
        if len(self._young) >= _GENERATION:
            self._old, self._young = self._young, {}
            self._paths.clear()
        mean = self._young[group] = self._old.pop(group) if group in self._old else Mean()
        return mean
