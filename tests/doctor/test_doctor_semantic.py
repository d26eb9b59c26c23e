"""The semantic cache's embedder and policy, with what operators get wrong about them planted for real."""

import json
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from doctor_talk import config

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (the extra `semantic`)")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed (the extra `semantic`)")

from gateway.config import examine
from gateway.doctor.semantic import policy

SEMANTIC = "cache.semantic"
EMBEDDER = f"{SEMANTIC}.embedder"


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch):
    """The store is tried in a directory for temporary files, and an engine writes through to the disk."""
    if Path("/dev/shm").is_dir():
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")


def semantic(url, tenants=None, plans=None, exact=None, **own):
    """A config in which nothing is wrong but what is given: keys of the section, caches of tenants by name and of plans."""
    section = {"enabled": True, "qdrant": {"path": "qdrant", "timeout": "10s"}, **own}
    section["embedder"] = {"deadline": "10s", **own.get("embedder", {})}
    tree = config(url, cache={"secret": "x", "exact": {"keep": "all", **(exact or {})}, "semantic": section})
    if plans:
        tree["plans"] |= plans
    if tenants:
        first = tree["tenants"][0]
        keys = [[{"id": "k", "sha256": f"{number:064x}"}] for number in range(1, 1 + len(tenants))]
        tree["tenants"] = [
            {**first, "name": name, "cache": own, "keys": key} for (name, own), key in zip(tenants, keys, strict=True)
        ]
    return tree


async def told(doctor, tree, **options):
    """Findings of the semantic cache that are not well, by key; and those that are."""
    patient = {"timeout": 20.0, "total": 60.0, **options}  # a model that loads on a busy machine
    lines = [line for line in await doctor(tree, **patient) if line.key.startswith("cache.") or line.key.startswith("plans.")]
    return [(line.severity, line.key) for line in lines if line.severity != "ok"], [
        line for line in lines if line.severity == "ok"
    ]


def what(doctor, key):
    (line,) = [line for line in doctor.lines if line.key == key]
    return f"{line.what} | {line.mend}"


async def test_the_embedder_that_comes_along_is_well(doctor, fake):
    """It is loaded, times a sentence, and says that Chinese has no part in it, with the figure."""
    bad, well = await told(doctor, semantic((await fake()).url))
    assert bad == []
    said = " ".join(line.what for line in well)
    assert "embeds a sentence in" in said
    assert "fingerprint bab1e4f22557" in said
    assert "the embedded store takes and gives a point back" in said
    assert "46 %" in said
    assert "Chinese" in said


async def test_nothing_is_said_of_a_cache_that_nobody_has(doctor, fake):
    """No embedder is loaded and no store opened where no tenant's questions are compared."""
    assert await told(doctor, semantic((await fake()).url, enabled=False)) == ([], [])


@pytest.mark.skipif(find_spec("sentence_transformers") is not None, reason="it is installed here")
async def test_a_missing_package_is_told_with_its_extra(doctor, fake):
    """What is missing cannot be tried: the config's own error says what to install, once."""
    tree = semantic((await fake()).url, embedder={"kind": "sentence_transformers", "model": "BAAI/bge-m3"})
    bad, _ = await told(doctor, tree)
    assert bad == [("fail", f"{EMBEDDER}.kind")]
    assert "tiergate[sentence-transformers]" in what(doctor, f"{EMBEDDER}.kind")


def folder_of(tmp_path, **changes):
    """The packaged model in a folder of its own, described otherwise."""
    from caches.embed import minilm

    home = tmp_path / "embedder"
    shutil.copytree(minilm.folder().path, home)
    about = json.loads((home / "embedder.json").read_text())
    (home / "embedder.json").write_text(json.dumps({**about, **changes}))
    return home


async def test_an_embedder_that_nobody_has_measured_is_a_warning(doctor, fake, tmp_path):
    """Its fingerprint is none that the presets were set with, so careful cuts hold, and how to measure it is said."""
    home = folder_of(tmp_path, name="own-model")
    bad, _ = await told(doctor, semantic((await fake()).url, embedder={"kind": "onnx", "model": str(home)}))
    assert bad == [("warn", EMBEDDER)]
    assert "careful cuts" in doctor.only().what
    assert "--calibrate" in doctor.only().mend
    assert (await told(doctor, semantic((await fake()).url, embedder={"kind": "onnx", "model": str(home)}, cut=0.7)))[0] == []


