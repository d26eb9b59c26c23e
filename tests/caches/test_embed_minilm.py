"""The embedder that comes along, with its real weights."""

import importlib.util
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnxruntime", "tokenizers")),
    reason="the extra `semantic` is missing",
)

TEXTS = [
    "How do I reset my password?",
    "I forgot my password, how can I set a new one?",
    "What is the boiling point of water at sea level?",
    "for i in range(10): print(i)",
    "x",
]


@pytest.fixture(scope="module")
def model():
    from caches.embed import minilm

    return minilm.load()


def test_vectors_are_of_length_one(model):
    """Every vector is a unit vector of the stated dimension, and nobody can write into it."""
    for vector in model.embed(TEXTS):
        assert vector.shape == (model.dimension,) == (384,)
        assert vector.dtype == np.float32
        assert abs(float(vector @ vector) - 1) < 1e-5
        assert not vector.flags.writeable


@pytest.mark.parametrize(
    ("a", "b", "cosine"),
    [
        ("How do I reset my password?", "I forgot my password, how can I set a new one?", 0.865),
        ("How do I reset my password?", "What is the boiling point of water at sea level?", 0.126),
        ("The cat sits outside.", "A man is playing guitar.", 0.042),
        ("Wie setze ich mein Passwort zurück?", "How do I reset my password?", 0.231),
        ("Turn on the lights.", "Turn off the lights.", 0.866),
        ("What is 5 % of 200?", "What is 5 % of 300?", 0.814),
    ],
)
def test_known_pairs_have_their_cosines(model, a, b, cosine):
    """The cosines of known pairs are those of the model's 32-bit weights, give or take what rounding costs."""
    one, other = model.embed([a, b])
    assert abs(float(one @ other) - cosine) < 0.04


def test_a_vector_does_not_depend_on_its_neighbours(model):
    """Alone, in a crowd, in whatever order: a text's vector is the same to the last bit."""
    together = model.embed([*TEXTS, "a much longer text " * 12])
    for text, vector in zip(TEXTS, together, strict=False):
        (alone,) = model.embed([text])
        assert alone.tobytes() == vector.tobytes()
        (_, beside) = model.embed(["secrets of another tenant " * 20, text])
        assert beside.tobytes() == vector.tobytes()


def test_threads_may_ask_at_once(model):
    """Two threads on one model get what one would have got."""
    alone = model.embed(TEXTS)
    with ThreadPoolExecutor(2) as threads:
        for vectors in threads.map(model.embed, [TEXTS] * 8):
            assert all(a.tobytes() == b.tobytes() for a, b in zip(alone, vectors, strict=True))


def test_a_text_is_read_whole_or_not_at_all(model):
    """As many tokens as the model reads have a vector, which the last one changes; one more token has none."""
    most = model.max_tokens - 2  # beside the beginning and the end
    fits, other, beyond = model.embed(["dog " * most, "dog " * (most - 1) + "cat", "dog " * (most + 1)])
    assert beyond is None
    assert 0.9 < float(fits @ other) < 0.99999


@pytest.mark.parametrize("length", [10_000, 10_000_000])
def test_an_endless_text_is_not_even_cut_into_tokens(model, length):
    """A text of megabytes is turned away by its length."""
    assert model.embed(["a" * length]) == [None]


@pytest.mark.parametrize(
    "text",
    [
        "What does 猫 mean?",
        "😀 🤗",
        "decode " + "Zm9v" * 40,
        "",
        "   ",
        "\n\t",
        "\u200b\u200b",
        "\x00\x01",
        "\ud800",
    ],
)
def test_what_the_tokenizer_cannot_tell_apart_has_no_vector(model, text):
    """A sign outside the vocabulary, a word beyond its bounds, nothing visible, half a surrogate: no vector."""
    assert model.embed([text]) == [None]


def test_the_weights_are_those_that_are_described():
    """The committed files have the committed sums, the tokenizer neither pads nor cuts, and the licence is told beside them."""
    from caches.embed import minilm

    folder = minilm.folder()
    folder.check()
    tokenizer = json.loads((folder.path / "tokenizer.json").read_text())
    assert tokenizer["padding"] is tokenizer["truncation"] is None
    assert "Apache License, Version 2.0" in (folder.path / "NOTICE").read_text()


def test_the_gateway_starts_without_it():
    """Importing the gateway's app loads neither numpy nor ONNX Runtime nor a tokenizer."""
    code = "import gateway.app, sys; print(*{'numpy', 'onnxruntime', 'tokenizers'} & set(sys.modules))"
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_pictures_are_not_read(model):
    """An emoji is left out: whoever compares two texts compares their pictures by themselves."""
    with_picture, without = model.embed(["How do I load 🤗 Datasets?", "How do I load Datasets?"])
    assert with_picture is not None
    assert (with_picture == without).all()
