"""The admin API as FastAPI serves it: keys, tenants, its own description, and what a browser may do."""

import base64
import subprocess
import sys

import pytest
from gateway_talk import ADMIN_KEY, KEY, ROOT, ask, chat, posts

from gateway.lab.fake import FakeVLLM, Options

OWNER = {"authorization": f"Bearer {ADMIN_KEY}"}


def basic(password, **headers):
    return {"authorization": "Basic " + base64.b64encode(f"admin:{password}".encode()).decode(), **headers}


async def made(stack, **terms):
    answer = await stack.client.post("/admin/keys", json={"tenant": "acme", **terms}, headers=OWNER)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_made_key_works_at_once_and_a_revoked_one_no_more(stack):
    """Create, list, use, revoke: no restart and no wait between them, and the secret is shown once."""
    key = await made(stack, name="laptop", rpm=100, burst=5, models=["small-*"])
    assert (await ask(stack, chat(), key=key["secret"])).status_code == 200
    assert (await ask(stack, chat(model="large-model"), key=key["secret"])).status_code == 403
    listed = (await stack.client.get("/admin/keys", params={"tenant": "acme"}, headers=OWNER)).json()["keys"]
    assert [(one["id"], one["name"], one["rpm"], one["burst"], one["status"]) for one in listed] == [
        (key["id"], "laptop", 100, 5.0, "active")
    ]
    assert "secret" not in listed[0]
    assert "sha256" not in listed[0]
    assert (await stack.client.get("/admin/keys?tenant=globex", headers=OWNER)).json() == {"keys": []}
    revoked = await stack.client.delete(f"/admin/keys/{key['id']}", headers=OWNER)
    assert (revoked.status_code, revoked.json()["status"]) == (200, "revoked")
    refused = await ask(stack, chat(), key=key["secret"])
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "revoked_api_key")


async def test_rotation_overlaps(stack):
    """The new key works at once, the old one until the overlap has passed; a dead key is not rotated."""
    old = await made(stack)
    answer = await stack.client.post(f"/admin/keys/{old['id']}/rotate", json={"overlap": 3600}, headers=OWNER)
    assert answer.status_code == 201
    new = answer.json()
    assert new["replaces"]["id"] == old["id"]
    for secret in (old["secret"], new["secret"]):
        assert (await ask(stack, chat(), key=secret)).status_code == 200
    await stack.client.delete(f"/admin/keys/{old['id']}", headers=OWNER)
    again = await stack.client.post(f"/admin/keys/{old['id']}/rotate", json={}, headers=OWNER)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "key_is_dead")


@pytest.mark.parametrize(
    ("terms", "param"),
    [
        ({"tenant": "acmee"}, "tenant"),
        ({"tenant": "acme", "models": ["smal-model"]}, "models"),
        ({"tenant": "acme", "models": []}, "models"),
        ({"tenant": "acme", "rpm": 0}, "rpm"),
        ({"tenant": "acme", "rpm": 10**30}, "rpm"),
        ({"tenant": "acme", "burst": 0.5}, "burst"),
        ({"tenant": "acme", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"tenant": "acme", "expires_at": "tomorrow"}, "expires_at"),
        ({"tenant": "acme", "sha256": "0" * 64}, "sha256"),
        ({"tenant": ["acme"]}, "tenant"),
        ({}, "tenant"),
    ],
)
async def test_a_key_that_makes_no_sense_is_refused(stack, terms, param):
    """A 400 of the usual shape names the field; nothing is made."""
    answer = await stack.client.post("/admin/keys", json=terms, headers=OWNER)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == "invalid_request"
    assert (error["param"] or "").startswith(param)
    assert (await stack.client.get("/admin/keys", headers=OWNER)).json() == {"keys": []}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"tenant": "acme", "rpm": 1e999}', b"\xff\xfe", b"[" * 100_000])
async def test_a_body_that_is_no_call_is_refused(stack, body):
    """Whatever the bytes are, the answer is a 400 and the gateway goes on."""
    answer = await stack.client.post("/admin/keys", content=body, headers={**OWNER, "content-type": "application/json"})
    assert answer.status_code == 400
    assert (await stack.client.get("/admin/status", headers=OWNER)).status_code == 200


