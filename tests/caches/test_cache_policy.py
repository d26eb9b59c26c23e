"""Which requests may look up, store and share."""

import pytest

from caches.directives import PLAIN, Directives
from caches.policy import ExactPolicy, Use, is_deterministic

DETERMINISTIC = ExactPolicy(enabled=True, ttl=60, keep="deterministic", max_entry=1000)
ALL = ExactPolicy(enabled=True, ttl=60, keep="all", max_entry=1000)
OFF = ExactPolicy(enabled=False, ttl=60, keep="all", max_entry=1000)
NONE = ExactPolicy(enabled=True, ttl=60, keep="none", max_entry=1000)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"temperature": 0}, True),
        ({"temperature": 0.0}, True),
        ({"temperature": -0.0}, True),
        ({"temperature": 0, "n": 4}, True),
        ({"seed": 7}, True),
        ({"seed": 0, "temperature": 1}, True),
        ({}, False),
        ({"temperature": 0.01}, False),
        ({"temperature": False}, False),
        ({"temperature": None}, False),
        ({"temperature": "0"}, False),
        ({"temperature": [0]}, False),
        ({"seed": True}, False),
        ({"seed": None}, False),
        ({"seed": "7"}, False),
        ({"seed": 7.5}, False),
    ],
)
def test_deterministic_means_temperature_zero_or_a_seed(body, expected):
    """Only a temperature of 0 or an integer seed asks for the same answer every time."""
    assert is_deterministic(body, "chat") is expected
    assert DETERMINISTIC.storable(body, "chat") is expected
    assert DETERMINISTIC.storable(body, "completions") is expected
    assert ALL.storable(body, "chat")


def test_embeddings_are_always_deterministic():
    """An embedding has no chance in it."""
    assert DETERMINISTIC.storable({"input": "x"}, "embeddings")


@pytest.mark.parametrize(
    ("policy", "endpoint", "reason"),
    [
        (OFF, "chat", "off"),
        (ALL, "audio", "endpoint not cached"),
        (NONE, "chat", "off"),
        (ALL, "responses", None),
        (DETERMINISTIC, "responses", "not deterministic"),
        (DETERMINISTIC, "chat", "not deterministic"),
        (ALL, "chat", None),
    ],
)
def test_a_refusal_has_its_reason(policy, endpoint, reason):
    """Why an answer is not kept is said in words that can go into a header."""
    assert policy.refusal({}, endpoint) == reason


def test_chance_neither_looks_up_nor_stores():
    """Under `deterministic` a sampled request goes to the model, whatever is kept."""
    assert DETERMINISTIC.use({"temperature": 1}, "chat", PLAIN) == Use(False, False, False, "not deterministic")


@pytest.mark.parametrize(
    ("said", "use"),
    [
        (PLAIN, Use(True, True, True, None)),
        (Directives(), Use(True, True, True, None)),
        (Directives(no_cache=True), Use(False, True, False, "no-cache")),
        (Directives(no_store=True), Use(True, False, False, "no-store")),
        (Directives(only_if_cached=True), Use(True, False, False, "only-if-cached")),
        (Directives(no_cache=True, no_store=True), Use(False, False, False, "no-cache, no-store")),
        (Directives(no_cache=True, only_if_cached=True), Use(False, False, False, "no-cache, only-if-cached")),
        (Directives(store=True), Use(True, True, True, None)),
        (Directives(store=True, no_store=True), Use(True, False, False, "no-store")),
        (Directives(max_age=5, ttl=5, tags=("a",)), Use(True, True, True, None)),
    ],
)
def test_directives_decide_the_use(said, use):
    """Each directive takes away what HTTP says it takes away."""
    assert ALL.use({}, "chat", said) == use


def test_store_keeps_what_is_not_deterministic():
    """Who says `store` takes part in the cache with a sampled request, as a deterministic one does."""
    sampled, store = {"temperature": 1}, Directives(store=True)
    assert DETERMINISTIC.use(sampled, "chat", store) == Use(True, True, True, None)
    fresh = Directives(store=True, no_cache=True)
    assert DETERMINISTIC.use(sampled, "chat", fresh) == Use(False, True, False, "no-cache")


@pytest.mark.parametrize("policy", [OFF, NONE])
@pytest.mark.parametrize("body", [{}, {"temperature": 0}])
def test_store_does_not_overrule_the_operator(policy, body):
    """Where the operator keeps nothing, a client's `store` changes nothing."""
    assert policy.use(body, "chat", Directives(store=True)) == Use(False, False, False, "off")


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (PLAIN, 100),
        (Directives(ttl=10), 10),
        (Directives(ttl=80), 80),
        (Directives(ttl=99_999_999_999), 100),
        (Directives(max_age=3), 100),
    ],
)
def test_a_client_shortens_a_lifetime_and_never_lengthens_it(said, seconds):
    """An answer is kept while it is fresh or stale, or for as long as the client allows if that is less."""
    assert ExactPolicy(enabled=True, ttl=60, keep="all", max_entry=1, stale=40).lifetime(said) == seconds


FUNCTION = {"type": "function", "name": "f", "parameters": {}}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, None),
        ({"background": False, "conversation": None, "previous_response_id": None, "prompt": None, "tools": []}, None),
        ({"tools": [FUNCTION, {"type": "custom", "name": "sh"}]}, None),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"previous_response_id": "resp_1"}, "previous response id"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        *(
            ({"tools": [FUNCTION, {"type": kind}]}, "tools")
            for kind in (
                "web_search", "web_search_preview", "file_search", "code_interpreter", "mcp", "computer_use_preview",
                "image_generation", "local_shell", "next_year", None, ["function"], {}, 7,
            )
        ),
        ({"tools": [{}]}, "tools"),
        ({"tools": ["function"]}, "tools"),
        ({"tools": {"type": "function"}}, "tools"),
        ({"tools": [FUNCTION] * 10_001}, "tools"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("said", [PLAIN, Directives(store=True)])
def test_responses_that_reach_beyond_their_answer_are_not_kept(more, reason, said):
    """State that is kept elsewhere and tools that act on their own keep an answer of /v1/responses out, whatever is said."""
    assert ALL.refusal({"input": "x", "temperature": 0, **more}, "responses", said) == reason
    assert ALL.refusal({"messages": [], **more}, "chat", said) is None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, None),
        ({"tools": [{"name": "f", "input_schema": {}}, {"type": "custom", "name": "g"}]}, None),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools"),
        ({"tools": [{"type": ["custom"]}]}, "tools"),
        ({"mcp_servers": [{"type": "url"}]}, "mcp servers"),
        ({"container": "c"}, "container"),
    ],
)
def test_messages_that_reach_beyond_their_answer_are_not_kept(more, reason):
    """The same of /v1/messages."""
    assert DETERMINISTIC.refusal({"messages": [], "temperature": 0, **more}, "messages") == reason