async def test_chinese_with_minilm_is_a_warning_where_it_is_let_in(doctor, fake, tmp_path):
    """A MiniLM that is described as reading every script would serve wrong answers."""
    home = folder_of(tmp_path, scripts=["all"])
    bad, _ = await told(doctor, semantic((await fake()).url, embedder={"kind": "onnx", "model": str(home)}))
    assert bad == [("warn", f"{EMBEDDER}.scripts")]
    assert "46 %" in what(doctor, f"{EMBEDDER}.scripts")


@pytest.mark.parametrize(
    ("plant", "key", "said"),
    [
        (shutil.rmtree, f"{EMBEDDER}.model", "no embedder's folder"),
        (lambda home: (home / "model.onnx").write_bytes(b"no model"), f"{EMBEDDER}.kind", "is not the file that"),
        (lambda home: (home / "embedder.json").write_text("{"), f"{EMBEDDER}.model", "embedder.json"),
    ],
)
async def test_a_folder_that_holds_no_such_model_is_found(doctor, fake, tmp_path, plant, key, said):
    """Missing, changed, or not described: each says which file it is about."""
    home = folder_of(tmp_path)
    plant(home)
    bad, _ = await told(doctor, semantic((await fake()).url, embedder={"kind": "onnx", "model": str(home)}))
    assert ("fail", key) in bad
    assert said in what(doctor, key)


async def test_an_embedder_that_is_too_slow_for_its_deadline_is_a_warning(doctor, fake):
    """What it takes here against what it may take."""
    bad, _ = await told(doctor, semantic((await fake()).url, embedder={"deadline": "1ms"}))
    assert bad == [("warn", f"{EMBEDDER}.deadline")]
    assert "may take 1 ms" in doctor.only().what


# -- a pool


def embeddings(*numbers):
    return json.dumps({"object": "list", "data": [{"index": 0, "embedding": list(numbers)}]}).encode()


def vllm_with(vllm, answer, status=200):
    return {**vllm("emb"), "/v1/embeddings": (status, answer)}


async def pooled(doctor, serve, answers, *, model="emb", **embedder):
    """A config whose embedder is a pool of engines that answer so; two names lead to it beside its own."""
    from doctor_talk import vllm

    engines = [
        await serve(vllm_with(vllm, *answer) if isinstance(answer, tuple) else vllm_with(vllm, answer)) for answer in answers
    ]
    chat = await serve()
    tree = semantic(f"http://127.0.0.1:{chat.port}/v1", embedder={"kind": "pool", "model": model, "dimension": 2, **embedder})
    replicas = [
        {"name": f"e{number}", "url": f"http://127.0.0.1:{one.port}/v1", "api_key": "s3cr3t-key"}
        for number, one in enumerate(engines)
    ]
    adapters = [{"name": "tuned", "served_name": "emb"}]
    pool = {"name": "emb", "context": 4096, "endpoints": ["embeddings"], "adapters": adapters, "replicas": replicas}
    tree["models"].append(pool)
    tree["routing"] = {"aliases": {"vectors": "tuned", "any": "auto", "talk": "small"}}
    return await told(doctor, tree)


@pytest.mark.parametrize("name", ["emb", "tuned", "vectors"])
async def test_a_pool_that_embeds_is_well_by_any_of_its_names(doctor, serve, name):
    """The model's own, an adapter's, an alias's: it is asked, and only that nobody has measured it is said."""
    bad, well = await pooled(doctor, serve, [embeddings(0.6, 0.8), embeddings(0.6, 0.8)], model=name)
    assert bad == [("warn", EMBEDDER)]
    assert any("embeds a sentence in" in line.what for line in well)


@pytest.mark.parametrize(
    ("answers", "key", "said"),
    [
        ([embeddings(0.6, 0.8, 0.0)], "dimension", "vectors of 3 numbers, not 2 | Write dimension: 3."),
        ([(b"no such endpoint for s3cr3t-key", 404)], "model", "answers 404: no such endpoint for ***"),
        ([b"<html>"], "model", "does not answer with one vector"),
        ([embeddings(0.0, 0.0)], "model", "does not answer with one vector"),
        ([json.dumps({"data": []}).encode()], "model", "does not answer with one vector"),
        ([embeddings(1.0, 0.0), embeddings(0.0, 1.0)], "model", "differently: a cosine of 0.00"),
    ],
)
async def test_a_pool_that_does_not_embed_as_configured_is_found(doctor, serve, answers, key, said):
    """Another dimension, no such endpoint, no vector, or replicas that do not agree: each with the replica's name."""
    bad, _ = await pooled(doctor, serve, answers)
    assert ("fail", f"{EMBEDDER}.{key}") in bad
    assert said in what(doctor, f"{EMBEDDER}.{key}")


