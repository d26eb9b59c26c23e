"""The simulation itself: against formulas of queueing theory, paired over policies, and what it is asked and tells."""

import json
import math
import random
from collections import defaultdict
from itertools import islice
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.lab.load.traces import read
from gateway.lab.simulate.fleet import Fleet, Speed
from gateway.lab.simulate.measures import quantile, ranked
from gateway.lab.simulate.policies import BY_NAME, POLICIES
from gateway.lab.simulate.study import Source, Study, jobs_of, run
from gateway.lab.simulate.table import table
from gateway.lab.simulate.terms import Tenants
from gateway.lab.simulate.workload import PACES, Length, Pace, arrive, of_trace, synthetic

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"
ONE = Source("one", lambda rng: synthetic(rng, ("all",)))


def erlang_wait(slots, load, service):
    """The mean wait in an M/M/k queue."""
    offered = slots * load
    waiting = offered**slots / math.factorial(slots) / (1 - load)
    share = waiting / (sum(offered**i / math.factorial(i) for i in range(slots)) + waiting)
    return share * service / (slots * (1 - load))


@pytest.mark.parametrize(("slots", "load"), [(1, 0.5), (4, 0.7), (8, 0.8)])
def test_first_come_first_served_is_as_theory_says(slots, load):
    """With exponential gaps and services the mean wait is that of Erlang's formula, within what chance allows."""
    rng, waits, per_token = random.Random(slots), [], 1e-4
    for _ in range(3):
        lengths = [Length("a", "chat", 1, max(1, round(rng.expovariate(per_token))), None) for _ in range(8_000)]
        jobs = arrive(lengths, slots / 1.0, Pace("", load), rng)
        fleet = Fleet(jobs, BY_NAME["fcfs"], slots, Speed(0.0, per_token))
        fleet.run()
        waits += fleet.waits
    assert sum(waits) / len(waits) == pytest.approx(erlang_wait(slots, load, 1.0), rel=0.15)


def test_the_order_does_not_change_the_work():
    """Every policy keeps the slots busy for the same time, and the last is done at the same load."""
    study = Study(ONE, POLICIES, PACES, (1,), requests=1500)
    jobs = jobs_of(study, PACES[1], 1)
    assert jobs == jobs_of(study, PACES[1], 1) != jobs_of(study, PACES[1], 2)
    fleets = [Fleet(jobs, policy, 64, Speed()) for policy in POLICIES]
    for fleet in fleets:
        fleet.run()
        assert fleet.most_inflight == 64
    fcfs, sjf, *_ = (sum(fleet.waits) / len(jobs) for fleet in fleets)
    assert sjf < 0.6 * fcfs


def test_arrivals_have_the_load_that_they_are_told():
    """Over a long time as much comes as the pace says, three times as much in its bursts."""
    rng = random.Random(1)
    lengths = list(islice(synthetic(rng), 20_000))
    steady = arrive(lengths, 10.0, Pace("", 0.7), rng)
    assert len(steady) / steady[-1].at == pytest.approx(7.0, rel=0.03)
    pace = Pace("", 0.5, times=3.0, every=100.0, lasting=20.0)
    bursty = arrive(lengths, 10.0, pace, rng)
    inside = sum(job.at % 100.0 < 20.0 for job in bursty) / (bursty[-1].at * 0.2)
    outside = sum(job.at % 100.0 >= 20.0 for job in bursty) / (bursty[-1].at * 0.8)
    assert (inside, outside) == (pytest.approx(15.0, rel=0.05), pytest.approx(5.0, rel=0.05))


def test_our_order_does_what_it_is_for():
    """At load 0.95 with one tenant: at most 0.6 of the mean wait, 0.25 of the short answers' p95, three times the worst."""
    document = run(Study(ONE, [BY_NAME["fcfs"], BY_NAME["ours"]], PACES[1:2], (1, 2), requests=8000))
    told = document["results"][0]["policies"][1]
    assert told["mean"]["ratio"] <= 0.6
    assert told["short_p95"]["ratio"] <= 0.25
    assert told["worst"]["ratio"] <= 3


