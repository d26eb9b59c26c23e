"""What a config says of the models that the semantic cache runs, and the folders that it names for them."""

import pytest
import tiny_onnx

from gateway.config import ConfigError, load, parse

MODELS = "models: [{name: m, replicas: [{name: r, url: 'http://127.0.0.1:1/v1'}]}]\n"


@pytest.mark.parametrize(
    ("verifier", "said"),
    [
        ("{}", "verifier kind pool needs a model"),
        ("{kind: onnx}", "verifier kind onnx needs a path"),
        ("{kind: onnx, path: d, model: m}", "verifier.model: verifier kind onnx has no model"),
        ("{model: m, path: d}", "verifier.path: verifier kind pool has no path"),
        ("{model: m, threshold: 0.5}", "verifier.threshold: verifier kind pool has no threshold"),
        ("{model: n}", "verifier.model: unknown model"),
        ("{kind: onix, path: d}", "unknown verifier kind"),
        ("{kind: onnx, path: d, threshold: 2}", "verifier.threshold: expected a number from 0 to 1"),
    ],
)
def test_what_a_kind_needs_and_what_it_has_not(verifier, said):
    """A key of the other kind is an error rather than ignored."""
    with pytest.raises(ConfigError, match=said):
        parse(f"{MODELS}cache: {{semantic: {{verifier: {verifier}}}}}\n")


@pytest.mark.parametrize("lacking", ["verifier.json", "model.onnx", "tokenizer.json"])
def test_a_folder_that_is_none_is_told_with_its_line(tmp_path, lacking):
    """Before anything starts; relative to the config file."""
    config = tmp_path / "config.yaml"
    config.write_text(f"{MODELS}cache: {{semantic: {{verifier: {{kind: onnx, path: cross}}}}}}\n")
    folder = tiny_onnx.steady(tmp_path / "cross", 2.0)
    assert load(config).cache.semantic.verifier.path == folder
    (folder / lacking).unlink()
    with pytest.raises(ConfigError, match=f":2:.*verifier.path: {folder} is no verifier's folder: {lacking}: No such file"):
        load(config)


def test_a_description_that_is_wrong_is_told_with_its_line(tmp_path):
    """The file and the field."""
    config = tmp_path / "config.yaml"
    config.write_text(f"{MODELS}cache: {{semantic: {{verifier: {{kind: onnx, path: cross}}}}}}\n")
    tiny_onnx.steady(tmp_path / "cross", 2.0, threshold=7)
    with pytest.raises(ConfigError, match=r"verifier\.json: threshold is above 0"):
        load(config)


@pytest.mark.parametrize("file", ["embedder.json", "model.onnx"])
def test_so_is_an_embedders(tmp_path, file):
    """The folder of `embedder: {kind: onnx}` is looked into as well."""
    config = tmp_path / "config.yaml"
    config.write_text(f"{MODELS}cache: {{semantic: {{embedder: {{kind: onnx, model: own}}}}}}\n")
    folder = tiny_onnx.steady(tmp_path / "own", 2.0)
    (folder / "embedder.json").write_text('{"name": "own", "dimension": 4, "max_tokens": 16}')
    load(config)
    (folder / file).unlink()
    with pytest.raises(ConfigError, match=f"embedder.model: {folder} is no embedder's folder: {file}"):
        load(config)
