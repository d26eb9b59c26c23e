"""`tiergate calibrate`: when a policy of own traffic takes over, and when it does not."""

import json
import os
import random
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gateway
from bench.own_traffic import desk
from gateway.cli import main
from gateway.lab.calibrate import report
from gateway.lab.calibrate.samples import gather
from gateway.lab.calibrate.study import TooFewLabels, study
from gateway.learning.line import Line, encode
from gateway.learning.versions import Versions
from routing.agreement import agree
from routing.grams import grams_of
from routing.learned.shipped import shipped


def lines(count, *, seed=1, source="agreement", start=0):
    """What a gateway would have written down of the support desk."""
    found = []
    for number, one in enumerate(desk(count, seed)):
        small = float(bool(agree(one.small, one.large)))
        found.append(Line(at=1e9 + start + number, id=f"r{seed}-{number}", tenant="desk", answered="small", source=source,
                          small=small, large=1.0, text=one.text))  # fmt: skip
    return found


def write(path, found):
    path.write_bytes(b"".join(encode(line) + b"\n" for line in found))
    return path


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A folder after one calibration on 300 labels, and what it said."""
    folder = tmp_path_factory.mktemp("own")
    write(folder / "asks-1.jsonl", lines(300))
    with redirect_stdout(StringIO()) as said:
        code = main(["calibrate", str(folder), "--policies", str(folder / "policies"), "--json"])
    return folder, code, json.loads(said.getvalue())


def test_a_better_policy_takes_over(learned):
    """With 300 labels of traffic whose difficulty is in its words the new policy is surely better, and is put in force."""
    folder, code, report = learned
    assert (code, report["better"], report["swapped"], report["labels"]) == (0, True, True, 300)
    assert report["new"]["apgr"]["low"] > report["current"]["apgr"]["value"]
    assert Versions(folder / "policies").manifest().current == report["new"]["version"]


def test_nothing_new_changes_nothing(learned, capsys):
    """A second run on the same labels has nothing to hold out that the policy in force has not seen."""
    folder, _, report = learned
    assert main(["calibrate", str(folder), "--policies", str(folder / "policies")]) == 3
    assert "can be held out" in capsys.readouterr().out
    assert Versions(folder / "policies").manifest().current == report["new"]["version"]


def test_a_dry_run_changes_nothing_and_what_was_rolled_back_stays_back(tmp_path, learned, capsys):
    """`--dry-run` only tells; after `--rollback` the same policy is not put in force again."""
    log = write(tmp_path / "asks-1.jsonl", lines(300))
    policies = ["--policies", str(tmp_path / "policies")]
    assert main(["calibrate", str(log), *policies, "--dry-run"]) == 0
    assert not (tmp_path / "policies").exists()
    assert "would take over" in capsys.readouterr().out
    made = Versions(learned[0] / "policies").manifest()
    versions = Versions(tmp_path / "policies")
    versions.add(made.policies[0], Versions(learned[0] / "policies").data(made.policies[0]))
    assert main(["calibrate", "--rollback", *policies]) == 0
    assert main(["calibrate", str(log), *policies, "--brief"]) == 0
    assert "rolled back" in capsys.readouterr().out
    assert versions.manifest().current is None


@pytest.mark.parametrize(
    ("kind", "form"),
    [("rules", ["--dry-run"]), ("rules", ["--rollback"]), ("learned", ["--rollback"]), ("rules", ["--rollback", "--json"])],
)
def test_whether_the_gateway_judges_by_it_is_told(tmp_path, learned, capsys, kind, form):
    """Where its classifier is another kind a policy in force changes nothing, and nothing sounds as if it did."""
    config = tmp_path / "config.yaml"
    models = ", ".join(
        f'{{name: {tier}, tier: {tier}, replicas: [{{name: {tier}, url: "http://h/v1"}}]}}' for tier in ("small", "large")
    )
    config.write_text(f"models: [{models}]\nrouting: {{classifier: {{kind: {kind}}}, learning: {{enabled: true, path: own}}}}\n")
    (tmp_path / "own" / "log").mkdir(parents=True)
    write(tmp_path / "own" / "log" / "asks-1.jsonl", lines(300))
    if "--rollback" in form:
        made, kept = Versions(learned[0] / "policies").manifest().policies[0], Versions(learned[0] / "policies")
        Versions(tmp_path / "own" / "policies").add(made, kept.data(made))
    assert main(["calibrate", "--config", str(config), *form]) == 0
    said = capsys.readouterr().out
    if "--json" in form:
        assert json.loads(said)["classifier"] == kind
    else:
        assert ("what is learned changes nothing: routing.classifier.kind is rules" in said) == (kind == "rules")


@pytest.mark.parametrize("count", [0, 99])
def test_few_labels_are_refused(tmp_path, capsys, count):
    """Below 100 labels of both tiers nothing is said about any policy; the exit code tells it from a mistake."""
    found = lines(count)
    found += [
        Line(at=2e9, id=f"f{n}", tenant="t", answered="small", source="feedback", small=1.0, text=f"x {n}") for n in range(50)
    ]
    log = write(tmp_path / "asks-1.jsonl", found)
    assert main(["calibrate", str(log), "--policies", str(tmp_path / "p"), "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["error"] == "too_few_labels"
    assert f"{count} requests" in said["message"]
    assert "50 more tell of one tier alone" in said["message"]


def test_mistakes_are_told_in_one_line(tmp_path, capsys):
    """A log that is not there, a manifest that is none and a config that is none: one line each, and code 2."""
    (tmp_path / "manifest.json").write_text("x")
    log = write(tmp_path / "asks-1.jsonl", lines(10))
    for arguments in ([str(tmp_path / "none"), "--policies", str(tmp_path / "p")], [str(log), "--policies", str(tmp_path)],
                      ["--config", str(tmp_path / "none.yaml")], ["--rollback", "--policies", str(tmp_path / "p")]):  # fmt: skip
        assert main(["calibrate", *arguments]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert len(said.err.strip().splitlines()) == 1


def test_labels_of_chance_do_not_take_over(tmp_path):
    """Where labels have nothing to do with the words no policy is surely better in its order, and none takes over for that."""
    draw = random.Random(5)
    found = lines(300)
    for line in found:
        line.small = float(draw.random() < 0.75)
    result = study(gather([write(tmp_path / "a.jsonl", found)]).samples, shipped=shipped(), current=shipped(), since=0.0, seed=0)
    assert result.new.ruling.order is not None
    assert result.new.ruling.order < 0.95
    assert result.new.ruling.why != "its order is better"


def test_answers_that_mostly_differ_are_not_believed(tmp_path):
    """Where less than six in ten agree, agreement is no reason for a new policy; what a judge says is."""
    for source, swapped in (("agreement", False), ("judge", True)):
        found = lines(300, source=source)
        for number, line in enumerate(found):
            if number % 2:
                line.small = 0.0
                line.text = f"{line.text} And the other books of it?"
        result = study(
            gather([write(tmp_path / "a.jsonl", found)]).samples, shipped=shipped(), current=shipped(), since=0.0, seed=0
        )
        assert result.new.ruling.swap is swapped, source


def test_grams_teach_what_texts_teach(tmp_path):
    """Without a word of any prompt the same is learned, but for the grouping of templates."""
    found = lines(120)
    for line in found:
        read = grams_of(line.text)
        line.text, line.grams, line.amounts = None, sorted(read.ids), read.amounts
    plain = gather([write(tmp_path / "a.jsonl", lines(120))]).samples
    bare = gather([write(tmp_path / "b.jsonl", found)]).samples
    assert [set(one.grams.ids) for one in bare] == [set(one.grams.ids) for one in plain]
    with pytest.raises(TooFewLabels):
        study(bare[:99], shipped=shipped(), current=shipped(), since=0.0, seed=0)


def feedback(score, answered="small", at=5.0):
    return Line(at=at, id="r", tenant="t", answered=answered, source="feedback", text="x", **{answered: score})


def compared(small, answered="small", tenant="t"):
    return Line(at=2.0, id="r", tenant=tenant, answered=answered, source="agreement", small=small, large=1.0, text="x")


@pytest.mark.parametrize(
    ("told", "labels"),
    [
        ([compared(1.0)], (1.0, 1.0)),
        ([feedback(0.25)], (0.25, None)),
        ([feedback(1.0, "large")], (None, 1.0)),
        ([feedback(0.0), feedback(1.0, at=6.0)], (1.0, None)),
        ([compared(1.0), feedback(0.0)], (0.0, 0.0)),
        ([compared(0.0), feedback(1.0)], (1.0, 1.0)),
        ([compared(0.0), feedback(0.0)], (0.0, 1.0)),
        ([compared(0.0, "large"), feedback(0.0, "large")], (None, 0.0)),
        ([compared(0.0, "large"), feedback(1.0, "large")], (0.0, 1.0)),
    ],
)
def test_a_comparison_and_feedback_on_one_request(tmp_path, told, labels):
    """Feedback is a person's word on the tier that answered, and on both where they said the same; the last word counts."""
    [sample] = gather([write(tmp_path / "a.jsonl", told)]).samples
    assert (sample.small, sample.large) == labels


