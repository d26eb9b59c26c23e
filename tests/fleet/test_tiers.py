"""Two pools in virtual time: what is sent, what the product's decisions make of it, and what the command tells."""

import gzip
import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cli import main
from gateway.lab.fleet.job import Job
from gateway.lab.fleet.traces import Trace
from gateway.lab.tiers.labels import Label, Labels, labels_of
from gateway.lab.tiers.study import BY_NAME, Study, result_of
from gateway.lab.tiers.work import pieces_of, talks_of
from gateway.lab.tiers.world import Fleet, World

DATA = Path(__file__).parents[3] / "shared" / "data"
EVEN = [place / 100 for place in range(100)]
LABELS = Labels([Label(float(score < 0.7), 1.0, score) for score in EVEN], EVEN)
SMALL = Fleet(small=2, large=1, slots=2)
WORDS = ["prove", "design", "hello", "capital", "story", "theorem", "sum", "poem", "cache", "proof"]


def jobs(count, gap, *, prompt=400, output=60, seed=0):
    rng = random.Random(seed)
    return [Job(number, number * gap * rng.uniform(0.9, 1.1), prompt, output) for number in range(count)]


def served(several, policy, *, fleet=SMALL, labels=LABELS, share=0.3, seed=1):
    pieces = pieces_of(sorted(several, key=lambda job: job.at), labels, 0.0, seed)
    world = World(pieces, BY_NAME[policy], fleet, share, labels.prior, seed)
    world.run()
    return world


def measured(world):
    study = Study("made up", list, lambda _: LABELS, [], [1.0], [1], fleet=SMALL)
    return result_of(world, study)


@pytest.fixture
def labels(tmp_path):
    rng = random.Random(3)
    rows = [
        {"prompt": f"{rng.choice(WORDS)} {rng.choice(WORDS)} {number}", "scores": {"s": rng.random(), "l": rng.random()}}
        for number in range(240)
    ]
    path = tmp_path / "labels.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    lines = ["time,prompt_tokens,output_tokens", *(f"{0.2 * number},300,20" for number in range(150))]
    path.write_text("\n".join(lines))
    return path


def test_a_conversation_is_what_shares_most_of_its_prompt():
    """Not what shares the first block, which is everybody's."""
    keys = [(1, 2, 3), (1, 2, 3, 4), (1, 9), (1, 9, 8, 7), (1, 2), (1,), (1,)]
    several = [Job(number, float(number), 2000, 10, it) for number, it in enumerate(keys)]
    assert talks_of(several) == [0, 0, 2, 2, 0, 5, 6]


def test_a_conversation_keeps_its_outcomes_and_a_follow_up_looks_easy():
    """Its later turns have the first one's label, and, of all of them if that is asked for, a score from the easiest quarter."""
    several = [Job(number, float(number), 2000, 10, (1, 2 + number % 10)) for number in range(200)]
    pieces = pieces_of(several, LABELS, 1.0, 1)
    first = pieces[:10]
    for piece in pieces[10:]:
        assert piece.later
        assert piece.label == first[piece.job.number % 10].label
        assert piece.score < 0.25
    assert not any(piece.later for piece in first)


@given(st.integers(0, 10), st.sampled_from(sorted(BY_NAME)))
@settings(max_examples=10)
def test_all_are_served_whatever_the_policy(seed, policy):
    """Each once, by the tier that was decided, and never before it came; nobody holds a slot in the end."""
    world = served(jobs(60, 0.2, seed=seed), policy, seed=seed)
    assert not world.refused
    for piece, decision in zip(world.pieces, world.decisions, strict=True):
        began, first = world.begins[piece.job.number], world.first[piece.job.number]
        assert not math.isnan(first)
        assert piece.job.at <= began <= first
        assert decision.target.name in ("small", "large")
    assert all(not pool.scheduler.inflight and not pool.scheduler.queue.load.requests for pool in world.pools.values())


