"""Parsed answers of several models to the same questions, to replay a cascade without any of them.

    {"id", "gold", "answers": {model: answer}}     optional: dataset, out_chars {model: characters of its whole reply}

An answer is a text or a number; null where none could be read out of the reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.lab.routing.data import MAX_ROWS, BadData, lines

Answer = str | float | None


@dataclass(frozen=True, slots=True)
class Question:
    """`answers` by model, None where none was found; `chars`: the length of the reply, where it is known."""

    id: str
    dataset: str
    gold: str
    answers: dict[str, str | None]
    chars: dict[str, float]

    def right(self, model: str) -> bool:
        return self.answers[model] == self.gold


class _Line(msgspec.Struct):
    id: str | int
    gold: str | float
    answers: dict[str, Answer]
    dataset: str = ""
    out_chars: dict[str, float | None] = {}


_DECODER = msgspec.json.Decoder(_Line)


def load_answers(path: Path) -> list[Question]:
    """Raises BadData."""
    found = []
    for number, line in lines(path):
        where = f"{path}:{number}"
        try:
            it = _DECODER.decode(line)
        except msgspec.ValidationError as error:
            raise BadData(f"{where}: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadData(f"{where}: not JSON: {error}") from None
        answers = {model: None if answer is None else text_of(answer) for model, answer in it.answers.items()}
        chars = {model: float(count) for model, count in it.out_chars.items() if count is not None and count >= 0}
        found.append(Question(str(it.id), it.dataset, text_of(it.gold), answers, chars))
        if len(found) > MAX_ROWS:
            raise BadData(f"{path}: more than {MAX_ROWS:,} rows")
    if not found:
        raise BadData(f"{path}: no rows in it")
    return found


def text_of(answer: str | float) -> str:
    """As a model would end its reply: 18.0 is "18"."""
    return answer.strip() if isinstance(answer, str) else f"{answer:.12g}"
