"""A model as the judge of what the semantic cache may serve: would one answer serve both questions? Do two answers agree?

One token, yes or no, at temperature 0. What all questions have in common comes first, so that engines find it in their prefix
cache. Another word, or more than one, is a no for what is to be served, and nothing at all for what is compared.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from caches.verify.types import VerifierAway
from gateway.inner import Inner, Message, Unheard
from gateway.job import Job
from limits.waiting import Priority

_MOST = 2_000  # characters of each text
_YES = frozenset({"yes", "是", "是的"})
_NO = frozenset({"no", "否", "不", "不是"})
_SERVES = (
    "You compare two questions that users asked an assistant. Say yes only if one and the same answer would be right and complete"
    " for both. Different numbers, names, dates, places, units, directions, negations, languages, formats or scopes mean no."
    " Answer with one word: yes or no."
)
_AGREE = (
    "You compare two answers to the same question. Say yes if a user would learn the same from both, however they are worded,"
    " and no if they contradict each other or one of them answers something else. Answer with one word: yes or no."
)


class Verifier:
    def __init__(
        self,
        inner: Inner,
        model: str,
        seconds: float,
        clock: Callable[[], float],
        *,
        all: bool = False,  # noqa: A002 - the config's word
    ) -> None:
        self._inner = inner
        self._clock = clock
        self.all = all
        self._model = model
        self._seconds = seconds

    async def serves_both(self, job: Job, question: str, kept: str) -> bool:
        """Raises VerifierAway."""
        messages = _pair(_SERVES, "First question", kept, "Second question", question)
        seconds, priority = self._patience(job), job.wishes.priority
        try:
            said = await self._inner.ask(self._model, messages, max_tokens=1, seconds=seconds, priority=priority)
        except Unheard as unheard:
            raise VerifierAway(unheard.reason) from None
        return yes_or_no(said) is True

    def _patience(self, job: Job) -> float:
        """Half of what its client still waits, at most: a no leaves the rest to the model."""
        deadline = job.wishes.deadline
        return self._seconds if deadline is None else min(self._seconds, max(0.0, job.arrived + deadline - self._clock()) / 2)


class Judge:
    def __init__(self, inner: Inner, model: str, seconds: float = 30.0) -> None:
        self._inner = inner
        self._model = model
        self._seconds = seconds

    async def agree(self, kept: str, fresh: str) -> bool | None:
        """None: it did not say."""
        messages = _pair(_AGREE, "First answer", kept, "Second answer", fresh)
        try:
            said = await self._inner.ask(self._model, messages, max_tokens=1, seconds=self._seconds, priority=Priority.BATCH)
        except Unheard:
            return None
        return yes_or_no(said)


def yes_or_no(said: str) -> bool | None:
    """None: it is neither of the two words, but for white space and punctuation around it."""
    word = said.strip("".join(filter(_is_aside, set(said)))).casefold()
    return True if word in _YES else False if word in _NO else None


def _is_aside(char: str) -> bool:
    return char.isspace() or char == "`" or unicodedata.category(char).startswith("P")


def _pair(instruction: str, first: str, one: str, second: str, other: str) -> list[Message]:
    text = f"{first}:\n{one[:_MOST]}\n\n{second}:\n{other[:_MOST]}"
    return [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
