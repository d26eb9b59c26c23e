"""tiergate route-eval from the command line: figures, JSON, a picture, and mistakes."""

import hashlib
import io
import json

import pytest
from outcome_files import answers, rows, written

from bench.route_page import page
from gateway.cli import main
from gateway.lab.progress import Progress
from gateway.lab.routing import plots
from gateway.lab.routing.data import load
from gateway.lab.routing.lessons import School, Taught
from gateway.lab.routing.outcomes import outcomes
from gateway.lab.routing.scored import SHIPPED
from gateway.lab.routing.settings import Settings
from gateway.lab.routing.splits import splits
from gateway.lab.routing.table import cells, results, table
from gateway.learning.versions import Made, Versions
from routing.learned.train import Row, train

QUICK = ["--draws", "50", "--jobs", "1"]


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """Of two sets by every protocol, with streams and cascades."""
    folder = tmp_path_factory.mktemp("outcomes")
    one, two = (written(folder / name, rows(360, seed)) for seed, name in enumerate(("one.jsonl", "two.jsonl")))
    told = written(folder / "answers.jsonl", answers(120, 3, 0.8))
    out = folder / "out.json"
    more = ["--stream", "--budget", "0.3", "--cascade", str(told), "--trio", "s1", "s2", "big", "--labels", "200"]
    with pytest.MonkeyPatch.context() as patch, out.open("w") as file:
        patch.setattr("sys.stdout", file)
        assert main(["route-eval", str(one), str(two), "--json", *more, *QUICK, "--png", str(folder / "p.png")]) == 0
    return json.loads(out.read_text())


def result(document, name, **wanted):
    return next(
        it for it in document["results"] if it["set"] == name and all(it.get(key) == value for key, value in wanted.items())
    )


def test_what_can_be_learned_is_found(document):
    """The trainer finds what is hard, from other folds, other categories, another file, and on top of another file."""
    for more in ({"protocol": "own", "labels": 200}, {"protocol": "task"}, {"protocol": "cross"}, {"protocol": "based"}):
        found = result(document, "one", router="learned", **more)["apgr"]
        assert found["low"] > 0.6, more
        assert found["low"] <= found["value"] <= found["high"]
    assert result(document, "one", router="random")["apgr"] == {"value": 0.5, "low": 0.5, "high": 0.5}
    oracle = result(document, "one", router="oracle")
    assert oracle["apgr"]["value"] >= max(it["apgr"]["value"] for it in document["results"] if it["set"] == "one")
    assert result(document, "two", protocol="cross")["learned_from"] == "one"


def test_every_figure_is_there(document):
    """Quality over all shares, from the weak to the strong model; calibration; streams; cascades; latency."""
    for it in document["results"]:
        assert [point["share"] for point in it["quality"]][:: len(it["quality"]) - 1] == [0, 1]
        about = next(rows for rows in document["sets"] if rows["name"] == it["set"])
        assert it["quality"][0]["value"] == pytest.approx(about["weak_mean"])
        assert it["quality"][-1]["value"] == pytest.approx(about["strong_mean"])
    assert result(document, "one", protocol="own")["calibration"]["small"]["ece"]["value"] < 0.2
    assert {it["router"] for it in document["latency"]} >= {"rules", "length"}
    assert {(it["first"], it["then"]) for it in document["streams"]} == {("one", "two"), ("two", "one")}
    assert all(abs(it["settled"] - 0.3) <= 0.03 for it in document["streams"])
    (cascade,) = document["cascades"]
    assert cascade["accuracy"] == 1
    assert cascade["cost_by_call"] == pytest.approx(0.2 + cascade["escalated"])
    assert cascade["cost_by_character"] == pytest.approx(cascade["cost_by_call"])


def test_rows_split_at_random_stand_beside_whole_templates(tmp_path):
    """Means of several splits with their ranges, after the folds with as many labels, for as many as leave enough to tell."""
    found = outcomes(load(written(tmp_path / "set.jsonl", rows(2000, 4))))
    school = School([Taught(tuple(found.prompts), found.weak, found.strong)])
    settings = Settings(labels=(300, 1000, 1500), jobs=1)
    (split,) = splits([found], school, settings, Progress(io.StringIO(), "x"))
    assert (split["labels"], split["rows"], split["splits"]) == (1000, 1000, 5)
    assert 0.6 < split["apgr"]["low"] < split["apgr"]["value"] < split["apgr"]["high"]
    own = [{"set": "set", "protocol": "own", "labels": labels} for labels in (300, 1000, 1400)]
    beside = results({"results": own, "splits": [split]}, "set")
    assert [(it["protocol"], it["labels"]) for it in beside] == [("own", 300), ("own", 1000), ("split", 1000), ("own", 1400)]
    assert cells(split)[1] == "1,000 of this set, rows split at random"


def test_the_table_and_the_page_tell_the_document(document):
    """Each set, protocol and study is in both; the page says what is worse than chance."""
    shown = table(document)
    told = page(document, "tiergate route-eval")
    for text in (shown, told):
        assert "200 of this set" in text
        assert "its other tasks" in text
        assert "base + 200 of this set" in text
    assert "a threshold tuned to 30%" in shown
    assert "**Worse than chance**" in told
    assert told.count("\n## ") == 9


