"""An embedder without weights: a text is the words it has, so that every cosine can be told by hand."""

import hashlib
import re

import numpy as np

from gateway.lab.cacheeval.policies import Ruling, Verdict
from gateway.lab.cacheeval.settings import Opened

DIMENSION = 512
TOO_LONG = "long"


class WordModel:
    """The cosine of two texts is the number of words that they share over the geometric mean of how many each has."""

    fingerprint = "words-1"
    dimension = DIMENSION
    max_tokens = 100

    def __init__(self):
        self.embedded = []

    def embed(self, texts):
        self.embedded += texts
        return [None if TOO_LONG in text else _vector(text) for text in texts]


def _vector(text):
    row = np.zeros(DIMENSION, dtype=np.float32)
    for word in set(re.findall(r"\w+", text.lower())):
        row[int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big") % DIMENSION] = 1
    return row / np.linalg.norm(row)


def opened(model=None):
    return Opened("words", model or WordModel(), lambda text: text.isascii())


class Cut:
    """Serves from one cosine on, leaves open from another one on, and refuses a word."""

    def __init__(self, serve, grey=2.0, refused="never", name="cut"):
        self.name, self._serve, self._grey, self._refused = name, serve, grey, refused

    def decide(self, cosine, asked, stored):
        if (self._refused in asked) != (self._refused in stored):
            return Ruling(Verdict.REFUSE, cosine, self._refused)
        if cosine >= self._serve:
            return Ruling(Verdict.SERVE, cosine)
        return Ruling(Verdict.GREY if cosine >= self._grey else Verdict.REFUSE, cosine, "similarity")
