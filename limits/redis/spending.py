"""Budgets of the limiter: what the server says of them, and what it is told."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

from limits.budget import day_of, room_in, standing_of
from limits.redis.budgets import TODAY
from limits.redis.line import Away, Line
from limits.redis.names import Known
from limits.redis.parts import Parts
from limits.redis.scripts import READ, SET_BACK, Script
from limits.redis.words import Words
from limits.types import Budgeted, LimitsAway

_used = struct.Struct(">3q")
SIZE = _used.size  # of what an answer says of one


class Spending:
    """`parts`: for while the server is away."""

    def __init__(self, line: Line, words: Words, wall: Callable[[], float]) -> None:
        self._line = line
        self._words = words
        self._wall = wall
        self._charges = count(1)
        self.parts = Parts(wall)

    def standing(self, budgeted: Sequence[Known]) -> list[Budgeted]:
        """As of the last answer."""
        today = day_of(self._wall())
        return [standing_of(known.scope, known.used.at(today)) for known in budgeted]

    async def ask(self, budgeted: Sequence[Known]) -> list[Budgeted]:
        with suppress(Away):
            await self._ask(READ, budgeted)
        return self.standing(budgeted)

    async def set_back(self, budgeted: Sequence[Known]) -> None:
        """Raises LimitsAway."""
        try:
            await self._ask(SET_BACK, budgeted)
        except Away:
            raise LimitsAway from None

    def decided(self, budgeted: Sequence[Known], answer: bytes, tokens: int, *, fits: bool, clamp: bool, least: int) -> int:
        """The day of the budgets that an answer says were debited; 0: of none. Raises LimitExceeded when one did not hold it."""
        if not budgeted:
            return 0
        _learn(budgeted, answer)
        if not fits:
            scopes, accounts = [known.scope for known in budgeted], [known.used for known in budgeted]
            room_in(scopes, accounts, tokens, clamp=clamp, least=least, now=self._wall())
        return budgeted[0].used.day

    def fit(self, budgeted: Sequence[Known], tokens: int, *, clamp: bool, least: int) -> int:
        """How many of them the budgets held when they were last heard of. Raises LimitExceeded."""
        now = self._wall()
        scopes, accounts = [known.scope for known in budgeted], [known.used.at(day_of(now)) for known in budgeted]
        return room_in(scopes, accounts, tokens, clamp=clamp, least=least, now=now)

    def fit_part(self, budgeted: Sequence[Known], tokens: int, *, clamp: bool, least: int) -> int:
        """The same of this node's parts, while the server is away."""
        return self.parts.fit(budgeted, tokens, clamp=clamp, least=least)[0]

    def correct_parts(self, scopes: Sequence[Known], day: int, more: int) -> None:
        budgeted = [known for known in scopes if known.budgeted]
        if day == TODAY:
            _, parts = self.parts.fit(budgeted, 0, clamp=False, least=0)
            for part in parts:
                part.add(more, part.day)
        else:
            self.parts.correct(budgeted, day, more)
        self.tell_parts()

    def tell_parts(self) -> None:
        """What was used while the server was away, once it is back."""
        if self._line.up:
            for known, day, tokens in self.parts.untold():
                self._line.say(*self._words.charge(known, next(self._charges), day, tokens))
                known.used.advance(day)
                known.used.add(tokens, day)

    async def _ask(self, script: Script, budgeted: Sequence[Known]) -> None:
        """Raises Away."""
        if budgeted:
            answer = await self._line.ask(script, self._words.read(budgeted), len(budgeted) * SIZE)
            _learn(budgeted, answer)


def _learn(budgeted: Sequence[Known], answer: bytes) -> None:
    """They are the last of it."""
    at = len(answer) - len(budgeted) * SIZE
    for known, values in zip(budgeted, _used.iter_unpack(answer[at:]), strict=True):
        known.used.day, known.used.today, known.used.month = values
