"""What came of all requests after the warm-up: counts, histograms, and how it went over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.lab.load.histogram import Histogram
from gateway.lab.load.reading import Gaps
from gateway.lab.load.sample import Outcome, Sample
from gateway.lab.load.slo import Slo

NAMES = ("ttft", "tpot", "itl", "e2e", "lag", "stall")
MAX_LABELS = 50  # different values of one thing that a server tells; the rest is counted together
OTHER = "(other)"


@dataclass(slots=True)
class Second:
    """One second of the run, by when requests were due."""

    arrivals: int = 0
    ok: int = 0
    failed: int = 0
    dropped: int = 0
    ttft_sum: float = 0.0
    ttft_max: float = 0.0
    ttft_count: int = 0

    def add(self, sample: Sample) -> None:
        if not sample.ok:
            self.failed += 1
            return
        self.ok += 1
        if sample.ttft is not None:
            self.ttft_sum += sample.ttft
            self.ttft_count += 1
            self.ttft_max = max(self.ttft_max, sample.ttft)


class Measures:
    def __init__(self, slo: Slo | None) -> None:
        self.histograms = {name: Histogram() for name in NAMES}
        self.gaps: Gaps = {}
        self.slo = slo
        self.arrivals = 0
        self.dropped = 0
        self.dropped_in_warmup = 0
        self.good = 0
        self.outcomes: Counter[Outcome] = Counter()
        self.statuses: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.labels: dict[str, Counter[str]] = {}
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.cached_tokens = 0
        self.seconds: dict[int, Second] = {}
        self._begun = 0.0
        self._last_due = 0.0
        self._ended = 0.0

    def begin(self, at: float) -> None:
        """The warm-up ends at that time."""
        self._begun = self._ended = self._last_due = at

    @property
    def span(self) -> float:
        """Seconds from the end of the warm-up to the end of the last request."""
        return self._ended - self._begun

    def arrived(self, due: float) -> None:
        self.arrivals += 1
        self._last_due = due
        self._second(due).arrivals += 1

    def drop(self, due: float, *, measured: bool) -> None:
        if measured:
            self.dropped += 1
            self._second(due).dropped += 1
        else:
            self.dropped_in_warmup += 1

    def add(self, sample: Sample) -> None:
        self._ended = max(self._ended, sample.ended)
        self.outcomes[sample.outcome] += 1
        self._second(sample.due).add(sample)
        if sample.status:
            _count(self.statuses, str(sample.status))
        if sample.code:
            _count(self.codes, sample.code)
        for name, value in sample.labels.items():
            _count(self.labels.setdefault(name, Counter()), value)
        self.prompt_tokens += sample.prompt_tokens or 0
        self.output_tokens += sample.output_tokens or 0
        self.cached_tokens += sample.cached_tokens or 0
        self.good += self.slo is not None and self.slo.met(sample)
        self._time(sample)

    def stalled(self, seconds: float) -> None:
        self.histograms["stall"].record(seconds)

    def finish(self) -> None:
        """The gaps, which were only counted so far, become a histogram. Call it once."""
        for gap, count in self.gaps.items():
            if count:
                self.histograms["itl"].record(gap / 1e6, count)

    @property
    def ok(self) -> int:
        return self.outcomes[Outcome.OK]

    @property
    def goodput(self) -> float | None:
        """The share of all that arrived, also of what was dropped; None without an SLO."""
        return None if self.slo is None or not self.arrivals else self.good / self.arrivals

    def rates(self) -> Mapping[str, float | None]:
        """A second of `span`; arrivals a second of the time in which they came."""
        window = self._last_due - self._begun
        tokens = {"output_tokens": self.output_tokens, "prompt_tokens": self.prompt_tokens}
        counts = {"ok": self.ok, "good": self.good if self.slo is not None else None, **tokens}
        rates = {name: None if count is None or self.span <= 0 else round(count / self.span, 3) for name, count in counts.items()}
        return {"arrivals": round(self.arrivals / window, 3) if window > 0 else None, **rates}

    def _time(self, sample: Sample) -> None:
        """Of good answers only: an error that comes quickly is no speed. The lag is of all that were sent."""
        if sample.outcome is not Outcome.UNFINISHED:
            self.histograms["lag"].record(sample.lag)
        if not sample.ok:
            return
        self.histograms["e2e"].record(sample.e2e)
        for name, seconds in (("ttft", sample.ttft), ("tpot", sample.tpot)):
            if seconds is not None:
                self.histograms[name].record(seconds)

    def _second(self, due: float) -> Second:
        return self.seconds.setdefault(int(max(0.0, due - self._begun)), Second())


def _count(counter: Counter[str], value: str) -> None:
    counter[value if value in counter or len(counter) < MAX_LABELS else OTHER] += 1
