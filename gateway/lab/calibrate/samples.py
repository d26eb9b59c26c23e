"""Lines of the journal → labelled requests, in the order of time.

Rules
- Of a request there may be a comparison of both tiers and feedback on the one that answered. Feedback is a person's word on that
  tier; where the two answers agreed it is one on both.
- The last word counts: of two comparisons, and of two scores.
- Requests are told apart by tenant, id and text: a client may use one id for many.
- At most MOST requests are taken, the newest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gateway.learning.line import Line, files, read
from routing.features import Reading
from routing.grams import AMOUNTS, Grams, grams_of
from routing.learned.train import Row

MOST = 10_000
_KEPT_LINES = 4 * MOST
_GOOD = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """A request; `mark` is the same for the same ask. `small` and `large`: how good each tier was, None where not known."""

    at: float
    mark: bytes
    grams: Grams
    text: str
    small: float | None
    large: float | None
    agreed: bool | None = None  # whether its answers do, where nothing but that was seen

    @property
    def paired(self) -> bool:
        return self.small is not None and self.large is not None

    def row(self) -> Row:
        return Row(self.text or self.mark.hex(), self.small, self.large)


@dataclass(slots=True)
class Gathered:
    samples: list[Sample] = field(default_factory=list)
    older: bool = False  # there were more, which were passed over for newer ones
    lines: int = 0
    bad: int = 0  # torn, or none of ours
    sources: dict[str, int] = field(default_factory=dict)

    def take(self, lines: Iterable[Line | None]) -> Iterator[Line]:
        """Those that are lines, counted."""
        for line in lines:
            self.lines += 1
            if line is None or (line.amounts is not None and len(line.amounts) != len(AMOUNTS)):
                self.bad += 1
            else:
                self.sources[line.source] = self.sources.get(line.source, 0) + 1
                yield line

    @property
    def paired(self) -> int:
        return sum(sample.paired for sample in self.samples)


def gather(paths: Iterable[Path], most: int = MOST) -> Gathered:
    """OSError where one cannot be read."""
    found = Gathered()
    lines: list[Line] = []
    for place in paths:
        for path in files(place):
            with suppress(*(() if path is place else (FileNotFoundError,))):  # a gateway removes what is too old
                lines += found.take(read(path))
            if len(lines) > 2 * _KEPT_LINES:
                lines = _newest(lines)
    requests: dict[tuple[str, str, bytes], list[Line]] = {}
    for line in _newest(lines):
        requests.setdefault((line.tenant, line.id, mark_of(line)), []).append(line)
    newest = sorted(requests.items(), key=lambda request: request[1][0].at)[-most:]
    found.samples = [_sample(mark, told) for (_, _, mark), told in newest]
    found.older = len(requests) > len(newest)
    return found


def mark_of(line: Line) -> bytes:
    """The same for the same ask."""
    if line.text is not None:
        return hashlib.blake2b(line.text.encode("utf-8", "replace"), digest_size=12).digest()
    return hashlib.blake2b(repr(sorted(line.grams or ())).encode(), digest_size=12).digest()


def _newest(lines: list[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: line.at)[-_KEPT_LINES:]


def _sample(mark: bytes, told: list[Line]) -> Sample:
    """`told` in the order of time."""
    compared = next((line for line in reversed(told) if line.source != "feedback"), None)
    rated = next((line for line in reversed(told) if line.source == "feedback"), None)
    small, large = _labels(compared, rated)
    last = told[-1]
    seen = compared is not None and compared.source == "agreement"
    agreed = compared.small == compared.large if seen and compared is not None else None
    return Sample(told[0].at, mark, _grams(last), last.text or "", small, large, agreed)


def _labels(compared: Line | None, rated: Line | None) -> tuple[float | None, float | None]:
    if compared is None or rated is None:
        one = compared or rated
        assert one is not None, "there is one of both"
        return one.small, one.large
    score = rated.small if rated.answered == "small" else rated.large
    if score is None:
        return compared.small, compared.large
    if compared.small == compared.large:  # both said the same
        return score, score
    if rated.answered == "small":
        return score, compared.large
    return (compared.small if score >= _GOOD else None), score  # what was held against a bad answer says nothing


def _grams(line: Line) -> Grams:
    if line.text is not None:
        return grams_of(line.text)
    told = [(place, amount) for place, amount in enumerate(line.amounts or ()) if amount]
    return Grams([], b"", dict.fromkeys(line.grams or ()), told, Reading({}, 0, known=True))
