"""`tiergate explain`: the command line around the explanation."""

import io
import json
from pathlib import Path

import pytest

from gateway.cli import main
from routing.learned.shipped import shipped

CONFIG = """
models:
  - {name: small-model, tier: small, served_name: org/small, context: 4096, capabilities: [], replicas: [{name: s1, url: "http://127.0.0.1:1/v1"}]}
  - {name: large-model, tier: large, context: 32768, replicas: [{name: l1, url: "http://127.0.0.1:1/v1", api_key: s3cr3t}]}
cache: {prefix: {isolate: tenant}, secret: "${CACHE_SECRET:-}"}
plans: {pro: {tpm: 5000}}
tenants: [{name: acme, plan: pro}, {name: globex, models: [large-model]}]
keys: {path: keys.json}
"""
HARD = "Prove that the square root of 2 is irrational, step by step."


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """`cli("explain", …)` in a directory of its own: exit code, stdout, stderr."""
    (tmp_path / "config.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)

    def run(*words, stdin=b"", command="explain"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([command, *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_a_text_is_explained(cli):
    """Model, tier, score and features, the tokens, the limits, and the body that would go out with its salt masked."""
    code, out, err = cli(HARD)
    assert (code, err) == (0, "")
    assert "large-model, tier large: score, score 0.98" in out
    assert "proof" in out
    assert "tpm 5000" in out
    assert '"cache_salt":"***"' in out
    assert "cut down" not in out


def test_what_was_learned_is_explained(cli):
    """Both heads, the words that spoke, and the policy's version; of a text that it does not know, that it does not."""
    Path("config.yaml").write_text(CONFIG + "routing: {classifier: {kind: learned}}\n")
    code, out, _ = cli(HARD, "--json")
    route = json.loads(out)["route"]
    assert (code, route["policy"]) == (0, shipped().version)
    assert route["score"] == pytest.approx((1 + route["large"] - route["small"]) / 2)
    assert any(term["feature"].startswith('"') for term in route["terms"])
    code, out, _ = cli(HARD)
    assert f"good enough: small {route['small']:.3f}, large {route['large']:.3f}" in out
    code, out, _ = cli("Нужно найти хорошую книгу")
    assert "large-model, tier large: default" in out
    assert "too little of the text is known to say so" in out


ROUTES = """routing:
  aliases: {gpt: auto}
  routes: {thrifty: {target: {large: 0.2}}, cheap: {models: [small-model]}}
"""


@pytest.mark.parametrize(
    ("classifier", "by", "failed"),
    [
        ("{kind: rules}", "rules", ""),
        ("{kind: learned}", "learned", ""),
        ("{kind: fixed, tier: small}", "fixed", ""),
        ("{kind: remote, url: 'http://127.0.0.1:1/', instead: rules}", "rules", "failed"),
        ("{kind: remote, url: 'http://127.0.0.1:1/', instead: nobody}", "nobody", "failed"),
        ("{kind: embedding, examples: {small: [hi], large: [prove it]}}", "rules", "loading"),
    ],
)
def test_who_judged_is_told_and_that_another_one_did(cli, classifier, by, failed):
    """By name, in words and in JSON; where the config's own did not, why, and that a running gateway can be asked."""
    Path("config.yaml").write_text(CONFIG + f"routing: {{classifier: {classifier}}}\n")
    route = json.loads(cli(HARD, "--json")[1])["route"]
    assert (route["classifier"], route["classifier_failed"]) == (by, failed)
    assert by == "rules" or all(term["weight"] is None for term in route["terms"])
    out = cli(HARD)[1]
    assert f"judged by {by}" in out
    assert ("the config's classifier did not" in out) == ("--live asks the gateway" in out) == bool(failed)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["xyzzy"], "nothing in it says whether it is easy or hard"),
        (["Thanks!"], "it is small talk, which asks for nothing"),
        (["xyzzy", "--model", "cheap"], "nobody judged it: there is one tier to choose from"),
        (["xyzzy", "--model", "thrifty"], "means     thrifty, one of small-model, large-model"),
        (["xyzzy", "--model", "gpt"], "means     auto, one of small-model, large-model"),
        (["xyzzy", "--model", "large-model"], "means     pinned: large-model"),
    ],
)
def test_what_is_meant_and_why_it_is_default_are_told(cli, words, told):
    """Of a route its own name; of a request without a score the reason."""
    Path("config.yaml").write_text(CONFIG + ROUTES)
    assert told in cli(*words)[1]


def test_a_request_is_explained_as_json(cli):
    """A whole body from a file or from standard input; what needs tools leaves the model that has none out."""
    tool = {"type": "function", "function": {"name": "f"}}
    body = json.dumps({"model": "auto", "temperature": 0, "messages": [{"role": "user", "content": "hi"}], "tools": [tool]})
    Path("request.json").write_text(body)
    code, out, _ = cli("-f", "request.json", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["route"]["reason"] == "capability"
    assert [(one["model"], one["out"]) for one in told["route"]["candidates"]] == [
        ("small-model", "lacks tools"),
        ("large-model", ""),
    ]
    assert (told["cache"]["verdict"], told["cache"]["store"]) == ("miss", True)
    code, again, _ = cli("-f", "-", "--json", stdin=body.encode())
    assert json.loads(again)["route"] == told["route"]


def test_whether_the_cache_id_is_stable_is_told(cli, monkeypatch):
    """With a configured secret it is the same in every process; without one the text says that it is not."""
    Path("request.json").write_text(json.dumps({"model": "small-model", "seed": 1, "messages": []}))
    assert "cache.secret is not set" in cli("-f", "request.json")[1]
    monkeypatch.setenv("CACHE_SECRET", "x")
    ids = [json.loads(cli("-f", "request.json", "--json")[1])["cache"] for _ in range(2)]
    assert ids[0] == ids[1]
    assert ids[0]["stable"]


SEMANTIC = """cache:
  exact: {keep: all, ttl: 10m, stale: 1m}
  semantic: {enabled: true, qdrant: {path: qdrant}, max_error: 0.02}
"""


@pytest.fixture
def semantic(cli):
    """The same config with the semantic cache on."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (the extra `semantic`)")
    config = Path("config.yaml")
    lines = [line for line in config.read_text().splitlines() if not line.startswith("cache:")]
    config.write_text("\n".join([*lines, SEMANTIC]))
    return cli


def test_what_the_caches_would_do_is_explained(semantic):
    """How long the answer would be kept and for whom; whether meaning is compared, and from which score."""
    code, out, _ = semantic("How do I reset my password?", "--header", "x-tiergate-cache: tag=faq, max-age=60")
    assert code == 0
    assert "exact: keep all, of tenant acme alone, fresh for 600 s, stale for 60 s more; none older than 60 s; tags faq" in out
    assert "semantic: yes, of tenant acme alone, preset strict, serves from a score of 0.5, embedder bab1e4f22557" in out
    assert "kept now" not in out
    assert "semantic: no (time)" in semantic("What is the weather today?")[1]
    assert "semantic: no (script)" in semantic("怎么重置密码")[1]


def test_who_only_looks_makes_no_file(semantic):
    """Where the secret of ids would be kept beside the answers, it is read if it is there, and not made if it is not."""
    assert not json.loads(semantic("hi", "--json")[1])["cache"]["stable"]
    assert not Path("qdrant").exists()
    Path("qdrant").mkdir()
    Path("qdrant/secret").write_bytes(b"s" * 32)
    told = [json.loads(semantic("hi", "--json")[1])["cache"] for _ in range(2)]
    assert told[0] == told[1]
    assert told[0]["stable"]
    assert [path.name for path in Path("qdrant").iterdir()] == ["secret"]


def test_a_refused_request_is_an_exit_code(cli):
    """Code 1, with the error that the client would get."""
    code, out, _ = cli("hi", "--model", "nobody")
    assert code == 1
    assert "404 model_not_found" in out
    code, out, _ = cli("hi", "--tenant", "globex", "--model", "small-model")
    assert (code, "403 model_not_allowed" in out) == (1, True)


def test_a_key_is_explained_with_its_own_limits(cli):
    """What a key of the key file may do holds, and the key itself is not repeated."""
    _, made, _ = cli("create", "--tenant", "acme", "--rpm", "7", "--burst", "90s", "--json", command="keys")
    secret = next(
        value for value in json.loads(made).values() if isinstance(value, str) and value.startswith("tg-") and len(value) > 30
    )
    code, out, _ = cli("hi", "--key", secret)
    assert code == 0
    assert "rpm 7; 90s of it at once" in out
    assert secret not in out


def test_a_hostile_request_does_not_reach_the_terminal(cli):
    """Control characters are replaced in the text; a body that is no JSON is a refusal like any other."""
    Path("request.json").write_bytes(b'{"model":"auto","messages":[{"role":"user","content":"\xc2\x9b31mred"}]}')
    code, out, _ = cli("-f", "request.json")
    assert code == 0
    assert "\x9b" not in out
    Path("request.json").write_bytes(b"\xff{")
    code, out, _ = cli("-f", "request.json")
    assert (code, "400 invalid_json" in out) == (1, True)


def test_headers_count(cli):
    """A tier asked for by header is an override."""
    code, out, _ = cli("hello", "--header", "x-tiergate-tier: large", "--json")
    assert (code, json.loads(out)["route"]["reason"]) == (0, "override")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("hi", "-f", "request.json"),
        ("-f", "missing.json"),
        ("hi", "--tenant", "nobody"),
        ("hi", "--key", "tg-wrong"),
        ("hi", "--header", "nocolon"),
        ("hi", "--config", "missing.yaml"),
        ("\udcff",),
    ],
)
def test_a_mistake_is_one_line(cli, words):
    """Code 2 and one line, never a traceback."""
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "endpoint", ["chat", "completions", "embeddings", "messages", "responses", "rerank", "tokenize", "score"]
)
def test_a_text_for_an_endpoint_is_explained_or_refused_in_one_line(cli, endpoint):
    """Where a text makes a request it is explained; elsewhere the whole request is asked for."""
    code, out, err = cli("hello", "--endpoint", endpoint)
    assert code in (0, 1, 2)
    assert "Traceback" not in err
    assert (code == 2) == ("give the whole one with -f" in err)
    assert out or err
