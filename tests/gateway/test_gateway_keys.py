"""Keys from the command line to the running gateway, and what becomes of every odd one."""

import asyncio
import json

import pytest
from gateway_talk import ACME, ADMIN_KEY, CHAT, KEY, OTHER_KEY, ask, chat, cli, digest, lines, posts, tenant, wire, write_config

SHAPE = {"message", "type", "param", "code"}


async def made(tmp_path, stack, *words):
    """`tiergate keys …` on the key file of a running gateway; what it printed."""
    path = write_config(tmp_path / "cli.yaml", stack.fakes)
    code, out, err = await cli("keys", words[0], "--config", str(path), "--json", *words[1:])
    assert code == 0, err
    return json.loads(out)


async def followed(tmp_path, stack, *words):
    """The same, returning when the gateway has seen it by itself: it looks at the file once a second."""
    seen = asyncio.Event()
    stack.gateway.parts.ring.on_change(seen.set)
    result = await made(tmp_path, stack, *words)
    async with asyncio.timeout(10):
        await seen.wait()
    return result


async def test_a_running_gateway_follows_the_command_line(start, tmp_path):
    """A created key is accepted, a rotated one and its heir both, a revoked one no more, without a restart."""
    stack = await start()
    created = await followed(tmp_path, stack, "create", "--tenant", "acme", "--name", "laptop")
    assert (await ask(stack, chat(), key=created["secret"])).status_code == 200
    line = stack.log.lines[-1]
    assert (line["tenant"], line["key"]) == ("acme", created["id"])
    rotated = await followed(tmp_path, stack, "rotate", created["id"], "--overlap", "1h")
    for key in (created, rotated):
        assert (await ask(stack, chat(), key=key["secret"])).status_code == 200
    await followed(tmp_path, stack, "revoke", created["id"])
    refused = await ask(stack, chat(), key=created["secret"])
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "revoked_api_key")
    assert (await ask(stack, chat(), key=rotated["secret"])).status_code == 200


async def test_a_made_key_carries_its_own_limits_and_models(start, tmp_path):
    """--rpm and --model of `keys create` hold at the running gateway."""
    stack = await start()
    few = await made(tmp_path, stack, "create", "--tenant", "acme", "--rpm", "1")
    narrow = await made(tmp_path, stack, "create", "--tenant", "acme", "--model", "large-model")
    stack.gateway.parts.ring.refresh()
    assert [(await ask(stack, chat(), key=few["secret"])).status_code for _ in range(2)] == [200, 429]
    statuses = [(await ask(stack, chat(model=name), key=narrow["secret"])).status_code for name in ("large-model", "small-model")]
    assert statuses == [200, 403]


async def test_the_secret_is_on_no_disk(start, tmp_path):
    """The key file holds hashes; `keys list` shows no secret and no hash."""
    stack = await start()
    created = await made(tmp_path, stack, "create", "--tenant", "acme")
    held = (tmp_path / "keys.json").read_text()
    assert created["secret"] not in held
    assert digest(created["secret"]) in held
    listed = json.dumps(await made(tmp_path, stack, "list"))
    assert created["id"] in listed
    assert created["secret"] not in listed
    assert digest(created["secret"]) not in listed


async def test_a_damaged_key_file_changes_nothing(start, tmp_path):
    """Rubbish in the file leaves the keys of before in force, and a good file afterwards counts again."""
    stack = await start()
    created = await made(tmp_path, stack, "create", "--tenant", "acme")
    stack.gateway.parts.ring.refresh()
    file, good = tmp_path / "keys.json", (tmp_path / "keys.json").read_bytes()
    file.write_bytes(b'{"version": 1, "keys": [')
    stack.gateway.parts.ring.refresh()
    assert (await ask(stack, chat(), key=created["secret"])).status_code == 200
    file.write_bytes(good)
    await made(tmp_path, stack, "revoke", created["id"])
    stack.gateway.parts.ring.refresh()
    assert (await ask(stack, chat(), key=created["secret"])).status_code == 401


BAD = {
    "wrong": {"authorization": "Bearer tg-wrong"},
    "missing": {},
    "empty": {"authorization": "Bearer "},
    "no scheme": {"authorization": KEY},
    "basic": {"authorization": f"Basic {KEY}"},
    "non-ASCII": {"authorization": "Bearer tg-t\u00e9st"},
    "too long": {"authorization": "Bearer " + "k" * 20_000},
    "a prefix": {"authorization": f"Bearer {KEY[:-1]}"},
    "two different": {"authorization": f"Bearer {KEY}", "api-key": OTHER_KEY},
    "its hash": {"authorization": f"Bearer {digest(KEY)}"},
    "the admin key": {"authorization": f"Bearer {ADMIN_KEY}"},
}