@pytest.mark.parametrize(("name", "said"), [("talk", "does not serve embeddings"), ("any", "must be one model")])
async def test_a_name_that_leads_to_no_embeddings_is_the_configs_error(doctor, serve, name, said):
    """An alias of a chat model, and one of `auto`: they are not asked."""
    bad, _ = await pooled(doctor, serve, [embeddings(0.6, 0.8)], model=name)
    assert bad == [("fail", f"{EMBEDDER}.model")]
    assert said in what(doctor, f"{EMBEDDER}.model")


# -- policy

NOWHERE = "http://127.0.0.1:1/v1"


@pytest.fixture
def judged(tmp_path):
    """`judged(tree)` → the findings that are not well, by key; all of them are in `judged.lines`."""

    def look(tree):
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(tree))
        look.lines = policy(examine(path, {}).config)
        return [(line.severity, line.key) for line in look.lines if line.severity != "ok"]

    return look


def test_a_semantic_cache_of_deterministic_requests_only_is_a_warning(judged):
    """Requests without temperature 0 or a seed are not kept, and so never found: said with the tenants that this is so for."""
    tenants = [("acme", {}), ("globex", {"keep": "all"}), ("initech", {"keep": "none"})]
    bad = judged(semantic(NOWHERE, tenants, exact={"keep": "deterministic"}))
    assert bad == [("warn", "cache.exact.keep")] * 2
    one, other = [line.what for line in judged.lines]
    assert ('"initech"' in one, "keep: none" in one) == (True, True)
    assert ('"acme"' in other, "globex" in other, "temperature 0" in other) == (True, False, True)


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ({"max_error": 0.02}, []),
        ({"max_error": 0.02, "shadow": {"share": 0}}, ["max_error"]),
        ({"max_error": 0.02, "shadow": {"per_minute": 0}}, ["max_error"]),
        ({"max_error": 0.02, "shadow": {"share": 0}, "verifier": {"model": "small"}}, ["max_error"]),
        ({"shadow": {"share": 0}}, []),
    ],
)
def test_a_bound_that_nothing_can_show_is_a_warning(judged, own, found):
    """Labels come from shadow verification alone, so without it a bound is a promise that nobody keeps."""
    bad = judged(semantic(NOWHERE, **own))
    assert bad == [("warn", f"{SEMANTIC}.{key}") for key in found]


def test_who_has_it_is_said_where_the_section_says_otherwise(judged):
    """Off here, on for one tenant."""
    tenants = [("acme", {"semantic": True}), ("globex", {})]
    bad = judged(semantic(NOWHERE, tenants, enabled=False))
    assert bad == []
    (line,) = judged.lines
    assert (line.severity, line.key) == ("ok", f"{SEMANTIC}.enabled")
    assert 'for "acme" only, though it is off here' in line.what


def test_a_plan_that_turns_it_on_for_nobody_is_a_warning(judged):
    """Somebody meant to have it."""
    bad = judged(semantic(NOWHERE, enabled=False, plans={"gold": {"cache": {"semantic": True}}}))
    assert ("warn", "plans.gold.cache.semantic") in bad


@pytest.mark.parametrize(("askers", "found"), [(3, [("warn", f"{SEMANTIC}.askers")]), (2, [])])
def test_a_scope_of_fewer_tenants_than_must_ask_is_a_warning(judged, askers, found):
    """Two tenants share, and three must have asked: nothing is ever shared."""
    tenants = [("acme", {"scope": "help"}), ("globex", {"scope": "help"}), ("initech", {})]
    bad = judged(semantic(NOWHERE, tenants, askers=askers))
    assert bad == found


@pytest.mark.parametrize("section", [{"verifier": {"model": "voice"}}, {"shadow": {"judge": "voice"}}])
async def test_a_judge_that_cannot_be_asked_is_found(doctor, fake, section):
    """A model that serves no chat can say neither yes nor no."""
    tree = semantic((await fake()).url, **section)
    tree["models"].append({**tree["models"][0], "name": "voice", "endpoints": ["audio"]})
    bad, _ = await told(doctor, tree)
    assert [severity for severity, _ in bad] == ["fail"]
    assert "does not serve chat" in " ".join(line.what for line in doctor.bad)
