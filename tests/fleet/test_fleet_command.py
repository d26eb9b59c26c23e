"""`tiergate simulate TRACE`: what it reads, and what it tells."""

import argparse
import io
import json
import random
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.lab.fleet.command import studies_of
from gateway.lab.fleet.policies import policy_of
from gateway.lab.fleet.servegen import ServeGen
from gateway.lab.fleet.study import Study, run
from gateway.lab.fleet.traces import Trace, keys_of
from gateway.lab.load.arrivals import Arrival
from gateway.lab.load.traces import TraceError
from gateway.lab.simulate.arguments import add_arguments

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"


def mooncake(path, rows):
    lines = [json.dumps({"timestamp": at, "input_length": it, "output_length": 5, "hash_ids": ids}) for at, it, ids in rows]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def trace(tmp_path):
    """Conversations on a clock that ticks every three seconds."""
    rng, rows = random.Random(1), []
    for number in range(120):
        family, depth = rng.randrange(8), rng.randrange(1, 6)
        rows.append((3000 * (number // 6), 512 * depth + 100, [0, *(family * 100 + it for it in range(1, depth + 1))]))
    return mooncake(tmp_path / "own.jsonl", rows)


def test_a_coarse_clock_is_noticed_and_spread(trace):
    """Requests that came at one tick come within the three seconds after it, another way for another seed; lengths stay."""
    jobs, others = Trace(trace).jobs(1), Trace(trace).jobs(2)
    assert Trace(trace).tick == 3.0
    assert len({job.at for job in jobs}) == 120
    assert [job.at for job in jobs] != [job.at for job in others]
    assert sorted(job.prompt for job in jobs) == sorted(job.prompt for job in others)
    assert [job.at for job in Trace(trace, tick=0.0).jobs(1)][:6] == [0.0] * 6


def test_ids_are_taken_for_what_stands_before_them_too():
    """The same id behind another beginning is another block, and only full blocks have a key."""
    first, second, third = keys_of([Arrival(0.0, 1, 1, ids) for ids in ((1, 2), (1, 3), (2, 3))])
    assert first[0] == second[0] != third[0]
    assert second[1] != third[1]


def test_it_tells_a_table_and_json_and_draws(trace, tmp_path, capsys):
    """Markdown for people, JSON for programs, a picture; the first policy is what others are compared with."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra `plots`)")
    few = ["simulate", str(trace), "--replicas", "2", "--seeds", "2", "--policy", "sticky", "--policy", "work_cost:1.5:100"]
    assert main(few) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "**own.jsonl**: 120 requests, 2 replicas, 2 seeds"
    assert [line.split("|")[1].strip() for line in lines[4:]] == ["sticky", "work_cost:1.5:100:8192"]
    picture = tmp_path / "curves.png"
    assert main([*few, "--json", "--speed", "1", "--speed", "2", "--png", str(picture)]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert [result["speed"] for result in document["results"]] == [1.0, 2.0]
    it = document["results"][0]["policies"][0]
    assert it["ttft_ratio"]["mean"] == 1.0
    assert it["hit"]["range"][0] <= it["hit"]["mean"] <= it["hit"]["range"][1]
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert main([*few, "--half", "second", "--requests", "40", "--png", str(picture)]) == 0
    assert "40 requests" in capsys.readouterr().out


def test_made_up_requests_come_at_the_rate_that_is_asked_for(capsys):
    """`--made` needs no trace; each kind is a table of its own."""
    few = ["simulate", "--made", "none", "--made", "common", "--requests", "200", "--rate", "4", "--seeds", "1"]
    assert main([*few, "--replicas", "2", "--policy", "work_cost", "--json"]) == 0
    one, other = json.loads(capsys.readouterr().out)
    assert one["results"][0]["policies"][0]["hit"]["mean"] == 0.0
    assert other["results"][0]["policies"][0]["hit"]["mean"] > 0.3


def test_agents_are_as_many_as_long_and_as_long_there_as_is_asked_for():
    """Each begins with its own tokens and no other's; with `--shift` they come in turn."""
    args = argparse.ArgumentParser()
    add_arguments(args)
    few = ["--made", "agents", "--agents", "4", "--beginning", "8192", "--rate", "5", "--seeds", "1", "--requests", "400"]
    (study,) = studies_of(args.parse_args(few))
    (shifts,) = studies_of(args.parse_args([*few, "--shift", "10s"]))
    heads = Counter(job.keys[:16] for job in study.draw(1))
    assert len(heads) == 4
    assert len({key for head in heads for key in head}) == 64
    assert min(heads.values()) > 60
    assert all(job.prompt > 8192 for job in study.draw(1))
    shifted = shifts.draw(1)
    assert {job.keys[0] for job in shifted if job.at < 10} == {shifted[0].keys[0]}
    assert len({job.keys[0] for job in shifted if job.at < 40}) == 4


@pytest.mark.parametrize(
    "mistake", [["--policy", "nobody", "--made", "none"], ["nowhere.jsonl"], ["--made", "none", "--png", "/nowhere/a.png"]]
)
def test_mistakes_are_told_in_a_line(capsys, mistake):
    """What is unknown or cannot be read or written is said before anything runs, and is exit code 2."""
    assert main(["simulate", *mistake]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("name", ["a.tar.gz", "a.jsonl"])
def test_a_file_that_is_no_trace_is_told_in_a_line(tmp_path, capsys, name):
    """No archive at all, requests without a length of their prompt: one line, whatever libraries have to say of it."""
    path = tmp_path / name
    path.write_text('{"timestamp": 0}\n{"timestamp": 3}\n', encoding="utf-8")
    assert main(["simulate", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "mistake", [["--prefill", "1,2"], ["--prefill", "1,2,x"], ["--error", "-1"], ["--replicas", "0"], ["--speed", "nan"]]
)
def test_figures_out_of_bounds_are_a_mistake(capsys, mistake):
    """Said by the command line."""
    with pytest.raises(SystemExit, match="2"):
        main(["simulate", "--made", "none", *mistake])
    assert mistake[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (["--replicas", "12"], "--replicas is about replicas, which need a TRACE or --made"),
        (["--sessions"], "--sessions is about replicas"),
        (["--speed", "1"], "--speed is about replicas"),
        (["--gatew", "2"], "--gateways is about replicas"),
        (["--made", "none", "--slots", "64"], "--slots is about the queue, and with a TRACE or --made"),
        (["--made", "none", "--mix", "one"], "--mix is about the queue"),
        (["--made", "none", "--policy", "work_cost@apart"], "work_cost@apart is about several gateways: say --gateways"),
        (["--made", "none", "--tell", "50ms"], "--tell is about several gateways: say --gateways"),
    ],
)
def test_an_option_that_would_say_nothing_is_a_mistake(capsys, command, complaint):
    """Of the other half of the command, or of several gateways with one; also where it is what it would be anyway."""
    assert main(["simulate", *command]) == 2
    assert complaint in capsys.readouterr().err


def archive(path, **members):
    with tarfile.open(path, "w:gz") as file:
        for name, text in members.items():
            info = tarfile.TarInfo("some/model/" + name.replace("__", "-").replace("_csv", ".csv").replace("_json", ".json"))
            info.size = len(text)
            file.addfile(info, io.BytesIO(text.encode()))
    return path


CLIENT = "0,2.0,1.0,Gamma,1.0,0.5\n600,0,0,,0,0\n1200,6.0,2.0,Weibull,0.6,0.1\n1800,0,0,,0,0\n"
LENGTHS = json.dumps({"0": {"input_tokens": "{100: 0.5, 300: 0.5}", "output_tokens": "{7: 1.0}"}})


def test_clients_of_servegen_come_as_their_windows_say(tmp_path):
    """From the busiest window on, at its rate, with their own lengths; the same for a seed."""
    clients = ServeGen([archive(tmp_path / "a.tar.gz", chunk__0__trace_csv=CLIENT, chunk__0__dataset_json=LENGTHS)])
    assert clients.busiest() == 1200.0
    jobs = clients.jobs(1, 2000)
    assert jobs == clients.jobs(1, 2000) != clients.jobs(2, 2000)
    assert {(job.prompt, job.output) for job in jobs} == {(100, 7), (300, 7)}
    assert pytest.approx(len(jobs) / (jobs[-1].at - jobs[0].at), rel=0.15) == 6.0
    early = clients.jobs(1, 100_000, begin=0.0)
    assert sum(job.at < 600 for job in early) == pytest.approx(1200, rel=0.1)
    assert not [job for job in early if 601 < job.at < 1200]


CODE = json.dumps({"0": {"input_tokens": "__import__('os')", "output_tokens": "{}"}})


@pytest.mark.parametrize(
    "members",
    [
        {"chunk__0__dataset_json": LENGTHS},
        {"chunk__0__trace_csv": "0,x,0,,0,0\n"},
        {"chunk__0__trace_csv": "0,1,1,Gamma\n"},
        {"chunk__0__trace_csv": CLIENT, "chunk__0__dataset_json": CODE},
        {"chunk__0__trace_csv": CLIENT, "chunk__0__dataset_json": "[]"},
    ],
)  # fmt: skip
def test_what_is_no_archive_of_servegen_is_refused(tmp_path, members):
    """Rates that are no numbers, lengths that are no tables, nothing at all: one message, no code is run."""
    with pytest.raises(TraceError):
        ServeGen([archive(tmp_path / "a.tar.gz", **members)])
    (tmp_path / "b.tar.gz").write_bytes(b"nothing")
    with pytest.raises(TraceError):
        ServeGen([tmp_path / "b.tar.gz"])


@pytest.mark.skipif(not TRACES.is_dir(), reason="the public traces are not here")
def test_the_public_traces_are_read(capsys):
    """Mooncake's, Azure's and ServeGen's forms, as they were published."""
    paths = [*TRACES.glob("mooncake/*.jsonl"), *TRACES.glob("azure*/*.csv"), *TRACES.glob("servegen/*.gz")]
    few = ["--requests", "300", "--seeds", "1", "--policy", "work_cost", "--json"]
    assert main(["simulate", *map(str, paths), *few]) == 0
    documents = json.loads(capsys.readouterr().out)
    assert [document["requests"] for document in documents] == [300, 300, 300]
    assert documents[0]["results"][0]["policies"][0]["hit"]["mean"] > 0.03


def test_the_sample_in_the_repository_shows_who_is_first():
    """On ten minutes of a chat service work cost beats the rules of others, as the documentation says."""
    trace = Trace(Path(__file__).parents[2] / "bench" / "traces" / "conversation-2000.jsonl.gz")
    policies = [policy_of(name) for name in ("work_cost", "sticky_18s", "aibrix", "least_requests")]
    document = run(Study("sample", trace.jobs, policies, (1.0,), (1, 2)))
    work, *others = document["results"][0]["policies"]
    assert all(other["ttft_ratio"]["range"][0] > 1.1 for other in others)
    assert all(other["good"]["mean"] < work["good"]["mean"] for other in others)
