"""What is known of a model before it is loaded."""

import json
from hashlib import sha256

import pytest

from caches.embed.description import read_folder

ABOUT = {"name": "tiny", "dimension": 4, "max_tokens": 16}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"weights")
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    return tmp_path


def described(folder, **changes):
    (folder / "embedder.json").write_text(json.dumps(ABOUT | changes))
    return read_folder(folder)


def test_sums_that_are_not_given_are_taken(folder):
    """A folder without sums is described as the same one with them."""
    sums = {"model.onnx": sha256(b"weights").hexdigest(), "tokenizer.json": sha256(b"{}").hexdigest()}
    assert described(folder).about == described(folder, sha256=sums).about


@pytest.mark.parametrize(
    "change", [{"pooling": "cls"}, {"prefix": "query: "}, {"name": "other"}, {"max_tokens": 15}, {"dimension": 5}]
)
def test_what_changes_vectors_changes_the_fingerprint(folder, change):
    """Thresholds belong to a fingerprint, so whatever changes a vector changes it."""
    assert described(folder).about.fingerprint != described(folder, **change).about.fingerprint


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_other_files_are_another_fingerprint(folder, name):
    """Other weights or another tokenizer are another model."""
    before = described(folder).about.fingerprint
    (folder / name).write_bytes(b"other")
    assert described(folder).about.fingerprint != before


def test_the_scripts_do_not_change_it(folder):
    """What a model may be asked about changes none of its vectors."""
    assert described(folder).about.fingerprint == described(folder, scripts=["latin"]).about.fingerprint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pooling": "max"}, "pooling"),
        ({"scripts": ["klingon"]}, "klingon"),
        ({"dimension": 0}, "dimension"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"colour": "red"}, "colour"),
        ({"name": ""}, "name"),
    ],
)
def test_a_wrong_description_is_told_in_a_line(folder, change, said):
    """A mistake names the file and the field."""
    with pytest.raises(ValueError, match=said) as caught:
        described(folder, **change)
    assert str(folder / "embedder.json") in str(caught.value)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "embedder.json"])
def test_a_missing_file_is_told_in_a_line(folder, name):
    """A folder that lacks a file is no model's."""
    described(folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match="is no embedder's folder"):
        read_folder(folder)


def test_files_that_are_not_those_described_are_found(folder):
    """A file that was changed or cut after it was described does not load under the old fingerprint."""
    known = described(folder)
    known.check()
    (folder / "model.onnx").write_bytes(b"weigh")
    with pytest.raises(ValueError, match=r"model\.onnx is not the file"):
        known.check()
