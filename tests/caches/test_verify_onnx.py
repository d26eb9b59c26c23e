"""A cross-encoder on disk: what it says of two questions, and what is no cross-encoder."""

import importlib.util
import math

import pytest
import tiny_onnx
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnxruntime", "tokenizers")),
    reason="the extra `semantic` is missing",
)


def opened(path):
    from caches.verify.description import read_folder
    from caches.verify.onnx import OnnxPairs

    return OnnxPairs(read_folder(path))


def sure(logit):
    return pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-6)


@pytest.mark.parametrize("output", ["logit", "probability", "classes"])
def test_it_says_how_sure_it_is(tmp_path, output):
    """Whatever the form that a model says it in, a score is a share from 0 to 1."""
    model = opened(tiny_onnx.folder(tmp_path, tiny_onnx.graph(tiny_onnx.LOGITS, output), output=output))
    assert model.scores([("yes please", "yes"), ("no", "no")]) == [sure(4), sure(-4)]


def test_which_class_means_yes_is_told(tmp_path):
    """With the other class as the yes every score is the other way round."""
    model = opened(tiny_onnx.folder(tmp_path, tiny_onnx.graph(tiny_onnx.LOGITS, "classes"), output="classes", same=0))
    assert model.scores([("yes", "yes")]) == [sure(-4)]


def test_a_doubt_either_way_round_counts(tmp_path):
    """Both orders are asked and the lower one counts, so which question came first does not matter."""
    model = opened(tiny_onnx.folder(tmp_path))
    assert model.scores([("yes", "no please"), ("no please", "yes"), ("yes", "please")]) == [sure(-4), sure(-4), sure(1)]


@pytest.mark.parametrize(
    "pair",
    [("yes", "unheard"), ("unheard", "yes"), ("yes", ""), (" ", "yes"), ("yes " * 11, "yes " * 11), ("yes", "x" * 100_000),
     ("yes", "\ud800")],
    ids=["an unknown word", "at first", "nothing", "white space", "too many tokens", "far too long", "half a surrogate"],
)  # fmt: skip
def test_what_it_cannot_read_whole_has_no_score(tmp_path, pair):
    """Neither half a question nor a sign that stands for any other is compared."""
    assert opened(tiny_onnx.folder(tmp_path)).scores([pair]) == [None]


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_breaks_it(tmp_path_factory, one, other):
    """Any two texts have a score from 0 to 1, the same both ways round, or none."""
    (score,), (turned,) = (steady_model(tmp_path_factory).scores([pair]) for pair in ((one, other), (other, one)))
    assert score == turned
    assert score is None or 0 <= score <= 1


_kept = []


def steady_model(factory):
    if not _kept:
        _kept.append(opened(tiny_onnx.steady(factory.mktemp("steady"), 2.0)))
    return _kept[0]


@pytest.mark.parametrize("output", ["logit", "probability", "classes"])
def test_what_is_no_probability_is_a_failure(tmp_path, output):
    """NaN approves nothing and refuses nothing: the model is broken."""
    model = opened(tiny_onnx.folder(tmp_path, tiny_onnx.graph(tiny_onnx.LOGITS, output), output=output))
    with pytest.raises(ValueError, match="no probability"):
        model.scores([("nan", "yes")])


def test_a_logit_that_is_described_as_a_probability_is_a_failure(tmp_path):
    """4 is no share."""
    with pytest.raises(ValueError, match="no probability"):
        opened(tiny_onnx.steady(tmp_path, 4.0, output="probability"))


@pytest.mark.parametrize(
    ("output", "described", "said"),
    [("every", "logit", "numbers, not one logit"), ("classes", "probability", "2 numbers"), ("logit", "classes", "1 numbers")],
)
def test_outputs_that_are_not_as_described(tmp_path, output, described, said):
    """A model of another shape is told when it is loaded, in a line."""
    model = tiny_onnx.graph((0.5,) * 300, output)
    folder = tiny_onnx.steady(tmp_path, 0.0, output=described)
    (folder / "model.onnx").write_bytes(model)
    with pytest.raises(ValueError, match=said):
        opened(folder)


def test_an_input_that_nobody_feeds(tmp_path):
    """A model that wants more than tokens is none that we can run."""
    with pytest.raises(ValueError, match="pixel_values"):
        opened(tiny_onnx.folder(tmp_path, tiny_onnx.graph(tiny_onnx.LOGITS, fed=("input_ids", "pixel_values"))))


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"{}", b"<html>"])
def test_files_that_are_broken(tmp_path, name, content):
    """Whatever the runtime and the tokenizer say to that is an exception, not the end of the process."""
    folder = tiny_onnx.folder(tmp_path)
    (folder / name).write_bytes(content)
    with pytest.raises(Exception, match=r".+"):
        opened(folder)


def test_other_files_than_were_described(tmp_path):
    """With sums in its description a folder whose weights were changed does not load."""
    folder = tiny_onnx.folder(tmp_path, sha256={"model.onnx": "0" * 64})
    with pytest.raises(ValueError, match=r"model\.onnx is not the file"):
        opened(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"threshold": 0}, "threshold"),
        ({"threshold": 1.5}, "threshold"),
        ({"threshold": "high"}, "threshold"),
        ({"output": "stars"}, "output is one of"),
        ({"same": -1}, "same"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"scripts": ["klingon"]}, "klingon"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_description_is_told_in_a_line(tmp_path, change, said):
    """A mistake names the file and the field."""
    with pytest.raises(ValueError, match=said) as caught:
        opened(tiny_onnx.folder(tmp_path, **change))
    assert str(tmp_path / "verifier.json") in str(caught.value)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "verifier.json"])
def test_a_folder_that_lacks_a_file(tmp_path, name):
    """The line names the folder and the file."""
    (tiny_onnx.folder(tmp_path) / name).unlink()
    with pytest.raises(ValueError, match=f"is no verifier's folder: {name}: No such file"):
        opened(tmp_path)