@pytest.mark.parametrize("headers", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize(("method", "path"), [("POST", CHAT), ("GET", "/v1/models"), ("DELETE", "/v1/cache/ce-0")])
async def test_a_bad_key_is_a_401(stack, headers, method, path):
    """Every kind of bad credential is a 401 of one shape, with www-authenticate, and reaches no backend."""
    answer = await ask(stack, chat() if method == "POST" else b"", key=None, headers=headers, method=method, path=path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["x-request-id"]
    error = answer.json()["error"]
    assert set(error) == SHAPE
    assert error["type"] == "authentication_error"
    assert isinstance(error["code"], str)
    assert KEY not in answer.text
    assert posts(stack.small) == []


async def test_a_key_of_a_megabyte_is_refused(stack, start):
    """A head over max_header is a 431 of the usual shape; where a larger head is allowed, the key is a 401."""
    huge = {"authorization": "Bearer " + "k" * 2**20}
    async with wire(stack.gateway.port) as one:
        one.send(chat(), key=None, headers=huge)
        answer = await one.answer()
    assert answer.status_code == 431
    assert set(answer.json()["error"]) == SHAPE
    roomy = await start({"server": {"port": 0, "max_header": "2MiB"}})
    assert (await ask(roomy, chat(), key=None, headers=huge)).status_code == 401
    assert (await ask(stack, chat())).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer {KEY}"}, {"api-key": KEY}, {"x-api-key": KEY},
     {"authorization": f"Bearer {KEY}", "api-key": KEY, "x-api-key": KEY}],
    ids=["bearer", "lower case", "api-key", "x-api-key", "all three"],
)  # fmt: skip
async def test_a_good_key_may_come_in_any_of_its_headers(stack, headers):
    """Authorization, api-key and x-api-key are the same, also together when they agree; none of them reaches the backend."""
    assert (await ask(stack, chat(), key=None, headers=headers)).status_code == 200
    sent = posts(stack.small)[0].headers
    assert not sent.keys() & {"authorization", "api-key", "x-api-key"}
    assert KEY not in str(sent)


async def test_an_expired_key_is_a_401_that_says_so(start):
    """A key past its last day is refused by its own code."""
    stack = await start({"tenants": [tenant("acme", KEY, key={"expires": "2020-01-01"})]})
    answer = await ask(stack, chat())
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "expired_api_key")


@pytest.mark.parametrize(
    ("models", "allowed", "refused"),
    [
        (["small-model"], ["small-model", "auto"], ["large-model"]),
        (["small-*"], ["small-model"], ["large-model"]),
        ([], [], ["small-model", "large-model", "auto"]),
        (["*"], ["small-model", "large-model", "auto"], []),
    ],
    ids=str,
)
async def test_a_tenant_calls_what_it_may(start, models, allowed, refused):
    """A model outside the tenant's list is a 403 that names it, and is not listed; `auto` chooses among the rest."""
    stack = await start({"tenants": [{**ACME, "models": models}]})
    for name in allowed:
        answer = await ask(stack, chat("[[say: hi]]", model=name))
        assert answer.status_code == 200
        assert answer.headers["x-tiergate-model"] in allowed
    for name in refused:
        answer = await ask(stack, chat(model=name))
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "model_not_allowed")
        assert name in answer.json()["error"]["message"]
    listed = await ask(stack, b"", method="GET", path="/v1/models")
    names = {model["id"] for model in listed.json()["data"]}
    assert names.isdisjoint(refused)
    assert set(allowed) <= names


async def test_a_keys_own_list_narrows_its_tenants(start):
    """Key and tenant must both allow a model."""
    stack = await start({"tenants": [tenant("acme", KEY, models=["small-model"], key={"models": ["*-model"]})]})
    assert (await ask(stack, chat())).status_code == 200
    assert (await ask(stack, chat(model="large-model"))).status_code == 403


async def test_no_secret_is_ever_shown(stack, caplog):
    """Keys good and bad, the admin's and the cache's secret are in no log line, no metric, no error and no model list."""
    for key in (KEY, "tg-a-wrong-one-Zx81", ADMIN_KEY):
        for body in (chat(), chat(model="nope"), b"{", chat("[[say: hi]]", temperature=0)):
            await ask(stack, body, key=key)
    texts = [json.dumps(await lines(stack, 12)), (await stack.client.get("/metrics")).text, caplog.text]
    for path in ("/v1/models", "/admin/status", "/ready", "/nothing"):
        keys = (KEY, ADMIN_KEY, "tg-a-wrong-one-Zx81")
        texts += [(await ask(stack, b"", method="GET", path=path, key=key)).text for key in keys]
    for secret in (KEY, ADMIN_KEY, "tg-a-wrong-one-Zx81", "test-secret", digest(KEY)):
        assert not [text for text in texts if secret in text]


async def test_no_tenant_no_access(start):
    """Without tenants every call is a 401: there is no anonymous mode."""
    stack = await start({"tenants": []})
    assert (await ask(stack, chat())).status_code == 401
    assert (await ask(stack, chat(), key=None)).status_code == 401
