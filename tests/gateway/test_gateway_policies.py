"""Another policy is put in force under a running gateway: what is made of scores is made of its scores, in every process."""

import hashlib
from statistics import median

import pytest
from gateway_talk import ADMIN_KEY, ask, chat, lines, scrape, total

from gateway.learning.versions import Made, Versions
from routing.learned.file import write_policy
from routing.learned.shipped import shipped
from routing.learned.train import Row, train

ASK = "What is the sum of the first prime numbers below"
LEARNED = {
    "routing": {
        "classifier": {"kind": "learned"},
        "learning": {"path": "own"},
        "routes": {"raw": {"target": {"threshold": 0.25}}, "half": {"target": {"large": 0.5}}},
    }
}


@pytest.fixture(scope="module")
def policy():
    """One whose scores are all far above those of the policy that ships."""
    rows = [Row(f"{ASK} {number}", 0.0, 1.0) for number in range(60)]
    return train(rows, base=None, seed=0)


def middle(policy):
    return median(policy.scores)


def put(tmp_path, policy):
    versions, data = Versions(tmp_path / "own" / "policies"), write_policy(policy)
    versions.add(
        Made(version=policy.version, sha256=hashlib.sha256(data).hexdigest(), at=1.0, base="b", labels=100, until=1.0), data
    )
    return versions


def policies(stack):
    """The versions that are in force in the processes."""
    gateway = stack.gateway
    apart = [process.parts.own for process in (gateway.dispatcher, *gateway.workers)] if hasattr(gateway, "workers") else []
    return {own.pipeline.rules.classifier.policy.version for own in (apart or [gateway.parts])}


async def cut_of(stack, route):
    """The cut that a request meets."""
    seen = len(stack.log.lines)
    await ask(stack, chat(f"{ASK} {seen}", model=route))
    return (await lines(stack, seen + 1))[-1]["cut"]


async def explained(stack, route):
    question = {"tenant": "acme", "endpoint": "chat", "body": chat(ASK, model=route), "headers": {}}
    answer = await stack.client.post(
        f"{stack.url}/admin/explain", json=question, headers={"authorization": f"Bearer {ADMIN_KEY}"}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["route"]


@pytest.mark.parametrize("workers", [0, 2], ids=["one process", "dispatcher apart"])
async def test_the_cuts_are_the_new_policys_and_after_a_rollback_the_old_ones(start, tmp_path, policy, workers):
    """The usual threshold, its gauge, the cut of a share and what explain tells follow the policy; a threshold that somebody
    wrote does not.
    """
    stack = await start(LEARNED, workers=workers)
    assert middle(policy) > middle(shipped()) + 0.2
    versions = None
    for there in (shipped(), policy, shipped()):
        if there is policy:
            versions = put(tmp_path, policy)
        elif versions is not None:
            versions.roll_back()
        await stack.until(lambda there=there: policies(stack) == {there.version})
        assert await cut_of(stack, "auto") == pytest.approx(middle(there), abs=1e-4)
        assert await cut_of(stack, "half") == pytest.approx(middle(there), abs=0.05)
        assert await cut_of(stack, "raw") == 0.25
        assert (await explained(stack, "auto"))["threshold"] == pytest.approx(middle(there), abs=1e-4)
        found = await scrape(stack)
        assert total(found, "tiergate_route_target", route="auto", target="threshold") == pytest.approx(middle(there))
        assert total(found, "tiergate_route_target", route="raw", target="threshold") == 0.25


async def test_a_start_with_a_policy_in_force_begins_with_its_scores(start, tmp_path, policy):
    """Not with those of the policy that ships."""
    put(tmp_path, policy)
    stack = await start(LEARNED)
    assert await cut_of(stack, "auto") == pytest.approx(middle(policy), abs=1e-4)
    assert await cut_of(stack, "half") == pytest.approx(middle(policy), abs=0.05)
