"""What the small tier is asked before the dear one, what it says to that, and what it costs.

    samples     `n` = 2 in one call. A request that wants the most likely answer (temperature 0) is asked as it is, and if that
                stands up once more with a temperature: engines refuse two greedy answers in a call, and they would be the same
    models      two models of the cheapest tier, one call each; the second one is asked if the first one's answer stands up
    logprobs    one call that tells how likely each token was

The first answer is the one that may be passed on: its bytes, but for the choices beside it, log-probabilities that only we asked
for, and a usage that counts all calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal

import msgspec

from gateway import wire
from gateway.behind import Gathered
from gateway.exchange import Work
from gateway.opinions import Opinion, Result, Wants, opinions, result_of, wants_of
from gateway.usage import members_of, usage_of, with_usage
from routing.agreement import answer_of
from routing.cascade import Switch

MOST_ANSWER = 256 * 1024  # bytes of an answer that is looked at

Raw = msgspec.Raw
_list = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one route. `certainty`: least mean log-probability, where answers are checked by that; None: two must agree."""

    route: str
    certainty: float | None
    models: int  # of the cheapest tier that are asked
    temperature: float
    floor: float
    max_tokens: int
    charge: Literal["both", "answered"]
    switch: Switch


class Spent:
    """What the calls of the small tier have used, while the record of the work is lent to the next one."""

    __slots__ = ("cached", "charged", "completion", "prompt", "replica")

    def __init__(self) -> None:
        self.prompt = self.completion = self.charged = 0
        self.cached: int | None = 0
        self.replica = ""  # of the first call, whose answer may be passed on

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion

    def take(self, work: Work) -> None:
        """A call is over. Nobody is told of its cost yet: the work goes on."""
        self.prompt += work.prompt_tokens
        self.completion += work.completion_tokens
        self.charged += work.charged
        self.cached = None if work.cached_tokens is None or self.cached is None else self.cached + work.cached_tokens
        self.replica = self.replica or work.replica
        work.prompt_tokens = work.completion_tokens = work.charged = 0
        work.cached_tokens = None

    def give(self, work: Work) -> None:
        """The work is over, on whatever way."""
        if work.cascade == "answered":
            work.cached_tokens = self.cached
        work.prompt_tokens += self.prompt
        work.completion_tokens += self.completion
        work.charged += self.charged


class Tried:
    """One request's try: what is asked, what was heard."""

    def __init__(self, ask: wire.Ask, rules: Rules) -> None:
        self._ask, self._rules = ask, rules
        self._wants: Wants = wants_of(ask.fields)
        self._heard: list[Gathered] = []
        self._opinions: list[Opinion] = []
        self._read = 0
        self._owed = 0
        self.spent = Spent()

    def asks(self) -> Iterator[tuple[int, wire.Ask]]:
        """What the small tier is asked, and which model of it, one after the other, as long as what it says stands up."""
        rules, ask = self._rules, self._ask
        if rules.certainty is not None:
            yield 0, self._with(**_telling(ask))
        elif rules.models == 1 and not _is_greedy(ask.fields):
            yield 0, self._with(n=2)
        else:
            yield 0, ask
            if self.result() == "unchecked" and answer_of(self._opinions[0].text) is not None:
                yield (1, ask) if rules.models > 1 else (0, self._with(temperature=rules.temperature, top_k=None))

    def listen(self) -> Gathered:
        self._heard.append(Gathered(MOST_ANSWER))
        return self._heard[-1]

    def result(self) -> Result:
        for sink in self._heard[self._read :]:
            good = sink.whole and sink.head is not None and sink.head.status == HTTPStatus.OK and not sink.head.stream
            self._opinions += opinions(b"".join(sink.pieces), self._wants) if good else ()
        self._read = len(self._heard)
        return result_of(self._opinions, least=self._rules.certainty)

    def bill(self, cost: int) -> int:
        """What the tenant pays for a call. With `answered` nothing for those in vain, and for all once they were not."""
        if self._rules.charge == "both" or not self._heard[-1].pieces:  # it left before there was an answer
            return cost
        self._owed += cost
        return self._owed if self.result() == "answered" else 0

    def answer(self) -> bytes | None:
        """The first answer, as one that was asked for alone. None: it cannot be told so."""
        body = b"".join(self._heard[0].pieces)
        try:
            members = members_of(body)
            choice = _list(members["choices"])[0]
            if self._rules.certainty is not None and not self._ask.fields.get("logprobs"):
                choice = Raw(_encode({**members_of(choice), "logprobs": Raw(b"null")}))
            members["choices"] = Raw(_encode([choice]))
            body = _encode(members)
        except (msgspec.MsgspecError, RecursionError, UnicodeError, LookupError):
            return None
        return with_usage(body, self._later)

    @property
    def used(self) -> tuple[int, int]:
        """Tokens of prompts, and of answers."""
        return self.spent.prompt, self.spent.completion

    @property
    def _later(self) -> tuple[int, int]:
        """Of the calls after the first, which has its own usage."""
        if len(self._heard) < 2:
            return 0, 0
        first = usage_of(b"".join(self._heard[0].pieces))
        return max(0, self.spent.prompt - first[0]), max(0, self.spent.completion - first[1])

    def _with(self, **changes: Any) -> wire.Ask:
        values = {**self._ask.values, **{name: Raw(_encode(value)) for name, value in changes.items() if value is not None}}
        for name, value in changes.items():
            if value is None:
                values.pop(name, None)
        return wire.parse(_encode(values), self._ask.model)


def _is_greedy(fields: Mapping[str, Any]) -> bool:
    return fields.get("temperature") == 0 or fields.get("top_k") == 1


def _telling(ask: wire.Ask) -> dict[str, Any]:
    """What makes an engine tell log-probabilities; nothing where the client wants them too."""
    if ask.fields.get("logprobs"):
        return {}
    return {"logprobs": 0} if "prompt" in ask.fields else {"logprobs": True}