def test_one_id_for_many_requests(tmp_path):
    """Requests of two tenants, and two asks under one id, are not taken for one."""
    other = compared(0.0)
    other.text = "y"
    found = gather([write(tmp_path / "a.jsonl", [compared(1.0), compared(0.0, tenant="u"), other])])
    assert len(found.samples) == 3


def test_of_more_requests_than_are_read_the_newest_are_taken_and_that_is_told(tmp_path):
    """Whatever file they are in."""
    old, new = lines(60, seed=1), lines(60, seed=2, start=100)
    paths = [write(tmp_path / "b.jsonl", new), write(tmp_path / "a.jsonl", old)]
    found, rest = gather(paths, most=70), gather(paths, most=120)
    assert [len(found.samples), found.older, rest.older] == [70, True, False]
    assert [sample.text for sample in found.samples] == [line.text for line in (*old[-10:], *new)]
    result = study(gather([write(tmp_path / "c.jsonl", lines(150))], most=140).samples, shipped=shipped(), current=shipped(),
                   since=0.0, seed=0)  # fmt: skip
    for how in (report.table, report.brief):
        assert "the newest 70 requests; older ones were passed over" in how(found, result, "v", swapped=False)
        assert "passed over" not in how(rest, result, "v", swapped=False)
    assert report.plain(found, result, "v", swapped=False)["older"] is True


def test_a_calibration_that_takes_too_long_ends_and_changes_nothing(tmp_path):
    """It says what happened and what helps, has an exit code of its own, and leaves the policy in force as it was."""
    write(tmp_path / "a.jsonl", lines(4000))
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli", "calibrate", str(tmp_path / "a.jsonl"), "--policies", str(tmp_path / "policies"),
         "--seconds", "1", "--brief"],
        env={**os.environ, "PYTHONPATH": str(Path(gateway.__file__).parents[1])}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        "tiergate calibrate: not done after 1 s, and ended; nothing was changed. Call it with more --seconds, or without\n"
    )
    assert not (tmp_path / "policies").exists()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=10))
def test_a_hostile_log(tmp_path_factory, rubbish):
    """Whatever stands between the lines, the good ones are found and the others counted."""
    path = tmp_path_factory.mktemp("log") / "a.jsonl"
    path.write_bytes(b"".join(part.replace(b"\n", b"") + b"\n" + encode(compared(1.0)) + b"\n" for part in rubbish))
    found = gather([path])
    assert len(found.samples) == bool(rubbish)
    assert (found.lines, found.bad) == (2 * len(rubbish), len(rubbish))
