"""The model kind litellm in the config: what it needs, what it may not have, and what is said when the library is missing."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.config import ConfigError, effective, parse

ROOT = Path(__file__).resolve().parents[2]
SECRET = "sk-provider-0123456789abcdef"
GOOD = f"""
models:
  - name: overflow
    tier: large
    kind: litellm
    litellm:
      model: openai/gpt-4o-mini
      api_key: {SECRET}
      api_base: http://127.0.0.1:9000/v1
      drop_params: false
      params: {{api_version: "2024-10-21", aws_region_name: eu-west-1}}
"""
IMPORTS = """
import sys
from pathlib import Path
from gateway.build import build
from gateway.config import parse
from gateway.logs import NullLog
build(parse(Path(sys.argv[1]).read_text(), sys.argv[1]), NullLog())
assert "litellm" not in sys.modules, "it was imported"
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package of that name can be found; imported, it would fail."""
    package = tmp_path / "site" / "litellm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('it was imported')")
    monkeypatch.syspath_prepend(str(package.parent))
    return package.parent


def problems(text):
    with pytest.raises(ConfigError) as caught:
        parse(text, env={})
    return [str(problem).removeprefix("config.yaml:") for problem in caught.value.errors]


def test_a_good_one(installed):
    """Everything is read; the key and the further arguments are hidden, and what is shown reads back."""
    config = parse(GOOD, env={})
    (model,) = config.models
    assert (model.kind, model.replicas, model.litellm.model) == ("litellm", (), "openai/gpt-4o-mini")
    assert model.litellm.api_key.reveal() == SECRET
    assert {name: value.reveal() for name, value in model.litellm.params.items()} == {
        "api_version": "2024-10-21",
        "aws_region_name": "eu-west-1",
    }
    shown = effective(config)
    assert SECRET not in shown
    assert "eu-west-1" not in shown
    assert parse(shown, env={}).models[0].litellm.api_base == "http://127.0.0.1:9000/v1"


def test_the_smallest(installed):
    """A model's name and the provider's name for it are enough; the key then comes from litellm's usual variable."""
    config = parse("models: [{name: m, kind: litellm, litellm: {model: openai/gpt-4o-mini}}]", env={})
    own = config.models[0].litellm
    assert own is not None
    assert (own.api_key.reveal(), own.api_base, own.drop_params, dict(own.params)) == ("", None, True, {})


def test_an_empty_variable_is_no_key(installed):
    """`${OPENAI_API_KEY:-}` unset is as if the key was left out."""
    text = GOOD.replace(SECRET, '"${OPENAI_API_KEY:-}"')
    assert not parse(text, env={}).models[0].litellm.api_key


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "      model: openai/gpt-4o-mini\n",
            "",
            '7:7: models[0].litellm: missing key "model"',
        ),
        ("api_base: http://127.0.0.1:9000/v1", "api_base: nonsense", "9:17: models[0].litellm.api_base: expected a URL such as"),
        ("model: openai/gpt-4o-mini", 'model: ""', "7:14: models[0].litellm.model: expected a text of 1 to 200"),
        ("api_base:", "api_bas:", '9:7: models[0].litellm.api_bas: unknown key; did you mean "api_base"?'),
        ("api_version:", "timeout:", "11:25: models[0].litellm.params.timeout: not to be set here"),
        ("api_version:", "api_key:", "11:25: models[0].litellm.params.api_key: not to be set here"),
        (
            "tier: large",
            "replicas: [{name: r, url: 'http://127.0.0.1:1/v1'}]",
            "4:15: models[0].replicas: kind litellm has no replicas",
        ),
        ("tier: large", "adapters: [{name: a}]", "4:15: models[0].adapters: kind litellm has no adapters"),
        ("tier: large", "served_name: x", "4:18: models[0].served_name: kind litellm has no served_name"),
        ("kind: litellm", "kind: litelm", '5:11: models[0].kind: unknown model kind "litelm"; expected one of openai, litellm'),
        ("    kind: litellm\n", "", "6:7: models[0].litellm: is for kind litellm only"),
    ],
)
def test_a_mistake_is_told_with_its_line(installed, old, new, expected):
    """Each is an error at its own place."""
    assert old in GOOD
    found = problems(GOOD.replace(old, new, 1))
    assert any(problem.startswith(expected) for problem in found), found


def test_it_needs_its_section(installed):
    """The kind alone says too little."""
    (problem,) = problems("models: [{name: m, kind: litellm}]")
    assert problem == "1:10: models[0]: kind litellm needs its own section: `litellm: {model: provider/model}`"


def test_it_belongs_to_its_kind():
    """A `litellm` section of another kind's model would do nothing, so it is an error."""
    text = "models: [{name: m, replicas: [{name: r, url: 'http://127.0.0.1:1/v1'}], litellm: {model: openai/x}}]"
    assert problems(text) == ["1:82: models[0].litellm: is for kind litellm only"]


@pytest.mark.skipif(importlib.util.find_spec("litellm") is not None, reason="litellm is installed")
def test_a_missing_library_is_an_error_that_says_what_to_do():
    """With the line of the kind, and the command that mends it."""
    assert problems(GOOD) == ['5:11: models[0].kind: kind litellm needs the litellm library: pip install "tiergate[litellm]"']


@pytest.mark.skipif(importlib.util.find_spec("litellm") is not None, reason="litellm is installed")
@pytest.mark.parametrize("command", [["check"], ["serve", "--port", "0", "--config"]])
def test_the_commands_tell_it(tmp_path, command):
    """One line and exit code 2, from `check` and from `serve`."""
    (tmp_path / "config.yaml").write_text(GOOD)
    words = [sys.executable, "-m", "gateway.cli", *command, str(tmp_path / "config.yaml")]
    done = subprocess.run(words, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert 'pip install "tiergate[litellm]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", ["openai", "litellm"])
def test_it_is_not_imported_by_building(installed, tmp_path, kind):
    """A config without the kind never imports the library, and one with it does so only when the gateway runs."""
    path = tmp_path / "config.yaml"
    path.write_text(GOOD if kind == "litellm" else (ROOT / "config.yaml").read_text())
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, str(path)], check=False, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
