"""The effective config and the reference of keys."""

import dataclasses
import json
from pathlib import Path

import yaml

from gateway.config import effective, load, parse, plain, reference
from gateway.config.fields import hints
from gateway.config.schema import Config

EXAMPLE = Path(__file__).parents[2] / "config.yaml"
SECRETS = """
admin: {key: hunter2}
models: [{name: a, replicas: [{name: r, url: "http://h/v1", api_key: "${K}"}]}]
cache: {secret: hunter2}
redis: {url: "redis://user:hunter2@10.0.0.5:6379/1"}
tenants: [{name: t, keys: [{id: k, sha256: 00000000000000000000000000000000000000000000000000000000000abcde}]}]
"""


def test_the_effective_config_reads_back_to_the_same():
    """Every key is in it, durations and sizes with units."""
    config = load(EXAMPLE, env={})
    assert parse(effective(config), EXAMPLE, env={}) == config


def test_no_secret_is_in_the_effective_config():
    """Keys, hashes and passwords are three stars; the rest of an address stays."""
    config = parse(SECRETS, env={"K": "hunter2"})
    shown = effective(config)
    assert "hunter2" not in shown + json.dumps(plain(config)) + repr(config)
    assert "abcde" not in shown
    assert "redis://***@10.0.0.5:6379/1" in shown
    assert shown.count("'***'") == 4


def test_the_plain_config_is_json():
    """Types that JSON has, so that other programs can read it."""
    config = load(EXAMPLE, env={})
    assert json.loads(json.dumps(plain(config))) == yaml.safe_load(effective(config))


def test_every_key_is_documented():
    """A line for each, in the reference that the docs are tested against."""
    rows = list(reference())
    assert all(row.doc and row.doc.endswith(".") and len(row.doc) < 120 and row.expects for row in rows)
    assert len({row.path for row in rows}) == len(rows)
    assert [row.path for row in rows if row.default is None] == [
        "server.tls.cert",
        "server.tls.key",
        "models[]",
        "models[].name",
        "models[].adapters[].name",
        "models[].replicas[].name",
        "models[].replicas[].url",
        "models[].discover[].kind",
        "models[].litellm.model",
        "tenants[].name",
        "tenants[].keys[].id",
        "tenants[].keys[].sha256",
    ]
    assert next(row for row in rows if row.path == "server.max_body").default == "16MiB"


def test_a_default_is_what_the_kind_of_the_key_reads():
    """What the reference says of a default can be written down and gives that default."""
    for row in reference():
        if row.path.count(".") == 1 and "[" not in row.path and "NAME" not in row.path and row.default not in {None, "", "[]"}:
            section, name = row.path.split(".")
            text = 'models: [{name: a, replicas: [{name: r, url: "http://h"}]}]\n' + f"{section}: {{{name}: {row.default}}}"
            config = parse(text, EXAMPLE, env={})
            cls = hints(Config)[section]
            default = next(one.default for one in dataclasses.fields(cls) if one.name == name)
            if not isinstance(default, Path):
                assert getattr(getattr(config, section), name) == default
