"""`tiergate check`."""

import argparse
import json

import pytest

from gateway.commands import check

TWO = """models:
  - {name: s, tier: small, replicas: [{name: r, url: "http://h/v1"}]}
  - {name: l, tier: large, replicas: [{name: r, url: "http://h/v1"}]}
  - {name: j, tier: judge, replicas: [{name: r, url: "http://h/v1"}]}
"""
GOOD = 'models: [{name: a, replicas: [{name: r, url: "http://h/v1", api_key: hunter2}]}]\n'


@pytest.fixture
def run(tmp_path, capsys):
    def run(text, *options):
        file = tmp_path / "config.yaml"
        if text is not None:
            file.write_text(text)
        parser = argparse.ArgumentParser()
        check.add_arguments(parser)
        code = check.run(parser.parse_args([str(file), *options]))
        return code, *capsys.readouterr()

    return run


def test_a_good_config_is_printed_whole(run):
    """On stdout, with exit code 0, secrets hidden."""
    code, out, err = run(GOOD)
    assert (code, err) == (0, "")
    assert "drain_timeout: 2m" in out
    assert "hunter2" not in out


def test_a_bad_config_is_all_its_errors(run, tmp_path):
    """On stderr, one line each, with exit code 2."""
    code, out, err = run("models: 1\nservr: {}\n")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"{tmp_path}/config.yaml:1:9: models: expected a list, got a single value",
        f'{tmp_path}/config.yaml:2:1: servr: unknown key; did you mean "server"?',
    ]


def test_json_has_the_errors_or_the_config(run):
    """One object on stdout in both cases."""
    code, out, err = run("models: 1\n", "--json")
    message = "expected a list, got a single value"
    assert (code, err) == (2, "")
    assert json.loads(out) == {
        "ok": False,
        "errors": [{"line": 1, "column": 9, "path": "models", "message": message}],
        "warnings": [],
        "config": None,
    }
    code, out, _ = run(GOOD, "--json")
    assert (code, json.loads(out)["ok"], json.loads(out)["errors"]) == (0, True, [])
    assert json.loads(out)["config"]["models"][0]["replicas"][0]["api_key"] == "***"


@pytest.mark.parametrize("learning", ["enabled: true", "calibrate: 24h, enabled: true"])
@pytest.mark.parametrize(("kind", "warned"), [("rules", 1), ("learned", 0)])
def test_what_is_hardly_meant_is_a_warning(run, learning, kind, warned):
    """Learning where nobody judges by what is learned: one line on stderr, and the config is good."""
    text = f"{TWO}routing: {{classifier: {{kind: {kind}}}, learning: {{{learning}}}}}\n"
    code, out, err = run(text)
    assert (code, len(err.splitlines())) == (0, warned)
    assert ("warning: routing.learning.enabled: what is learned changes nothing" in err) == bool(warned)
    assert "drain_timeout" in out
    told = json.loads(run(text, "--json")[1])
    assert (told["ok"], [one["path"] for one in told["warnings"]]) == (True, ["routing.learning.enabled"] * warned)


@pytest.mark.parametrize(
    ("routes", "warned"),
    [
        ("{}", 0),
        ("{auto: {models: [s, l]}}", 0),
        ("{auto: {models: [s]}}", 1),
        ("{auto: {models: [s, l]}, other: {models: [l, j]}}", 1),
        ("{auto: {models: [s, l]}, other: {models: [s, j]}}", 0),
    ],
)
def test_learning_that_can_compare_nothing_is_a_warning(run, routes, warned):
    """No request may go to both ends of the tiers that routes have: that is said, and no error."""
    text = f"{TWO}routing: {{classifier: {{kind: learned}}, learning: {{enabled: true, judge: j}}, routes: {routes}}}\n"
    code, _, err = run(text)
    assert (code, err.count("routing.learning.enabled: nothing is learned")) == (0, warned)


def test_a_missing_file_is_one_line(run):
    """Not a traceback."""
    code, out, err = run(None)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot be read: No such file or directory" in err


def test_the_file_may_be_named_as_serve_names_it(tmp_path, capsys):
    """`check --config FILE` is `check FILE`."""
    file = tmp_path / "config.yaml"
    file.write_text(GOOD)
    parser = argparse.ArgumentParser()
    check.add_arguments(parser)
    assert check.run(parser.parse_args(["--config", str(file)])) == 0
    assert "drain_timeout" in capsys.readouterr().out