def test_load_rules_bring_slots_in_time_and_leave_hard_work_up():
    """Where the large pool has too little for its share, what spills is nearest the cut; without load nothing moves."""
    several = jobs(500, 0.35)
    text, load = served(several, "text"), served(several, "load")
    one, other = measured(text), measured(load)
    assert one.spilled == one.borrowed == 0
    assert other.in_time > one.in_time + 0.1
    assert 0 < other.spilled < 0.3
    moved = [p.score for p, d in zip(load.pieces, load.decisions, strict=True) if d.move == "spilled"]
    stayed = [p.score for p, d in zip(load.pieces, load.decisions, strict=True) if d.target.name == "large"]
    assert max(moved) < max(stayed)
    assert sum(moved) / len(moved) < sum(stayed) / len(stayed)


def test_where_there_is_room_load_rules_do_nothing():
    """Paired: every decision is the same."""
    several = jobs(200, 3.0)
    text, load = served(several, "text"), served(several, "load")
    assert [d.target.name for d in text.decisions] == [d.target.name for d in load.decisions]
    assert text.first == load.first


def test_easy_work_borrows_what_is_idle():
    """A share of 2 % leaves the large pool idle while the small one is late."""
    fleet = Fleet(small=1, large=2, slots=2, dear=1.0)
    several = jobs(300, 0.35)
    text, load = served(several, "text", fleet=fleet, share=0.02), served(several, "load", fleet=fleet, share=0.02)
    assert measured(load).borrowed > 0.05
    assert measured(load).in_time > measured(text).in_time
    assert measured(load).quality >= measured(text).quality


def test_labels_are_split_from_what_the_classifier_learned(labels):
    """Half are judged, by the seed; the same ones every time."""
    pytest.importorskip("numpy", reason="numpy is not installed")
    found = labels_of(labels, "s", "l", "learned", 1)
    assert len(found.labels) == 120
    assert found == labels_of(labels, "s", "l", "learned", 1) != labels_of(labels, "s", "l", "learned", 2)
    assert all(label.score is None or 0 <= label.score <= 1 for label in found.labels)


def test_it_tells_a_table_and_json(trace, labels, capsys):
    """Markdown for people, JSON for programs; the first policy is what others are compared with."""
    few = ["simulate", str(trace), "--route", str(labels), "--models", "s,l", "--classifier", "rules", "--seeds", "2",
           "--policy", "text", "--policy", "load", "--small", "1", "--large", "1"]  # fmt: skip
    assert main(few) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("**trace.csv**: 150 requests, 1 cheap and 1 dear replicas of 32 slots, 30% may go up, 2 seeds")
    assert [line.split(" | ")[1] for line in lines[4:]] == ["text", "load"]
    assert main([*few, "--json"]) == 0
    [document] = json.loads(capsys.readouterr().out)
    assert [it["policy"] for it in document["results"][0]["policies"]] == ["text", "load"]
    assert document["results"][0]["policies"][0]["quality"]["against"] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--route", "LABELS"], "needs a trace"),
        (["TRACE", "--route", "LABELS", "--models", "s,nobody"], "0 prompts have scores of both"),
        (["TRACE", "--route", "TRACE"], "line 1: no prompt"),
        (["TRACE", "--route", "LABELS", "--policy", "best"], "no policy 'best'"),
        (["TRACE", "--route", "/nowhere.jsonl"], "No such file"),
    ],
)
def test_mistakes_are_one_line(trace, labels, capsys, words, said):
    """And exit code 2."""
    named = {"TRACE": str(trace), "LABELS": str(labels)}
    models = [] if "--models" in words else ["--models", "s,l"]
    assert main(["simulate", *(named.get(word, word) for word in words), *models, "--seeds", "1"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif(not DATA.is_dir(), reason="the public data is not here")
def test_the_public_traces_have_conversations_where_they_tell():
    """Mooncake's requests are turns of fewer conversations; Azure's stand alone."""
    mooncake = talks_of(Trace(DATA / "traces" / "mooncake" / "conversation_trace.jsonl", limit=3000).jobs(1))
    assert 0.3 < len(set(mooncake)) / len(mooncake) < 0.95
    azure = talks_of(Trace(DATA / "traces" / "azure-llm-2023" / "AzureLLMInferenceTrace_conv.csv", limit=500).jobs(1))
    assert len(set(azure)) == len(azure)