def test_rank_accuracy_is_of_pairs():
    """1 for a perfect order, 0 for its reverse, one half where nothing is told."""
    true = list(range(600))
    assert ranked(true, true) == 1.0
    assert ranked(true[::-1], true) == 0.0
    assert ranked([7] * 600, true) == 0.5
    assert ranked([1], [1]) is None


@pytest.mark.parametrize(
    ("name", "least"), [("azure-llm-2023/AzureLLMInferenceTrace_conv.csv", 0.7), ("mooncake/conversation_trace.jsonl", 0.5)]
)
def test_predictions_rank_public_traces(name, least):
    """From prompts' lengths alone the order of answers is told far better than by chance in one trace, hardly in the other."""
    if not (TRACES / name).exists():
        pytest.skip("the public traces are not here")
    rows = read(TRACES / name, limit=6000)
    document = run(Study(Source(name, lambda rng: of_trace(rows, rng)), POLICIES[:1], PACES[1:2], (1,), requests=6000))
    assert document["results"][0]["policies"][0]["rank_accuracy"] > least


def test_quantiles_of_few():
    """The worst of ten is their p95, and of none there is none."""
    assert quantile(list(range(10)), 0.95) == 9
    assert quantile([], 0.5) is None


def test_the_limiter_refuses_what_is_beyond_a_tenants_tokens():
    """With a limit, no tenant is served more than its burst and its rate; what is refused never begins; balances come to rest."""
    source = Source("uses", synthetic)
    jobs = jobs_of(Study(source, POLICIES, PACES, (1,), requests=4000), PACES[1], 1)
    fleet = Fleet(jobs, BY_NAME["ours"], 64, Speed(), Tenants(tpm=60_000))
    fleet.run()
    assert 0 < len(fleet.refused) < len(jobs)
    assert sorted([*fleet.begun, *fleet.refused]) == list(range(len(jobs)))
    assert not fleet._visits
    spent = defaultdict(int)
    for number in fleet.begun:
        spent[jobs[number].length.tenant] += jobs[number].length.prompt + jobs[number].length.output
    longest = max(job.length.output for job in jobs)
    assert max(spent.values()) <= 60_000 * (1 + fleet.timeline.now / 60) + 64 * longest
    document = run(Study(source, POLICIES[:1], PACES[1:2], (1,), requests=2000, tenants=Tenants(tpm=60_000)))
    assert "refused" in table([document])


def test_the_command_tells_a_table(capsys, tmp_path):
    """`tiergate simulate` prints Markdown for people, JSON for programs, and draws."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra `plots`)")
    few = ["simulate", "--requests", "300", "--seeds", "2", "--slots", "4", "--mix", "uses", "--load", "0.95"]
    assert main(few) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split("|")[2].strip() for line in told[4:]] == ["fcfs", "sjf", "hybrid", "ours"]
    picture = tmp_path / "waits.png"
    assert main([*few, "--json", "--policy", "ours", "--png", str(picture)]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert [it["policy"] for it in document["results"][0]["policies"]] == ["fcfs", "ours"]
    assert set(document["results"][0]["policies"][1]["tenants_mean_s"]) >= {"labels", "chat"}
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_a_trace_is_simulated(capsys, tmp_path):
    """The lengths of a file that `tiergate load` can read are taken, around and around."""
    trace = tmp_path / "own.csv"
    trace.write_text("time,prompt_tokens,output_tokens\n0,10,20\n1,30,40\n")
    assert main(["simulate", "--trace", str(trace), "--requests", "50", "--seeds", "1", "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert (document["source"], len(document["results"])) == ("own.csv", 3)


@pytest.mark.parametrize("mistake", [["--trace", "nowhere.csv"], ["--png", "/nowhere/at/all.png"]])
def test_mistakes_are_told_in_a_line(capsys, mistake):
    """What cannot be read or written is said before anything runs, and is exit code 2."""
    assert main(["simulate", *mistake]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
