"""Policies and the one in force: kept, followed, taken back."""

import asyncio
import hashlib
import os
import random
import sys

import pytest

from gateway.learning.following import Following
from gateway.learning.line import files
from gateway.learning.schedule import Schedule
from gateway.learning.versions import KEPT, BadVersions, Made, Versions
from routing.learned.file import BadPolicy, write_policy
from routing.learned.policy import Policy
from routing.learned.train import Row, train


@pytest.fixture(scope="module")
def policies():
    """Two that differ."""
    draw = random.Random(0)
    made = []
    for shift in (0, 1):
        rows = [
            Row(f"{'easy' if number % 2 else 'hard'} thing {draw.random()}", float(number % 2 == shift), 1.0)
            for number in range(40)
        ]
        made.append(train(rows, base=None, seed=0))
    return made


def add(versions, policy, **other):
    data = write_policy(policy)
    fields = {"version": policy.version, "at": 1.0, "base": "b", "labels": 100, "until": 1.0, **other}
    versions.add(Made(sha256=hashlib.sha256(data).hexdigest(), **fields), data)


@pytest.fixture
def versions(tmp_path):
    return Versions(tmp_path / "policies")


def pipe(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [pipe, endless])
async def test_what_is_no_file_is_not_waited_for(versions, policies, tmp_path, put):
    """A pipe or a device in place of the manifest or of a policy: the policy of before holds, and the next good one is taken."""
    add(versions, policies[0])
    judges = Judges(policies[0])
    following = Following(versions.folder, judges, policies[0])
    following.load()
    good = versions.manifest_path.read_bytes()
    versions.manifest_path.unlink()
    put(versions.manifest_path)
    async with asyncio.timeout(5):
        await following.look()
        with pytest.raises(BadVersions, match="regular"):
            versions.manifest()
    versions.manifest_path.unlink()
    versions.manifest_path.write_bytes(good)
    add(versions, policies[1])
    path = versions.path(policies[1].version)
    data = path.read_bytes()
    path.unlink()
    put(path)
    async with asyncio.timeout(5):
        await following.look()
        assert judges.policy is policies[0]
        with pytest.raises(BadPolicy, match="regular"):
            Policy.load(path)
    path.unlink()
    path.write_bytes(data)
    os.utime(versions.manifest_path)
    await following.look()
    assert judges.policy.version == policies[1].version
    put(tmp_path / "asks-1.jsonl")
    assert files(tmp_path) == []


def test_a_rollback_goes_back_step_by_step(versions, policies):
    """Each takes back what was put in force last, down to the policy that ships; then there is nothing left to take back."""
    for policy in policies:
        add(versions, policy)
    first, second = (policy.version for policy in policies)
    assert versions.manifest().current == second
    assert versions.roll_back() == first
    assert versions.roll_back() is None
    with pytest.raises(BadVersions, match="before"):
        versions.roll_back()
    assert versions.manifest().refused == [second, first]


def test_a_rollback_to_a_file_that_is_damaged_changes_nothing(versions, policies):
    """What cannot be put in force is not named as that."""
    for policy in policies:
        add(versions, policy)
    versions.path(policies[0].version).write_bytes(b"x")
    with pytest.raises(BadVersions, match="damaged"):
        versions.roll_back()
    assert versions.manifest().current == policies[1].version


def test_old_ones_go(versions, policies):
    """The last few are kept, with what a rollback may want; their files, too, and no others."""
    for number in range(3 * KEPT):
        add(versions, policies[0], version=f"v{number}")
    manifest = versions.manifest()
    names = {made.version for made in manifest.policies}
    assert {path.stem for path in versions.folder.glob("*.policy")} == names
    assert len(names) == KEPT + 1
    assert manifest.before[-1] == f"v{3 * KEPT - 2}"


@pytest.mark.parametrize("data", [b"", b"{", b'{"format": 2}', b'{"current": "x"}', b'{"current": "../x"}', b"[" * 100_000])
def test_a_manifest_that_is_none(versions, data):
    """Whatever stands there, it is told in one line, and nothing is written over it."""
    versions.folder.mkdir(parents=True)
    versions.manifest_path.write_bytes(data)
    with pytest.raises(BadVersions, match=r"manifest\.json"):
        versions.manifest()
    with pytest.raises(BadVersions):
        versions.roll_back()
    assert versions.manifest_path.read_bytes() == data


class Judges:
    """What a classifier is to the one that follows."""

    def __init__(self, policy):
        self.policy = policy


async def test_a_running_gateway_follows(versions, policies, caplog):
    """What is put in force is taken over, and so is a rollback; what is damaged, torn or gone changes nothing."""
    shipped, other = policies
    judges = Judges(shipped)
    following = Following(versions.folder, judges, shipped)
    heard = []
    following.on_change(lambda policy: heard.append(policy.version))
    following.load()
    assert judges.policy is shipped
    add(versions, other)
    await following.look()
    assert judges.policy.version == other.version
    assert judges.policy.judge("easy thing") == other.judge("easy thing")
    versions.manifest_path.write_bytes(b"torn")
    await following.look()
    versions.manifest_path.unlink()
    await following.look()
    assert judges.policy.version == other.version
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    add(versions, other)
    versions.path(other.version).write_bytes(b"another one")
    await following.look()
    assert judges.policy.version == other.version
    add(versions, other)
    versions.roll_back()
    versions.roll_back()
    await following.look()
    assert judges.policy is shipped
    assert heard == [other.version, shipped.version]


def runs(folder, script, every=3600.0):
    (folder / "log").mkdir(parents=True, exist_ok=True)
    return Schedule(folder, every, soon=0.001, command=[sys.executable, "-c", script])


async def test_a_calibration_runs_when_it_is_due_and_not_again(tmp_path, caplog):
    """The first start begins one, a restart within the time does not; what it says is one line in the log."""
    caplog.set_level("INFO")
    script = f"open({str(tmp_path / 'ran')!r}, 'a').write('x'); print('two\\nlines')"
    for _ in range(2):
        task = asyncio.create_task(runs(tmp_path / "own", script).run())
        async with asyncio.timeout(10):
            while not (tmp_path / "ran").exists() or not caplog.records:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (tmp_path / "ran").read_text() == "x"
    assert [record.getMessage() for record in caplog.records] == ["calibrated the routing policy (0): two lines"]


async def test_a_calibration_ends_with_its_gateway(tmp_path):
    """One that still runs when the gateway stops is killed, and waited for."""
    script = f"import time; open({str(tmp_path / 'ran')!r}, 'w').close(); time.sleep(60)"
    task = asyncio.create_task(runs(tmp_path / "own", script).once())
    async with asyncio.timeout(10):
        while not (tmp_path / "ran").exists():
            await asyncio.sleep(0.005)
    task.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