async def test_a_huge_call_is_a_413(stack):
    """Admin calls are small: more than a mebibyte is not even parsed."""
    answer = await stack.client.post("/admin/cache/flush", content=b" " * (2**20 + 1), headers=OWNER)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/admin/keys/key-0"), ("POST", "/admin/keys/key-0/rotate")])
async def test_an_unknown_key_is_a_404(stack, method, path):
    """An id that no key has."""
    answer = await stack.client.request(method, path, json={}, headers=OWNER)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "key_not_found")


async def test_a_key_file_that_cannot_be_written_is_a_500_without_its_path(start, tmp_path):
    """The operator's disk is not the caller's business: a code to look up, no path."""
    stack = await start({"keys": {"path": str(tmp_path / "data" / "keys.json")}})
    (tmp_path / "data").write_text("a file where the directory should be")
    answer = await stack.client.post("/admin/keys", json={"tenant": "acme"}, headers=OWNER)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "key_file_unusable")
    assert str(tmp_path) not in answer.text


async def test_tenants_show_what_is_left(start):
    """Each limit of each tenant with its remaining requests and tokens, which go down as they are used."""
    stack = await start({"plans": {"pro": {"priority": "realtime", "rpm": 10, "models": {"large-model": {"rpm": 3}}}}})
    await stack.chat("hi")
    tenants = (await stack.client.get("/admin/tenants", headers=OWNER)).json()["tenants"]
    acme, globex = ({limit["kind"]: limit for limit in tenant["limits"]} for tenant in tenants)
    assert (acme["plan"]["rpm"], acme["plan"]["requests_remaining"]) == (10, 9)
    assert (globex["plan"]["requests_remaining"], globex["model"]["name"]) == (10, "large-model")


async def test_the_api_describes_itself(stack):
    """An OpenAPI page and its document, behind the key like every call; every operation is in it."""
    assert (await stack.client.get("/admin/openapi.json")).status_code == 401
    document = (await stack.client.get("/admin/openapi.json", headers=OWNER)).json()
    assert {"/admin/status", "/admin/tenants", "/admin/keys", "/admin/cache/flush"} <= set(document["paths"])
    page = await stack.client.get("/admin/docs", headers=OWNER)
    assert page.headers["content-type"].startswith("text/html")
    assert "/admin/openapi.json" in page.text


async def test_a_browser_may_log_in_with_the_key_as_password(stack):
    """HTTP Basic is taken; a wrong password and a broken one are a 401."""
    assert (await stack.client.get("/admin/docs", headers=basic(ADMIN_KEY))).status_code == 200
    for wrong in (
        basic("wrong"),
        basic(""),
        basic(KEY),
        {"authorization": "Basic %%%"},
        {"authorization": "Basic " + "A" * 5000},
    ):
        assert (await stack.client.get("/admin/docs", headers=wrong)).status_code == 401


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), (None, 200)])
async def test_no_other_site_makes_the_browser_change_something(stack, site, status):
    """With credentials that a browser adds by itself, a page of another site gets a 403 and changes nothing."""
    headers = basic(ADMIN_KEY, **({"sec-fetch-site": site} if site else {}))
    answer = await stack.client.post("/admin/cache/flush", json={"all": True}, headers=headers)
    assert answer.status_code == status


