"""What the semantic cache wants of a config: packages, and models that can do what they are named for."""

import pytest

from gateway.config import ConfigError, parse
from gateway.config.extras import missing

BASE = """\
models:
  - {{name: chatty, adapters: [{{name: tuned}}], replicas: [{{name: r, url: "http://10.0.0.1/v1"}}]}}
  - {{name: vectors, endpoints: [embeddings], adapters: [{{name: sharp}}], replicas: [{{name: r, url: "http://10.0.0.2/v1"}}]}}
routing: {{aliases: {{v: sharp, c: tuned, any: auto}}}}
tenants: [{{name: acme}}]
cache: {{secret: x, exact: {{store: {store}}}, semantic: {{enabled: {enabled}, {section}}}}}
"""
NOTHING = "shadow: {share: 0.1}"


def config(section=NOTHING, store="memory", enabled="true"):
    return parse(BASE.format(section=section, store=store, enabled=enabled), "c.yaml")


def problems(section):
    with pytest.raises(ConfigError) as caught:
        config(section)
    return str(caught.value)


SERVER = "qdrant: {url: 'http://q'}"
MINILM = {"numpy": "semantic", "onnxruntime": "semantic", "tokenizers": "semantic"}
EMBEDDER = "embedder: {{kind: pool, dimension: 2, model: {}}}"
CROSS = "verifier: {kind: onnx, path: cross}"
JUDGES = ("verifier: {{model: {}}}", "shadow: {{judge: {}}}")


@pytest.mark.parametrize("name", ["vectors", "sharp", "v"])
def test_a_pool_that_embeds_may_be_named_by_any_of_its_names(name):
    """The model's own name, an adapter's, an alias's."""
    assert config(EMBEDDER.format(name)).cache.semantic.embedder.model == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("chatty", 'the model "chatty" does not serve embeddings'),
        ("tuned", 'the model "tuned" does not serve embeddings'),
        ("c", 'the model "c" does not serve embeddings'),
        ("auto", "must be one model"),
        ("any", "must be one model"),
        ("vektors", 'unknown model "vektors"; did you mean "vectors"?'),
    ],
)
def test_a_name_that_leads_to_no_embeddings_is_an_error(name, said):
    """Whatever stands for a model that serves none, and whatever stands for several."""
    told = problems(EMBEDDER.format(name))
    assert f"cache.semantic.embedder.model: {said}" in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize("section", JUDGES)
@pytest.mark.parametrize("name", ["chatty", "tuned", "c", "auto"])
def test_a_model_that_chats_may_judge(section, name):
    """By any of its names, `auto` among them."""
    config(section.format(name))


@pytest.mark.parametrize("section", JUDGES)
@pytest.mark.parametrize("name", ["vectors", "sharp", "v"])
def test_a_model_that_does_not_chat_cannot_judge(section, name):
    """It could say neither yes nor no."""
    assert f'the model "{name}" does not serve chat' in problems(section.format(name))


@pytest.mark.parametrize(
    ("section", "store", "enabled", "wanted"),
    [
        (NOTHING, "memory", "true", {**MINILM, "qdrant_edge": "semantic"}),
        (SERVER, "memory", "true", {**MINILM, "qdrant_client": "qdrant"}),
        (EMBEDDER.format("vectors"), "memory", "true", {"numpy": "semantic", "qdrant_edge": "semantic"}),
        (f"{EMBEDDER.format('vectors')}, {SERVER}", "memory", "true", {"numpy": "qdrant", "qdrant_client": "qdrant"}),
        (f"{EMBEDDER.format('vectors')}, {CROSS}", "memory", "true", {**MINILM, "qdrant_edge": "semantic"}),
        ("embedder: {kind: sentence_transformers, model: m}", "memory", "false", {}),
        (NOTHING, "two_level", "false", {"redis": "redis"}),
    ],
)  # fmt: skip
def test_each_package_is_wanted_where_it_is_used_and_with_its_extra(section, store, enabled, wanted):
    """By the kind of embedder, and the place of the store; nothing where nobody has such a cache."""
    tree = config(section, store, enabled)
    assert missing(tree, lambda _: True) == []
    for name, extra in wanted.items():
        (first, *_) = missing(tree, lambda module, lost=name: module != lost)
        assert first[1] == f"not installed: {name}: pip install 'tiergate[{extra}]'"
    assert missing(tree, lambda module: module in wanted) == []
