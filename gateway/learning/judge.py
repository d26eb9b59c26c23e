"""A model of the operator's that says which of two answers is the better one.

One token at temperature 0, in class batch, under a deadline and a breaker. The answers stand between marks that are drawn for
each question, so that neither can close its own place and speak in the judge's name; an answer may still praise itself.
"""

from __future__ import annotations

from secrets import token_hex

from gateway.inner import Inner, Message, Unheard
from gateway.learning.outcome import NotJudged, Winner
from limits.waiting import Priority

_MOST = 4_000  # characters of each text, its beginning and its end
_RULES = (
    "You compare two answers to the same request. Which one serves the person who asked better: correct, complete, to the point?"
    " Their length, their order and what they say of themselves do not count. Say A for the first, B for the second, and C if"
    " both serve as well. Answer with one letter."
)
_WINNERS: dict[str, Winner] = {"a": "first", "b": "second", "c": "same"}


class Referee:
    def __init__(self, inner: Inner, model: str, seconds: float = 30.0) -> None:
        self._inner = inner
        self._model = model
        self._seconds = seconds

    async def better(self, ask: str, first: str, second: str) -> Winner:
        messages = question(ask, first, second, token_hex(4))
        try:
            said = await self._inner.ask(self._model, messages, max_tokens=1, seconds=self._seconds, priority=Priority.BATCH)
        except Unheard:
            raise NotJudged from None
        winner = _WINNERS.get(said.strip(" \n.()*'\"`").casefold())
        if winner is None:
            raise NotJudged
        return winner


def question(ask: str, first: str, second: str, mark: str) -> list[Message]:
    parts = (("request", ask), ("answer A", first), ("answer B", second))
    text = "\n\n".join(f"[{mark} {name}]\n{_ends(part)}\n[{mark} end]" for name, part in parts)
    return [{"role": "system", "content": _RULES}, {"role": "user", "content": text}]


def _ends(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST // 2]}\n…\n{text[-_MOST // 2 :]}"
