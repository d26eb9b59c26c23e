"""Finds out how much one replica can do at once. No clock, no I/O: what is seen and the time go in, slots and tokens come out.

Rules of this file
1. While the engine tells how it stands, that decides, once a look. Requests that wait inside it at two looks in a row, with
   memory to spare, say that it has too few seats: the slots come down to what runs. Preemptions, or waiting with a full KV
   cache, say that its memory is short: the tokens come down. A KV cache that is nearly full, or a little waiting, is a
   reason to stay. Else what was all in use grows.
2. While it does not, the times from dispatch to first byte do: each against the mean of prompts of about its length while
   little ran. Half of a round late: fewer slots. Few late, and the slots all in use: more.
3. A cut starts from what was really in use, and the next one waits until the last has come to effect.
4. Growth doubles up to the goal, which is where it was before an outage, or the ceiling as long as there was no trouble;
   beyond that it begins slowly, and after a cut that soon followed on growth it waits, each time for twice as long.
   Nothing grows that was not all in use: what nobody tried is not known to work.
5. Slots stay between floor and ceiling, tokens between a share and a multiple of the KV cache.
"""

from __future__ import annotations

import math

from backends.engine import EngineView
from backends.governor import Load

_GROW = 1 / 32  # of itself, beyond the goal; once more for each
_STREAK = 4  # times in a row, up to
_FASTEST = 1 / 4  # of itself
_MOST_PATIENCE = 15  # times that it could have grown, after cuts that soon followed on growth
_LEAST_KEPT = 0.5  # of what was in use, after one cut
_MEMORY_KEPT = 0.9  # of the tokens, when memory is short
_VERY_LATE = 2.0  # times what is late: from there on fewer are kept
_LATE_KEPT = 0.8  # of the slots, when first bytes are late: at most
_FULL, _SCARCE = 0.9, 0.7  # of the KV cache: from the one on no more is asked of it, below the other it is not what is short
_FEW_WAIT = 1 / 32  # of what runs: they came since the engine's last step
_SOME_WAIT, _OTHERS_WAIT = 4.0, 1 / 8  # of what runs: more than what comes by chance, where it is not the slots that let it in
_DRAINED = 1.05
_RECOVERED = 0.25  # of what it had
_LEAST_TOKENS, _MOST_TOKENS = 1 / 16, 16.0  # of the KV cache; shared prefixes are counted here for each request
_LATE = 2.5  # times what is usual, and
_SLACK = 0.05  # seconds
_FEW_LATE = 1 / 8
_ROUND = 1.0  # seconds, at least, and so many first bytes:
_ROUND_BYTES = 6
_SETTLING = 0.5  # seconds after a change: those that it let in come all at once, and wait for one another,
_HOPELESS = 4.0  # but not so many times what is late
_LEARN = 0.1  # weight of one first byte
_MOST_BUCKET = 24