def test_without_an_admin_key_fastapi_is_not_loaded():
    """Half a second and 20 MB are paid only by who uses it, and only by the process that serves."""
    code = """
import sys
from pathlib import Path
from gateway.build import build
from gateway.config import parse
from gateway.logs import NullLog
text = 'models: [{name: a, replicas: [{name: r, url: "http://127.0.0.1:9/v1"}]}]'
build(parse(text, Path('config.yaml')), NullLog()).admin.load()
parts = build(parse(text + '\\nadmin: {key: an-admin-key-of-some-length}', Path('config.yaml')), NullLog())
assert 'fastapi' not in sys.modules
parts.admin.load()
assert 'fastapi' in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


async def test_a_replica_joins_serves_drains_and_leaves(stack):
    """Added at run time it takes requests once it is warm; drained it takes none; removed it is gone."""
    path = "/admin/models/small-model/replicas"
    async with FakeVLLM(Options()) as late:
        added = await stack.client.post(path, json={"name": "s9", "url": late.url}, headers=OWNER)
        assert (added.status_code, added.json()["source"]) == (201, "admin")
        again = await stack.client.post(path, json={"name": "s9", "url": late.url}, headers=OWNER)
        assert (again.status_code, again.json()["error"]["code"]) == (409, "replica_exists")
        await stack.client.post(f"{path}/s1/drain", headers=OWNER)
        pool = stack.gateway.parts.lanes["small-model"].pool
        await stack.until(lambda: [replica.name for replica in pool.ready()] == ["s9"])
        assert (await stack.chat("hi")).headers["x-tiergate-replica"] == "s9"
        back = await stack.client.post(f"{path}/s1/undrain", headers=OWNER)
        assert (back.status_code, back.json()["ready"]) == (200, True)
        gone = await stack.client.delete(f"{path}/s9", headers=OWNER)
        assert (gone.status_code, gone.json()["state"]) == (202, "leaving")
        await stack.until(lambda: len(pool.replicas) == 1)
        listed = (await stack.client.get(path, headers=OWNER)).json()["replicas"]
        assert [(one["name"], one["source"]) for one in listed] == [("s1", "config")]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/admin/models/none/replicas", None, 404),
        ("POST", "/admin/models/small-model/replicas", {"name": "a", "url": "ftp://x"}, 400),
        ("POST", "/admin/models/small-model/replicas", {"name": "a b", "url": "http://x:1/v1"}, 400),
        ("POST", "/admin/models/small-model/replicas", {"name": "a"}, 400),
        ("POST", "/admin/models/small-model/replicas", {"name": "a", "url": "http://x:1/v1", "api_key": "a\nb"}, 400),
        ("POST", "/admin/models/small-model/replicas/s7/drain", None, 404),
        ("DELETE", "/admin/models/small-model/replicas/s7", None, 404),
        ("POST", "/admin/explain", {"tenant": "nobody", "body": {}}, 400),
        ("POST", "/admin/explain", {"tenant": "acme", "endpoint": "chatt", "body": {}}, 400),
        ("POST", "/admin/explain", {"tenant": "acme", "body": []}, 400),
    ],
)
async def test_a_call_that_makes_no_sense_is_refused(stack, method, path, body, status):
    """A refusal of the usual shape, and the fleet is as it was."""
    answer = await stack.client.request(method, path, json=body, headers=OWNER)
    assert answer.status_code == status, answer.text
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert len(stack.gateway.parts.lanes["small-model"].pool.replicas) == 1


async def test_a_live_gateway_explains_with_the_state_of_its_replicas(stack):
    """The tier, the reason and each replica's state, and nothing is sent."""
    body = {"model": "auto", "messages": [{"role": "user", "content": "hi"}]}
    wanted = {"tenant": "acme", "body": body, "headers": {"x-tiergate-tier": "large"}}
    told = (await stack.client.post("/admin/explain", json=wanted, headers=OWNER)).json()
    assert (told["route"]["model"], told["route"]["reason"], told["live"]) == ("large-model", "override", True)
    assert told["attempts"][0]["replicas"][0]["state"]["ready"] is True
    assert not posts(stack.large)
    refused = (await stack.client.post("/admin/explain", json={**wanted, "body": {"model": "none"}}, headers=OWNER)).json()
    assert refused["refusal"]["status"] in (400, 404)


async def test_a_browser_is_asked_for_the_key(stack):
    """Opening the page without one makes a browser ask; a program is told of the bearer."""
    page = await stack.client.get("/admin/docs", headers={"accept": "text/html,*/*"})
    assert (page.status_code, page.headers["www-authenticate"].split()[0]) == (401, "Basic")
    assert (await stack.client.get("/admin/status")).headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/admin/explain", b'{"tenant":"acme","body":{"model":"auto","user":"\\ud800"}}'),
        ("/admin/keys", b'{"tenant":"acme","expires_at":"9999-12-31T23:59:59-01:00"}'),
        ("/admin/keys", b'{"tenant":"acme","expires_at":"0001-01-01T00:00:00+01:00"}'),
    ],
)
async def test_what_cannot_be_written_down_is_refused(stack, path, body):
    """Half a surrogate, a moment beyond the calendar: a 400, not a fault of ours."""
    answer = await stack.client.post(path, content=body, headers={**OWNER, "content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
