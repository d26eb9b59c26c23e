"""The worked example, in a small form: a real gateway, two scripted tiers, and `tiergate calibrate` as an operator calls it."""

import json

from bench.own_traffic import desk, example
from gateway.learning.line import files, read


async def test_from_an_empty_log_to_a_calibrated_policy(tmp_path):
    """Requests are shadowed and labelled; the policy that comes of it is taken over by the running gateway, and is better."""
    said = []
    found = await example(desk(240, 1), desk(400, 2), tmp_path, 1.0, said.append)
    lines = [line for path in files(tmp_path / "own" / "log") for line in read(path)]
    assert len(lines) == found["calibration"]["labels"] == 240
    assert {line.policy for line in lines} == {found["calibration"]["current"]["version"]}
    assert found["in_force"] == found["calibration"]["new"]["version"]
    assert found["later"]["after"]["apgr"] > found["later"]["before"]["apgr"] + 0.1
    assert found["later"]["after"]["kept"] > found["later"]["before"]["kept"]
    assert len(said) == 2
    assert json.dumps(found)
