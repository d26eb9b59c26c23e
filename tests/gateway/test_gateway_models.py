"""`/v1/models`: what a key may call."""

from urllib.parse import quote

import pytest

from gateway.auth import Principal
from gateway.errors import ApiError
from gateway.lab.fake import Options
from gateway.models import ModelList
from limits.waiting import Priority
from routing.resolve import Catalog
from routing.types import Model

AUTH = {"authorization": "Bearer tg-test-key-of-acme"}
NAMES = ["auto", "gpt-4o", "gpt-4o-mini", "org/alias", "small-model", "mistralai/large", "team/support-lora"]


@pytest.fixture
async def listed(start):
    """A gateway with aliases, an adapter and names that hold slashes; globex may call the small model alone."""
    return await start(
        {
            "models": {
                0: {"adapters": [{"name": "team/support-lora", "served_name": "support"}]},
                1: {"name": "mistralai/large"},
            },
            "routing": {
                "fallback": {"small": "large", "large": "small"},
                "aliases": {"gpt-4o-mini": "auto", "gpt-4o": "mistralai/large", "org/alias": "small-model"},
            },
            "tenants": {1: {"models": ["small-model"]}},
        },
        fakes={"s1": Options(), "l1": Options()},
    )


async def test_the_list_has_openais_shape(listed):
    """auto, aliases, models and adapters, each an OpenAI model object with the tokens it holds."""
    answer = await listed.client.get("/v1/models", headers=AUTH)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    listing = answer.json()
    assert set(listing) == {"object", "data"}
    assert listing["object"] == "list"
    assert [model["id"] for model in listing["data"]] == NAMES
    for model in listing["data"]:
        assert model["object"] == "model"
        assert isinstance(model["created"], int)
        assert model["owned_by"] == "tiergate"
        assert model["max_model_len"] in (4096, 32768)
    lengths = {model["id"]: model["max_model_len"] for model in listing["data"]}
    assert (lengths["auto"], lengths["gpt-4o"], lengths["org/alias"], lengths["team/support-lora"]) == (32768, 32768, 4096, 4096)


async def test_the_list_is_stable(listed):
    """Asked twice, by any of its paths, it is byte for byte the same."""
    answers = {
        (await listed.client.get(path, headers=AUTH)).content
        for path in ("/v1/models", "/models", "/v1/models/", "/v1/models?a=b")
    }
    assert len(answers) == 1


async def test_adapters_name_their_parent(listed):
    """An adapter's root and parent are the model that it was trained on, and an alias's root is what it stands for."""
    by_id = {model["id"]: model for model in (await listed.client.get("/v1/models", headers=AUTH)).json()["data"]}
    assert by_id["team/support-lora"]["parent"] == by_id["team/support-lora"]["root"] == "small-model"
    assert by_id["gpt-4o"]["root"] == "mistralai/large"
    assert by_id["small-model"]["parent"] is None
    assert by_id["small-model"]["tier"] == "small"


async def test_only_what_the_key_may_call_is_listed(listed):
    """Another tenant's list, and its single objects, hold nothing that it could not call."""
    headers = {"authorization": "Bearer tg-test-key-of-globex"}
    listing = (await listed.client.get("/v1/models", headers=headers)).json()
    assert [model["id"] for model in listing["data"]] == ["auto", "gpt-4o-mini", "org/alias", "small-model"]
    assert {model["max_model_len"] for model in listing["data"]} == {4096}
    hidden = await listed.client.get("/v1/models/mistralai/large", headers=headers)
    unknown = await listed.client.get("/v1/models/mistralai/huge", headers=headers)
    assert hidden.status_code == unknown.status_code == 404
    assert hidden.text.replace("large", "huge") == unknown.text


@pytest.mark.parametrize("name", NAMES)
async def test_one_model_by_its_id(listed, name):
    """Every listed name can be asked for, slashes plain or as %2F, and the object is the list's."""
    listing = (await listed.client.get("/v1/models", headers=AUTH)).json()["data"]
    (wanted,) = [model for model in listing if model["id"] == name]
    for path in {f"/v1/models/{name}", f"/v1/models/{quote(name, safe='')}", f"/models/{name}/"}:
        answer = await listed.client.get(path, headers=AUTH)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json() == wanted


@pytest.mark.parametrize("name", ["nothing", "small-model/x", "SMALL-MODEL", "%FF%FE", "%2F", "a" * 5000, "%22%0d%0ax"])
async def test_an_unknown_id_is_a_404(listed, name):
    """The answer has the usual shape and names the parameter."""
    answer = await listed.client.get(f"/v1/models/{name}", headers=AUTH)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == ("not_found_error", "model", "model_not_found")
    assert len(error["message"]) < 300


async def test_the_list_needs_a_key_and_a_get(listed):
    """No key is a 401; HEAD is GET without the body; other methods are told which there are."""
    assert (await listed.client.get("/v1/models")).status_code == 401
    head = await listed.client.head("/v1/models", headers=AUTH)
    got = await listed.client.get("/v1/models", headers=AUTH)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]
    refused = await listed.client.post("/v1/models", headers=AUTH, json={})
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    assert refused.json()["error"]["code"] == "method_not_allowed"


def test_created_is_given_and_unknown_lengths_are_null():
    """`created` is a moment that no restart changes; a model without a context says null, and so does `auto` over it."""
    model = Model("m", "small", None, None, frozenset({"chat"}), "m")
    models = ModelList(Catalog([model]), {"m": "small"})
    principal = Principal("t", "k", "", Priority.STANDARD, 1, (), {}, None)
    assert b'"created":1767225600' in models.answer(principal, "/m")
    assert b'"max_model_len":null' in models.answer(principal, "/auto")
    with pytest.raises(ApiError):
        models.answer(principal, "/")