class _Bound:
    """Something of which there may be so much in use at once."""

    __slots__ = ("_calm", "_ceiling", "_floor", "_goal", "_patience", "_streak", "value")

    def __init__(self, floor: float, ceiling: float, start: float, goal: float) -> None:
        self._floor = floor
        self._ceiling = ceiling
        self._goal = goal
        self._calm = self._patience = self._streak = 0
        self.value = start

    def grow(self, in_use: float) -> None:
        """More: `in_use` was no trouble, whatever the bound said."""
        value = self.value
        if value < self._goal:
            value = min(self._goal, max(2 * value, in_use))
        else:
            self._calm += 1
            if self._calm <= self._patience:
                return
            self._streak += 1
            value += max(1.0, value * min(_FASTEST, _GROW * (1 + self._streak // _STREAK)))
        self.value = min(value, self._ceiling)

    def shrink(self, in_use: float, kept: float) -> None:
        if self._streak:
            self._patience = 0 if self._streak >= _STREAK else min(_MOST_PATIENCE, 2 * self._patience + 1)
        self._calm = self._streak = 0
        self.value = self._goal = max(self._floor, min(self.value, in_use) * kept)

    def fall_back(self) -> None:
        self._goal = max(self._goal, self.value)
        self.value = max(self._floor, self.value * _RECOVERED)


class Adaptive:
    """`most_tokens`: never more, whatever the engine says. `fresh`: seconds that the engine's word is good for."""

    __slots__ = (
        "_at", "_base", "_changed", "_count", "_excess", "_floor", "_fresh", "_kv_tokens", "_late", "_memory", "_most_tokens",
        "_preemptions", "_seats", "_waited", "reason", "slots", "tokens",
    )  # fmt: skip

    wants_engine = True

    def __init__(self, floor: int, ceiling: int, *, most_tokens: int | None = None, fresh: float = 7.0) -> None:
        self._floor = min(floor, ceiling)
        self._seats = _Bound(self._floor, ceiling, self._floor, ceiling)
        self._memory: _Bound | None = None
        self._kv_tokens: float | None = None
        self._most_tokens = math.inf if most_tokens is None else float(most_tokens)
        self._fresh = fresh
        self._at = -math.inf  # when the engine told
        self._preemptions: float | None = None
        self._waited = 0.0  # requests, at the last look
        self._base: dict[int, float] = {}  # seconds to the first byte while little runs, by size of prompt
        self._changed = -math.inf  # when a round of first bytes began
        self._count = self._late = 0
        self._excess = 0.0
        self.slots = self._floor
        self.tokens = self._most_tokens
        self.reason = "start"

    def wants_first_byte(self, now: float) -> bool:
        return not self._is_fresh(now)

    def recovered(self) -> bool:
        self._seats.fall_back()
        return self._tell("recovered")

    # -- the engine's own word

    def engine(self, view: EngineView, load: Load, now: float) -> bool:
        before, self._at = (self.slots, self.tokens), now
        self._learn_memory(view.kv_tokens)
        self._look(view, load)
        return before != (self.slots, self.tokens)

    def _look(self, view: EngineView, load: Load) -> None:
        restarted, preempted = self._preempted(view.preemptions)
        few = view.running * _FEW_WAIT
        wait, self._waited = min(view.waiting, self._waited), view.waiting
        peak, load.peak = load.peak, load.inflight
        if restarted:
            self.recovered()
        elif preempted or wait > few:
            self._cut(view, wait, load, peak, preempted=preempted)
        elif view.waiting <= few and (view.usage is None or view.usage < _FULL):
            self._grow(load, peak)

    def _preempted(self, preemptions: float | None) -> tuple[bool, bool]:
        """Whether the engine was started anew since the last look, and whether it preempted."""
        before, self._preemptions = self._preemptions, preemptions
        if before is None or preemptions is None:
            return False, False
        return preemptions < before, preemptions > before

    def _learn_memory(self, kv_tokens: float | None) -> None:
        if kv_tokens is not None and kv_tokens != self._kv_tokens:
            self._kv_tokens = kv_tokens
            most = min(kv_tokens * _MOST_TOKENS, self._most_tokens)
            start = min(kv_tokens, most)
            self._memory = _Bound(min(kv_tokens * _LEAST_TOKENS, most), most, start, start)
            self.tokens = start

    def _cut(self, view: EngineView, wait: float, load: Load, peak: int, *, preempted: bool) -> None:
        """So many have waited from one look to the next. Is it memory, are it seats, or do others use the engine, too?"""
        usage = _SCARCE if view.usage is None else view.usage
        seats, tokens = peak >= self.slots, self._tokens_in_use(load)
        kept = max(_LEAST_KEPT, view.running / (view.running + wait)) if wait else _MEMORY_KEPT
        memory = preempted or usage >= _FULL or (tokens and not seats and usage >= _SCARCE)
        if memory and self._memory is not None:
            if load.tokens <= self._memory.value * _DRAINED:
                self._memory.shrink(load.tokens, _MEMORY_KEPT)
                self._tell("memory")
            return
        many = wait > max(_SOME_WAIT, view.running * _OTHERS_WAIT)
        if (memory or seats or many) and load.inflight <= self.slots * _DRAINED + 1:
            self._seats.shrink(peak, kept)
            self._tell("memory" if memory else "waiting")

    def _tokens_in_use(self, load: Load) -> bool:
        """One more request like those that it has would be too much."""
        return self._memory is not None and load.tokens * (1 + 1 / max(1, load.inflight)) > self._memory.value

    # -- first bytes

    def first_byte(self, prompt: int, began: float, load: Load, now: float) -> bool:
        bucket = min(prompt.bit_length(), _MOST_BUCKET)
        usual, seconds = self._base.get(bucket), now - began
        if load.inflight <= max(self._floor, self.slots // 2):
            self._base[bucket] = seconds if usual is None else usual + (seconds - usual) * _LEARN
        if usual is None or self._is_fresh(now) or began < self._changed:
            return False
        excess = seconds / (_LATE * usual + _SLACK)
        if began < self._changed + _SETTLING and excess <= _HOPELESS:
            return False
        self._count += 1
        self._late += excess > 1
        self._excess += excess
        if self._changed == -math.inf:
            self._changed = now
        enough = self.slots // 8 if self._late >= self._count / 2 else self.slots // 4
        if self._count < max(_ROUND_BYTES, enough) or now - self._changed < _ROUND:
            return False
        return self._end_round(load, now)

    def _end_round(self, load: Load, now: float) -> bool:
        late, excess, peak = self._late / self._count, self._excess / self._count, load.peak
        self._changed, self._count, self._late, self._excess, load.peak = now, 0, 0, 0.0, load.inflight
        if late >= 1 / 2:
            self._seats.shrink(peak, max(_LEAST_KEPT, min(_LATE_KEPT, _VERY_LATE / excess)))
            return self._tell("late")
        return late <= _FEW_LATE and self._grow(load, peak)

    # -- both

    def _is_fresh(self, now: float) -> bool:
        return now - self._at <= self._fresh

    def _grow(self, load: Load, peak: int) -> bool:
        if peak >= self.slots:
            self._seats.grow(peak)
        if self._memory is not None and self._tokens_in_use(load):
            self._memory.grow(load.tokens)
        return self._tell("room")

    def _tell(self, reason: str) -> bool:
        slots, tokens = int(self._seats.value), self.tokens if self._memory is None else self._memory.value
        if slots == self.slots and tokens == self.tokens:
            return False
        self.slots, self.tokens, self.reason = slots, tokens, reason
        return True
