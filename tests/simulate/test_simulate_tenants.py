"""`tiergate simulate --tenant`: what single tenants do and may."""

import json

import pytest

from gateway.cli import main
from gateway.lab.simulate.policies import BY_NAME
from gateway.lab.simulate.study import Source, Study, jobs_of, run
from gateway.lab.simulate.table import table
from gateway.lab.simulate.terms import Tenants, Terms, parsed
from gateway.lab.simulate.workload import PACES, synthetic
from limits.waiting import Priority

TWO = Source("two", lambda rng: synthetic(rng, "ab"))
OURS = BY_NAME["ours"]


def study(requests=600, **terms):
    return Study(TWO, (OURS,), PACES[:1], (1,), requests=requests, slots=8, tenants=Tenants(terms))


def waits(of):
    return run(of)["results"][0]["policies"][0]


def test_the_others_send_what_they_send_anyway():
    """A tenant that sends more sends it between the others' requests, which stay as they are."""
    usual, more = (jobs_of(of, PACES[0], 1) for of in (study(), study(a=Terms(times=5))))
    assert [job for job in more if job.length.tenant == "b"] == [job for job in usual if job.length.tenant == "b"]
    own, before = ([job for job in jobs if job.length.tenant == "a"] for jobs in (more, usual))
    assert len(own) == 5 * len(before)
    assert set(before) <= set(own)


def test_a_reserved_share_is_given_to_its_owner():
    """Beside a flood of a heavier tenant the owner's waits are those of nobody else."""
    b = Terms(times=20, weight=50)
    before, after = waits(study(300, b=b)), waits(study(300, a=Terms(reserved=6), b=b))
    assert before["tenants_mean_s"]["a"] > 10 * after["tenants_mean_s"]["a"]
    fcfs = run(Study(TWO, (BY_NAME["fcfs"],), PACES[:1], (1,), requests=300, slots=8, tenants=Tenants({"b": b})))
    assert fcfs["results"][0]["policies"][0]["tenants_mean_s"]["a"] > 10


def test_limits_refuse_whom_they_are_for():
    """One tenant's slots and tokens are limited by the product's limiter; the others are not refused."""
    for terms in (Terms(times=20, max_parallel=2), Terms(times=20, tpm=5000)):
        document = run(study(a=terms))
        told = document["results"][0]["policies"][0]
        assert told["tenants_refused"]["b"] == 0 < told["tenants_refused"]["a"]
        assert "refused)" in table([document])


def test_terms_are_read():
    """Keys and values of one tenant, in one argument."""
    assert parsed(["a:times=3,weight=2,priority=batch", "b:reserved=4,tpm=5,max_parallel=6"]) == {
        "a": Terms(3, 2, Priority.BATCH),
        "b": Terms(reserved=4, tpm=5, max_parallel=6),
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a", "NAME:KEY=VALUE"),
        ("a:size=1", "'size' is none of times"),
        ("a:times=x", "whole number"),
        ("a:times=0", "whole number"),
        ("a:times=²", "whole number"),
        ("a:priority=urgent", "realtime, standard, batch"),
        ("z:times=1", "nobody is called so"),
        ("a:reserved=64", "one must be left"),
    ],
)
def test_mistakes_are_told(capsys, given, said):
    """In one line, with exit code 2, before anything runs."""
    assert main(["simulate", "--mix", "eight", "--tenant", given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_the_command_tells_each_tenants_waits(capsys):
    """In a table of their own, where some tenants are not like the others, and in JSON."""
    few = ["simulate", "--requests", "300", "--seeds", "1", "--slots", "4", "--mix", "eight", "--load", "0.7", "--policy", "ours"]
    assert main([*few, "--tenant", "a:times=5", "--tenant", "b:reserved=1"]) == 0
    assert "| load | tenant: mean, p99 | fcfs | ours |" in capsys.readouterr().out
    assert main([*few, "--tenant", "a:times=5", "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert document["tenants"] == ["a"]
    assert set(document["results"][0]["policies"][1]["tenants_p99_s"]) == set("abcdefgh")
