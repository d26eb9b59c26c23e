"""The doctor asks the remote classifier."""

import json

import pytest
from doctor_talk import config

from gateway.config import parse
from gateway.doctor.classifier import ClassifierFacts, judge


async def told(doctor, serve, answer, **classifier):
    engine = await serve()
    other = await serve({"/classify": (200, answer)})
    url = f"http://127.0.0.1:{other.port}/classify"
    own = {"kind": "remote", "url": url, "deadline": "10s", **classifier}
    await doctor(config(f"http://127.0.0.1:{engine.port}/v1", routing={"classifier": own}))
    return [(line.severity, line.what) for line in doctor.lines if line.key == "routing.classifier.url"]


async def test_one_that_answers(doctor, serve):
    """Its number is told."""
    [(severity, what)] = await told(doctor, serve, json.dumps({"data": [{"probs": [0.25, 0.75]}]}).encode())
    assert (severity, what[:40]) == ("ok", "the classifier rated a sentence 0.75 in ")


@pytest.mark.parametrize(("seconds", "severity"), [(0.02, "ok"), (0.03, "warn")])
def test_one_that_is_slow(seconds, severity):
    """What takes more than half of the deadline is warned of."""
    models = 'models: [{name: s, replicas: [{name: a, url: "http://127.0.0.1:1/v1"}]}]'
    known = parse(models + '\nrouting: {classifier: {kind: remote, url: "http://127.0.0.1:2/x"}}', "config.yaml", {})
    [finding] = judge(ClassifierFacts("answered", 0.5, seconds), known)
    assert finding.severity == severity


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"data": [{"probs": [0, 2]}]}'])
async def test_one_that_gives_no_number(doctor, serve, answer):
    """The number must be where the config says, and from 0 to 1."""
    assert await told(doctor, serve, answer) == [("fail", "the classifier gave no number from 0 to 1")]