def test_the_picture(document, tmp_path):
    """A field for each set; without matplotlib a line says so, and the figures are there all the same."""
    pytest.importorskip("matplotlib")
    plots.draw(tmp_path / "p.png", document)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_scores_of_ten_are_those_of_one(tmp_path, capsys):
    """The same outcomes on another scale give the same figures."""
    shown = []
    for score in (1, 10):
        path = written(tmp_path / "set.jsonl", rows(60, 5, score=score))
        assert main(["route-eval", str(path), "--untrained", "--json", *QUICK]) == 0
        shown.append(json.loads(capsys.readouterr().out)["results"])
    assert shown[0] == shown[1]


def test_a_config_is_judged_by_the_policy_that_is_in_force(tmp_path, capsys):
    """Of a learned classifier: what its gateway would judge by, and after a rollback what ships."""
    data = written(tmp_path / "set.jsonl", rows(90, 5))
    policy = train([Row(row["prompt"], *row["scores"].values()) for row in rows(120, 6)], base=None, seed=0)
    policy.save(tmp_path / "made.policy")
    made = (tmp_path / "made.policy").read_bytes()
    versions = Versions(tmp_path / "own" / "policies")
    versions.add(
        Made(version=policy.version, sha256=hashlib.sha256(made).hexdigest(), at=1.0, base="b", labels=100, until=1.0), made
    )
    models = [{"name": tier, "tier": tier, "replicas": [{"name": tier, "url": "http://h/v1"}]} for tier in ("small", "large")]
    routing = {"classifier": {"kind": "learned"}, "learning": {"path": "own"}}
    (tmp_path / "c.yaml").write_text(json.dumps({"models": models, "routing": routing}))
    seen = []
    for _ in range(2):
        asked = ["--untrained", "--policy", str(tmp_path / "made.policy"), "--config", str(tmp_path / "c.yaml"), "--json", *QUICK]
        assert main(["route-eval", str(data), *asked]) == 0
        told = json.loads(capsys.readouterr().out)
        found = {it["router"]: (it["apgr"], it["calibration"]) for it in told["results"]}
        seen.append([name for name in found if name != "c.yaml" and found[name] == found["c.yaml"]])
        versions.roll_back() if len(seen) == 1 else None
    assert seen == [["policy made.policy"], [SHIPPED]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name files of outcomes"),
        (["{missing}"], "No such file"),
        (["{set}", "{set}"], "two files are called"),
        (["{set}", "--pair", "weak", "nobody"], "it has strong, weak"),
        (["{set}", "--stream", "--untrained"], "a stream needs two files"),
        (["{set}", "--policy", "{set}"], "policy"),
        (["{set}", "--policy", "{missing}"], "No such file"),
        (["{set}", "--png", "/nowhere/x.png"], "cannot be written"),
        (["{set}", "--config", "{set}"], "set.jsonl:"),
        (["--cascade", "{set}"], ":1: "),
        (["--cascade", "{answers}"], "--trio"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(tmp_path, capsys, arguments, says):
    """No traceback, and the line says what to mend."""
    names = {
        "set": written(tmp_path / "set.jsonl", rows(40, 1)),
        "answers": written(tmp_path / "answers.jsonl", answers(60, 1, 0.5)),
        "missing": tmp_path / "missing",
    }
    assert main(["route-eval", *(it.format(**names) for it in arguments), *QUICK]) == 2
    said = capsys.readouterr()
    assert says in said.err.splitlines()[-1]
    assert said.err.splitlines()[-1].startswith("tiergate route-eval: ")
    assert not said.out


@pytest.mark.parametrize("arguments", [["--labels", "0"], ["--budget", "1.5"], ["--draws", "x"], ["--protocol", "luck"]])
def test_a_number_out_of_range_is_refused_by_name(capsys, arguments):
    """The option is named."""
    with pytest.raises(SystemExit) as error:
        main(["route-eval", "x", *arguments])
    assert error.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def evaluated(capsys, *arguments):
    assert main(["route-eval", *map(str, arguments), *QUICK]) == 0
    return capsys.readouterr().out


def test_what_the_base_has_seen_is_marked(tmp_path, capsys):
    """Labels on top of the policy that ships are no evidence on a file that it was trained on; on another one they are."""
    for name, marked in (("zeroeval_gsm.jsonl", True), ("own.jsonl", False)):
        out = evaluated(capsys, written(tmp_path / name, rows(300, 5)), "--protocol", "own", "--labels", "100")
        [line] = [line for line in out.splitlines() if "base + 100 of this set" in line]
        assert ("has seen these rows" in line) is marked


def test_an_interval_that_reaches_everywhere_is_told(tmp_path, capsys):
    """Where some draws have no gap, a share of it may be anything: the value does not stand alone."""
    same = rows(300, 4)
    for place, row in enumerate(same):  # each is better on every second row, the strong one on five more
        row["scores"] = {"weak": place % 2, "strong": 1 if place < 10 else 1 - place % 2}
    out = evaluated(capsys, written(tmp_path / "even.jsonl", same), "--untrained", "--pair", "weak", "strong")
    assert "(unbounded)" in out


def test_too_few_rows_teach_no_other_file(tmp_path, capsys):
    """As `tiergate calibrate` makes no policy of fewer than a hundred labels."""
    few, many = (written(tmp_path / name, rows(count, 6)) for name, count in (("few.jsonl", 90), ("many.jsonl", 260)))
    document = json.loads(evaluated(capsys, few, many, "--protocol", "cross", "--json"))
    assert {(it["set"], it.get("learned_from")) for it in document["results"] if it["protocol"] == "cross"} == {("few", "many")}
