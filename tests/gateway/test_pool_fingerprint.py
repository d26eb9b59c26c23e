"""Whose vectors a pool makes: the fingerprint that thresholds and collections belong to."""

import pytest

pytest.importorskip("numpy", reason="numpy is not installed (the extra `semantic`)")

from gateway.build.semantic import collection_of, describe
from gateway.config import parse

CONFIG = """
models:
  - {{name: chat, replicas: [{{name: r, url: "http://10.0.0.1/v1"}}]}}
  - {{name: one, served_name: {served}, version: "{version}", endpoints: [embeddings], replicas: [{{name: r, url: "http://10.0.0.2/v1"}}],
     adapters: [{{name: tuned, served_name: tuned-one}}]}}
  - {{name: two, served_name: org/two, endpoints: [embeddings], replicas: [{{name: r, url: "http://10.0.0.3/v1"}}]}}
routing: {{aliases: {{vectors: {alias}}}}}
cache: {{semantic: {{embedder: {{kind: pool, model: {model}, dimension: 2}}}}}}
"""


def fingerprint(model="vectors", *, served="org/one", version="", alias="one"):
    text = CONFIG.format(model=model, served=served, version=version, alias=alias)
    return describe(parse(text, "c.yaml")).fingerprint


def test_a_model_is_the_same_by_any_of_its_names():
    """The vectors that were kept under an alias are those of the model that it leads to."""
    assert fingerprint("vectors") == fingerprint("one")


@pytest.mark.parametrize("change", [{"served": "org/other"}, {"version": "2"}, {"alias": "two"}, {"alias": "tuned"}])
def test_another_model_behind_the_same_name_is_another_embedder(change):
    """Served under another name, of another version, an alias that was turned, an adapter: no vector of the old one is met."""
    assert fingerprint(**change) != fingerprint()


def test_a_collection_is_named_after_what_is_served():
    """An operator who looks at the server sees whose vectors those are."""
    assert collection_of(describe(parse(CONFIG.format(model="two", served="a", version="", alias="one"), "c.yaml"))).startswith(
        "tiergate-org-two-"
    )
