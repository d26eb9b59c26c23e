"""`tiergate keys`."""

import argparse
import json

import pytest

from gateway.commands import keys
from gateway.keyfile import KeyFile

NOW = 1_800_000_000.0
CONFIG = """
models: [{name: small, replicas: [{name: r, url: "http://h/v1"}]}]
tenants: [{name: acme}, {name: beta}]
keys: {path: k/keys.json}
"""


@pytest.fixture
def file(tmp_path):
    return KeyFile(tmp_path / "k" / "keys.json", lambda: NOW)


@pytest.fixture
def run(tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)

    def run(*arguments, now=NOW):
        parser = argparse.ArgumentParser()
        keys.add_arguments(parser)
        code = keys.run(parser.parse_args([*arguments, "--config", str(config)]), clock=lambda: now)
        return code, *capsys.readouterr()

    return run


def make(run, *arguments):
    code, out, _ = run("create", "--tenant", "acme", "--json", *arguments)
    assert code == 0
    return json.loads(out)


def test_create_shows_the_secret_once(run, file):
    """On stdout, with the id; never again by any command."""
    code, out, err = run("create", "--tenant", "acme", "--name", "ci")
    secret = out.split("secret", 1)[1].split()[0]
    assert code == 0
    assert secret.startswith("tg-")
    assert "cannot be shown again" in err
    assert file.records()[0].name == "ci"
    for again in (run("list"), run("list", "--json")):
        assert secret not in again[1]
        assert file.records()[0].sha256 not in again[1]
        assert secret[:9] in again[1]


def test_create_takes_limits(run, file):
    """All that a key may have of its own."""
    made = make(
        run,
        "--rpm",
        "5",
        "--tpm",
        "600",
        "--burst",
        "10s",
        "--max-parallel",
        "2",
        "--expires",
        "30d",
        "--model",
        "small",
        "--model",
        "s*",
    )
    assert (made["rpm"], made["tpm"], made["max_parallel"], made["models"]) == (5, 600, 2, ["small", "s*"])
    assert made["burst"] == 10.0
    assert (made["expires_at"], made["status"], made["tenant"]) == ("2027-02-14T08:00:00Z", "active", "acme")
    assert "sha256" not in made
    assert file.records()[0].rpm == 5


@pytest.mark.parametrize(
    ("when", "moment"),
    [
        ("12h", "2027-01-15T20:00:00Z"),
        ("2027-01-31", "2027-01-31T23:59:59Z"),
        ("2027-01-31T12:00:00+01:00", "2027-01-31T11:00:00Z"),
    ],
)
def test_a_key_may_expire(run, when, moment):
    """After a time, on a day (its last) or at a moment."""
    assert make(run, "--expires", when)["expires_at"] == moment


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "--tenant", "acne"], 'unknown tenant "acne"; did you mean "acme"?'),
        (["create", "--tenant", "zzz"], 'unknown tenant "zzz"; the config has: acme, beta'),
        (
            ["create", "--tenant", "acme", "--expires", "soon"],
            "--expires: expected 30d, or a date such as 2026-12-31",
        ),
        (["create", "--tenant", "acme", "--expires", "2020-01-01"], "--expires is in the past"),
        (["create", "--tenant", "acme", "--rpm", "0"], "--rpm must be at least 1"),
        (["create", "--tenant", "acme", "--burst", "2h"], "--burst: expected a duration from 1s to 1h"),
        (["create", "--tenant", "acme", "--tpm", "-5"], "--tpm must be at least 1"),
        (["create", "--tenant", "acme", "--model", "smal"], 'unknown model "smal"; did you mean "small"?'),
        (["create", "--tenant", "acme", "--name", "a\nb"], "--name: expected a text of"),
        (["list", "--tenant", "acne"], 'unknown tenant "acne"; did you mean "acme"?'),
        (["revoke", "key-1"], 'unknown key "key-1"'),
        (["rotate", "key-1"], 'unknown key "key-1"'),
        (["rotate", "key-1", "--overlap", "long"], "--overlap must be a duration"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(run, file, arguments, message):
    """On stderr, and nothing is made."""
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"tiergate keys: {message}")
    assert file.records() == []


def test_list_is_a_table_of_all_or_one_tenants_keys(run):
    """With what became of each."""
    first, second = make(run, "--name", "one"), make(run, "--expires", "1h")
    run("create", "--tenant", "beta")
    run("revoke", first["id"])
    code, out, _ = run("list", "--tenant", "acme", now=NOW + 3600)
    title, *rows = (line.split() for line in out.splitlines())
    assert code == 0
    assert title == ["ID", "TENANT", "NAME", "PREFIX", "STATUS", "CREATED", "EXPIRES", "LIMITS", "MODELS"]
    assert [row[0] for row in rows] == [first["id"], second["id"]]
    assert ["revoked" in row for row in rows] == [True, False]
    assert ["expired" in row for row in rows] == [False, True]
    assert len(json.loads(run("list", "--json")[1])["keys"]) == 3


def test_an_empty_list_says_what_to_do(run):
    """On stderr, so that stdout stays a list."""
    assert run("list") == (0, "", "no keys yet: tiergate keys create --tenant NAME\n")
    assert json.loads(run("list", "--json")[1]) == {"keys": []}


def test_revoke_takes_effect_and_may_be_repeated(run, file):
    """Both times with code 0; an id that is nearly right is named."""
    made = make(run)
    assert run("revoke", made["id"])[:2] == (0, f"revoked {made['id']} of tenant acme\n")
    assert json.loads(run("revoke", made["id"], "--json")[1])["status"] == "revoked"
    assert file.records()[0].revoked_at is not None
    assert f'did you mean "{made["id"]}"?' in run("revoke", made["id"] + "0")[2]


def test_rotate_shows_the_new_secret_and_the_old_end(run, file):
    """A day of overlap unless told otherwise."""
    made = make(run, "--rpm", "5", "--burst", "90s")
    code, out, _ = run("rotate", made["id"], "--json")
    rotated = json.loads(out)
    assert code == 0
    assert rotated["secret"] != made["secret"]
    assert (rotated["rpm"], rotated["burst"]) == (5, 90.0)
    assert (rotated["replaces"]["id"], rotated["replaces"]["expires_at"]) == (made["id"], "2027-01-16T08:00:00Z")
    assert f"replaces {rotated['id']}, which works until 2027-01-15 09:00Z" in run("rotate", rotated["id"], "--overlap", "1h")[1]
    assert len(file.records()) == 3


def test_a_dead_key_is_not_rotated(run):
    """It says why, with code 2."""
    made = make(run)
    run("revoke", made["id"])
    code, _, err = run("rotate", made["id"])
    assert (code, err) == (2, f"tiergate keys: the key {made['id']} is revoked: create a new one\n")


def test_a_bad_config_is_its_errors(run, tmp_path):
    """As `tiergate check` says them."""
    (tmp_path / "config.yaml").write_text("models: 1\n")
    code, out, err = run("list")
    assert (code, out) == (2, "")
    assert err == f"{tmp_path}/config.yaml:1:9: models: expected a list, got a single value\n"


def test_a_broken_key_file_is_one_line(run, tmp_path):
    """For every command; nothing is overwritten."""
    path = tmp_path / "k" / "keys.json"
    path.parent.mkdir()
    path.write_text("{")
    for arguments in (["list"], ["create", "--tenant", "acme"], ["revoke", "k"], ["rotate", "k"]):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "not a key file" in err
    assert path.read_text() == "{"
