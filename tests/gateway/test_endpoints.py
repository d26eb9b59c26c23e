"""Which request targets mean which endpoint, in every form that clients write them."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.endpoints import ENDPOINTS, route

PATHS = {
    "chat": "/chat/completions", "completions": "/completions", "embeddings": "/embeddings", "responses": "/responses",
    "messages": "/messages", "count_tokens": "/messages/count_tokens", "rerank": "/rerank", "score": "/score",
    "tokenize": "/tokenize", "detokenize": "/detokenize", "transcriptions": "/audio/transcriptions",
    "translations": "/audio/translations",
}  # fmt: skip
MODELS = ["gpt-4o", "Qwen/Qwen2.5-7B-Instruct", "a/b/c/d", "chat", "x/chatty", "openai", "m:tag@1", "模型", "a b", "100%"]


def test_the_allow_list_is_what_this_file_knows():
    """A new endpoint has to be added to these tests."""
    assert {endpoint.name: endpoint.path.decode() for endpoint in ENDPOINTS} == PATHS


@pytest.mark.parametrize(
    "prefix", ["", "/v1", "/openai", "/openai/v1", "http://gw.example:8000/v1", "https://gw", "HTTP://GW/v1"]
)
@pytest.mark.parametrize("suffix", ["", "/", "//", "?", "?api-version=2024-10-21", "/?a=b/c", "#top", "?x#y"])
@pytest.mark.parametrize("name", PATHS)
def test_the_forms_of_a_path(name, prefix, suffix):
    """With and without /v1, Azure's v1 form, absolute, trailing slashes, queries: the same endpoint, no model in the path."""
    found = route((prefix + PATHS[name] + suffix).encode())
    assert found.endpoint is not None
    assert (found.endpoint.name, found.model) == (name, None)


@pytest.mark.parametrize("slashes", ["", "/"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", PATHS)
def test_azures_deployments(name, model, slashes):
    """The model is what stands between, with slashes plain or as %2F, other bytes percent-encoded."""
    for written in {quote(model), quote(model, safe="")}:
        for prefix in ("", "http://gw"):
            target = (
                f"{prefix}/openai/deployments/{written}{slashes and '/'}".rstrip("/") + PATHS[name] + slashes + "?api-version=1"
            )
            found = route(target.encode())
            assert found.endpoint is not None
            assert (found.endpoint.name, found.model) == (name, model)


@pytest.mark.parametrize(
    "target",
    [
        "/openai/deployments/m", "/openai/deployments/", "/openai/deployments/m/other", "/openai/deployments/m/chat",
        "/v1/openai/deployments/m/chat/completions", "/deployments/m/chat/completions",
        "/v1/chat/completions/x", "/v1/chat", "/v2/chat/completions", "/v1/v1/chat/completions", "/V1/chat/completions",
        "//v1/chat/completions", "/v1//chat/completions", "/v1/chat%2Fcompletions", "/v1/../v1/chat/completions",
        "/x?/v1/chat/completions", "", "*", "/", "http://", "http://gw", "http:///", "https://gw?/v1/completions", "?", "#",
        "/v1", "v1/chat/completions", "ftp://gw/v1/chat/completions", "/v2/score", "/openai/v2/rerank", "/v1/v2/rerank",
        "/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v1/messages/batches", "/v1/audio/speech",
    ],
)  # fmt: skip
def test_what_is_no_endpoint(target):
    """Everything else belongs to no backend."""
    assert route(target.encode()).endpoint is None


def test_coheres_path_for_rerank():
    """/v2/rerank is served beside /v1/rerank, as vLLM does."""
    assert route(b"/v2/rerank/?x=1").endpoint.name == "rerank"


@pytest.mark.parametrize("path", ["/admin/status", "/health", "/metrics", "/ready"])
def test_only_bare_paths_are_bare(path):
    """What is no part of the model API is told apart from the same under /v1 or /openai."""
    assert route(path.encode()).own
    assert route(f"http://gw{path}/".encode()).own
    for prefix in ("/v1", "/openai", "/openai/v1"):
        assert not route(f"{prefix}{path}".encode()).own


@pytest.mark.parametrize(
    ("target", "rest"),
    [
        ("/health", "/health"), ("/ready/", "/ready"), ("/metrics?x=1", "/metrics"), ("/v1/models", "/models"),
        ("/models/", "/models"),
        ("/v1/models/org/name", "/models/org/name"), ("/v1/models/org%2Fname", "/models/org%2Fname"),
        ("http://gw:1/openai/models", "/models"), ("/admin/status", "/admin/status"), ("http://gw", "/"), ("*", "*"),
    ],
)  # fmt: skip
def test_other_paths_lose_their_decorations(target, rest):
    """What is not a model call is handed on as a plain path."""
    found = route(target.encode())
    assert (found.endpoint, found.rest) == (None, rest)


def test_the_longest_operation_wins():
    """Where a plain slash leaves it open what the model is, the longer operation is meant; %2F says otherwise."""
    plain = route(b"/openai/deployments/x/chat/completions")
    assert (plain.endpoint.name, plain.model) == ("chat", "x")
    escaped = route(b"/openai/deployments/x%2Fchat/completions")
    assert (escaped.endpoint.name, escaped.model) == ("completions", "x/chat")
    bare = route(b"/openai/deployments/chat/completions")
    assert (bare.endpoint.name, bare.model) == ("completions", "chat")


@given(st.binary() | st.text().map(lambda text: f"/openai/deployments/{text}/chat/completions".encode("utf-8", "surrogatepass")))
def test_no_target_raises(target):
    """Any bytes are a route or none."""
    found = route(target)
    assert found.endpoint is None or found.endpoint in ENDPOINTS
    assert found.model is None or (found.endpoint and found.model.encode())


def test_a_long_path_of_slashes_is_read_in_no_time():
    """The longest URL that the server takes, all slashes, costs milliseconds, not minutes."""
    assert route(b"/openai/deployments" + b"/a" * 4000).endpoint is None
    found = route(b"/openai/deployments" + b"/a" * 4000 + b"/chat/completions")
    assert found.model == "/".join(["a"] * 4000)
