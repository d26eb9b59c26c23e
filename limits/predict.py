"""How many tokens an answer will have, told before it is made, from what is known of the request and of the ones before.

Rules of this file
- Seen are the tenant, the form (operation, streamed or not, tools …), the size of the prompt and the maximum that the client
  named. The true length of a request is learned when it is over.
- Groups of requests, each within the one before: all, a tenant's, those of one form and about the same maximum, those whose
  prompt is about as long, those whose prompt is as long within a tenth: what one template makes. Of each a mean that forgets:
  an answer counts half after `_HALF` more. A group that has seen little leans on the one that it is in.
- Memory is bounded: the groups that were not seen for longest are forgotten.
- A prediction is for the order alone. Nothing is reserved or refused by it, and the order bounds what a wrong one can do.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from limits.types import SlotAsk

_FIRST = 256.0  # before anything is known
_HALF = 200  # answers of a group
_KEEP = 0.5 ** (1 / _HALF)
_LEAN = 4.0  # answers that the wider group's mean counts for
_MOST_GROUPS = 8192
_FINE = 8  # sizes of prompts between one and twice as many tokens
_Group = tuple[object, ...]


class _Mean:
    __slots__ = ("total", "weight")

    def __init__(self) -> None:
        self.total = self.weight = 0.0

    def add(self, value: float) -> None:
        self.total = self.total * _KEEP + value
        self.weight = self.weight * _KEEP + 1


class Predictor:
    """Of one model's answers."""

    def __init__(self) -> None:
        self._means: OrderedDict[_Group, _Mean] = OrderedDict()

    def __len__(self) -> int:
        return len(self._means)

    def predict(self, ask: SlotAsk) -> int:
        """Output tokens; never more than the client's maximum."""
        if ask.most is not None and ask.most <= 1:
            return max(0, ask.most)
        means, value = self._means, _FIRST
        ask.groups = _groups(ask)
        for group in ask.groups:
            mean = means.get(group)
            if mean is not None:
                value = (mean.total + _LEAN * value) / (mean.weight + _LEAN)
        return round(value) if ask.most is None else min(round(value), ask.most)

    def learn(self, ask: SlotAsk, output: int) -> None:
        """A request like this was answered with so many tokens."""
        means = self._means
        for group in ask.groups or _groups(ask):
            mean = means.get(group)
            if mean is None:
                mean = means[group] = _Mean()
            else:
                means.move_to_end(group)
            mean.add(output)
        while len(means) > _MOST_GROUPS:
            means.popitem(last=False)


def _groups(ask: SlotAsk) -> tuple[_Group, ...]:
    """From the widest to the narrowest."""
    tenant, form = ask.tenant, ask.form
    most = -1 if ask.most is None else ask.most.bit_length()
    size = int(math.log2(ask.prompt + 1) * _FINE)
    return (), (tenant,), (tenant, form, most), (tenant, form, most, size // _FINE), (tenant, form, most, size, _FINE)
