"""Percentiles, goodput and rates: from samples to figures."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.lab.load.sample import Outcome, Sample
from gateway.lab.load.slo import Slo

pytest.importorskip("hdrh.histogram", reason="hdrhistogram is not installed (the extra `load`)", exc_type=ImportError)

from gateway.lab.load.doubts import doubts
from gateway.lab.load.histogram import POINTS, Histogram
from gateway.lab.load.measures import MAX_LABELS, OTHER, Measures
from gateway.lab.load.report import Course, document
from gateway.lab.load.table import table

COURSE = Course({"url": "u", "model": "m", "arrivals": "poisson 1/s"}, "2030-01-01T00:00:00+00:00", 10.0, 1.0, False)


def sample(due=0.0, *, ttft=0.1, tokens=11, tpot=0.01, outcome=Outcome.OK, **more):
    first = due + ttft
    last = first + tpot * (tokens - 1)
    return Sample(due, due, last, outcome, first=first, last=last, output_tokens=tokens, **more)


@settings(max_examples=30)
@given(st.lists(st.floats(1e-6, 3000), min_size=1, max_size=100))
def test_percentiles_are_those_of_the_sorted_values(values):
    """The nearest rank, within three significant digits or a microsecond."""
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    ordered = sorted(values)
    summary = histogram.summary()
    for name, percentile in POINTS.items():
        exact = ordered[math.ceil(round(percentile * len(ordered) / 100, 6)) - 1]
        assert summary[name] == pytest.approx(exact * 1e3, rel=2e-3, abs=2e-3)
    assert summary["max"] == pytest.approx(max(values) * 1e3, abs=1e-3)
    assert summary["mean"] == pytest.approx(sum(values) / len(values) * 1e3, rel=1e-6, abs=1e-3)


def test_a_histogram_can_be_read_elsewhere():
    """What is encoded is decoded by the library to the same counts."""
    from hdrh.histogram import HdrHistogram

    histogram = Histogram()
    for number in range(1, 1001):
        histogram.record(number / 1000, 2)
    decoded = HdrHistogram.decode(histogram.encoded())
    assert decoded.get_total_count() == 2000
    assert decoded.get_value_at_percentile(50) / 1e6 == pytest.approx(0.5, rel=2e-3)


def test_nothing_recorded_and_too_much():
    """Nothing is None, not zero; more than an hour counts as one, and its maximum is told as it was."""
    histogram = Histogram()
    assert histogram.summary()["p50"] is None
    histogram.record(-1.0)
    histogram.record(1e6)
    assert histogram.summary()["max"] == 1e9
    assert histogram.at(100) == pytest.approx(3600, rel=2e-3)


@pytest.mark.parametrize(
    ("slo", "met"),
    [
        ("ttft=100ms", True), ("ttft=99ms", False), ("tpot=10ms", True), ("tpot=9ms", False), ("e2e=200ms", True),
        ("e2e=199ms", False), ("ttft=100ms,tpot=10ms,e2e=200ms", True), ("ttft=1s, tpot=1ms", False),
    ],
)  # fmt: skip
def test_goodput_takes_all_targets(slo, met):
    """A request is good when every target is met, to the millisecond."""
    exact = Sample(0.0, 0.0, 0.2, Outcome.OK, first=0.1, last=0.2, output_tokens=11)
    assert Slo.parse(slo).met(exact) is met


def test_what_meets_no_target_and_what_has_none():
    """No failure is good however quick; one token has no TPOT to miss; no token has no TTFT to meet."""
    slo = Slo.parse("ttft=10s,tpot=10s,e2e=10s")
    assert not any(slo.met(sample(outcome=outcome)) for outcome in Outcome if outcome is not Outcome.OK)
    assert slo.met(sample(tokens=1))
    assert not slo.met(Sample(0.0, 0.0, 0.1, Outcome.OK))


@pytest.mark.parametrize("text", ["", "ttft", "ttft=", "ttft=fast", "ttft=-1s", "itl=3ms", "ttft=1s,ttft=2s", "ttft=1s,"])
def test_what_is_no_slo_is_refused(text):
    """With an example of one."""
    with pytest.raises(ValueError, match="ttft"):
        Slo.parse(text)


def measured(samples, slo="ttft=200ms", dropped=0):
    measures = Measures(Slo.parse(slo))
    measures.begin(0.0)
    for one in samples:
        measures.arrived(one.due)
        measures.add(one)
    for number in range(dropped):
        measures.arrived(float(number))
        measures.drop(float(number), measured=True)
    measures.finish()
    return measures


def test_goodput_is_of_all_that_arrived():
    """Failures and what this client dropped are in the denominator."""
    samples = [sample(1.0), sample(2.0, ttft=0.3), sample(3.0, outcome=Outcome.CUT)]
    measures = measured(samples, dropped=1)
    assert measures.goodput == 0.25
    assert document(measures, COURSE)["goodput"]["good"] == 1


def test_latencies_are_of_good_answers_only():
    """A quick error makes no percentile better."""
    measures = measured([sample(ttft=0.5), *(sample(ttft=0.001, outcome=Outcome.HTTP_ERROR) for _ in range(99))])
    assert measures.histograms["ttft"].summary()["p50"] == pytest.approx(500, rel=2e-3)
    assert document(measures, COURSE)["requests"]["failed"] == {"http_error": 99}


def test_labels_of_a_server_are_bounded():
    """A server that tells ever new values fills no memory."""
    measures = measured([sample(labels={"tier": str(number)}, code=str(number)) for number in range(1000)])
    assert len(measures.labels["tier"]) == MAX_LABELS + 1
    assert measures.labels["tier"][OTHER] == measures.codes[OTHER] == 1000 - MAX_LABELS


def test_the_document_keeps_its_form():
    """Names that scripts rest on: a change of them is a change of the schema."""
    told = document(measured([sample(1.0, labels={"tier": "small"}, status=200)]), COURSE)
    assert told["schema"] == "tiergate.load/1"
    assert list(told) == [
        "schema", "started_at", "parameters", "interrupted", "requests", "rates_per_s", "span_s", "goodput", "latency_ms",
        "tokens", "statuses", "errors", "tiergate", "generator", "warnings", "series", "histograms", "machine",
    ]  # fmt: skip
    assert list(told["latency_ms"]) == list(told["histograms"]) == ["ttft", "tpot", "itl", "e2e", "lag", "stall"]
    assert list(told["latency_ms"]["ttft"]) == ["count", "mean", "p50", "p90", "p95", "p99", "p99_9", "max"]
    assert list(told["requests"]) == ["arrivals", "dropped", "dropped_in_warmup", "ok", "failed"]
    assert list(told["rates_per_s"]) == ["arrivals", "ok", "good", "output_tokens", "prompt_tokens"]
    assert list(told["goodput"]) == ["slo", "good", "share", "per_s", "wanted_share", "met"]
    assert list(told["generator"]) == ["cpu_s", "cpu_share", "wall_s"]
    assert list(told["series"]["buckets"][0]) == ["at_s", "arrivals", "ok", "failed", "dropped", "ttft_mean_ms", "ttft_max_ms"]
    assert list(told["machine"]) == ["system", "architecture", "cores", "load_average", "python", "versions"]
    assert json.loads(json.dumps(told)) == told


def test_a_long_run_has_a_bounded_series():
    """A day in at most some hundred buckets, with nothing lost."""
    told = document(measured([sample(float(at)) for at in range(0, 86_400, 60)]), COURSE)
    assert len(told["series"]["buckets"]) <= 600
    assert sum(bucket["arrivals"] for bucket in told["series"]["buckets"]) == 1440


def test_a_run_of_nothing_is_told_too():
    """No division by zero, and dashes in the table."""
    told = document(measured([]), COURSE)
    assert told["goodput"] is None
    assert told["rates_per_s"]["ok"] is None
    assert "0 ok" in table(told)


def test_the_table_shows_the_doubts():
    """Loudly: what was dropped is not a detail."""
    text = table(document(measured([sample()], dropped=3), COURSE))
    assert "3 dropped here" in text
    assert "WARNING: 3 arrivals (75.0%) were DROPPED" in text


@pytest.mark.parametrize(
    ("lag", "stall", "cpu", "word"), [(0.05, 0, 0, "sent late"), (0, 0.05, 0, "stood still"), (0, 0, 0.95, "of a core")]
)
def test_own_slowness_is_a_doubt(lag, stall, cpu, word):
    """Lag, stall and CPU, each beside what was measured."""
    measures = measured([Sample(0.0, lag, 0.2, Outcome.OK, first=0.1, last=0.2, output_tokens=11)])
    measures.stalled(stall)
    assert [word in text for text in doubts(measures, cpu)] == [True]


def test_a_quiet_run_has_no_doubts():
    """A millisecond of lag beside 100 ms of latency is nothing to speak of."""
    measures = measured([Sample(0.0, 0.001, 0.2, Outcome.OK, first=0.1, last=0.2, output_tokens=11)])
    measures.stalled(0.001)
    assert doubts(measures, 0.5) == []
