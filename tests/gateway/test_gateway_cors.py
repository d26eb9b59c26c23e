"""Calls from web pages: preflights without a key, headers that let a page read, and nothing of it when it is off."""

import re
from pathlib import Path

import pytest
from gateway_talk import CHAT, KEY, chat, wire

from gateway.config import ConfigError, parse
from gateway.cors import _EXPOSED

APP = "https://app.example.com"
ASKS = {"origin": APP, "access-control-request-method": "POST", "access-control-request-headers": "authorization, content-type"}


@pytest.fixture
async def gateway(start):
    """One site may call, and its local twin."""
    return await start({"server": {"port": 0, "cors": {"origins": [APP, "http://localhost:5173"], "max_age": "5m"}}})


def asked(response):
    return {name: value for name, value in response.headers.items() if name.startswith("access-control") or name == "vary"}


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/v1/messages", "/chat/completions", "/v1/nothing", "/health"])
async def test_a_preflight(gateway, path):
    """204 without a key or a body, for any path of the API: what was asked for is allowed, for so long."""
    answer = await gateway.client.options(path, headers=ASKS)
    assert (answer.status_code, answer.content) == (204, b"")
    assert asked(answer) == {
        "access-control-allow-origin": APP,
        "access-control-allow-methods": "GET, HEAD, POST, DELETE",
        "access-control-allow-headers": "authorization, content-type",
        "access-control-max-age": "300",
        "vary": "origin",
    }
    assert "content-length" not in answer.headers
    assert answer.headers["x-request-id"]
    assert not gateway.log.lines


async def test_the_connection_goes_on_after_a_preflight(gateway):
    """A 204 has no body and no length: the answer to the next request is not mistaken for one."""
    async with wire(gateway.gateway.port) as one:
        one.send(b"", method="OPTIONS", key=None, headers=ASKS)
        assert await one.head() == 204
        one.send(chat(), headers={"origin": APP})
        assert (await one.answer()).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {**ASKS, "origin": "https://evil.example.com"},
        {**ASKS, "origin": "https://app.example.com.evil.com"},
        {**ASKS, "origin": "null"},
        {name: value for name, value in ASKS.items() if name != "origin"},
        {**ASKS, "access-control-request-headers": "a" * 2000},
        {**ASKS, "access-control-request-headers": "authorization, b@d"},
    ],
)
async def test_a_preflight_that_is_refused(gateway, headers):
    """Another origin, none, or header names out of bounds: 403 with our error, never an echo of what was sent."""
    answer = await gateway.client.options(CHAT, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert "evil" not in str(answer.headers)
    assert answer.headers["vary"] == "origin"


@pytest.mark.parametrize("path", ["/admin/status", "/admin", "http://gw/admin/cache/flush"])
async def test_the_admin_api_is_for_no_page(gateway, path):
    """No preflight of it is allowed, and its answers carry no such header."""
    async with wire(gateway.gateway.port) as one:
        one.send(b"", method="OPTIONS", key=None, headers=ASKS, path=path)
        assert await one.head() == 403
    answer = await gateway.client.get("/admin/status", headers={"origin": APP, "authorization": "Bearer tg-admin-key"})
    assert answer.status_code == 200
    assert asked(answer) == {}


async def test_a_page_may_read_the_answer(gateway):
    """Whole answers, streams and the model list name the origin, and let the page see our headers."""
    headers = {"origin": "http://localhost:5173", "authorization": f"Bearer {KEY}"}
    for answer in (
        await gateway.client.post(CHAT, json=chat(), headers=headers),
        await gateway.client.post(CHAT, json=chat(stream=True), headers=headers),
        await gateway.client.get("/v1/models", headers=headers),
        await gateway.client.get("/health", headers=headers),
    ):
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "http://localhost:5173"
        assert answer.headers["vary"] == "origin"
        exposed = set(answer.headers["access-control-expose-headers"].split(", "))
        ours = {name for name in answer.headers if name.startswith(("x-", "openai-", "retry-"))} - {"x-accel-buffering"}
        assert ours <= exposed
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "key", "body", "status"),
    [
        ("POST", CHAT, "wrong", {}, 401), ("POST", CHAT, KEY, {"model": "x"}, 404), ("POST", CHAT, KEY, {}, 400),
        ("GET", CHAT, KEY, None, 405), ("GET", "/v1/nothing", KEY, None, 404), ("POST", CHAT, KEY, {"model": "small-model"}, 400),
        ("POST", "/v1/messages", KEY, {"model": "small-model"}, 404),
    ],
)  # fmt: skip
async def test_errors_can_be_read_too(gateway, method, path, key, body, status):
    """A page learns why it was refused, by us or by the backend."""
    headers = {"origin": APP, "authorization": f"Bearer {key}"}
    answer = await gateway.client.request(method, path, json=body, headers=headers)
    assert answer.status_code == status
    assert answer.headers["access-control-allow-origin"] == APP


async def test_another_origin_is_answered_without_leave(gateway):
    """Keys keep people out, CORS does not: the answer is there, the page cannot read it."""
    headers = {"origin": "https://evil.example.com", "authorization": f"Bearer {KEY}"}
    answer = await gateway.client.post(CHAT, json=chat(), headers=headers)
    assert answer.status_code == 200
    assert asked(answer) == {"vary": "origin"}


async def test_any_origin(start):
    """`*` lets every page read, whoever asks, also what never became a request."""
    gateway = await start({"server": {"port": 0, "cors": {"origins": ["*"]}}})
    answer = await gateway.client.options(CHAT, headers={**ASKS, "origin": "https://anything.example"})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (204, "*")
    assert "vary" not in answer.headers
    assert (await gateway.chat()).headers["access-control-allow-origin"] == "*"
    async with wire(gateway.gateway.port) as one:
        one.writer.write(b"no http\r\n\r\n")
        assert await one.head() == 400
        assert one.headers["access-control-allow-origin"] == "*"


async def test_off_there_is_nothing_of_it(stack):
    """Without a list no header is added, and OPTIONS is a method like any other that is not served."""
    assert (await stack.client.options(CHAT, headers=ASKS)).status_code == 405
    answer = await stack.client.post(CHAT, json=chat(), headers={"origin": APP, "authorization": f"Bearer {KEY}"})
    assert answer.status_code == 200
    assert asked(answer) == {}


async def test_an_options_that_is_no_preflight(gateway):
    """Without `access-control-request-method` it is an ordinary request."""
    assert (await gateway.client.options(CHAT, headers={"origin": APP})).status_code == 405


@pytest.mark.parametrize(
    "origin",
    ["https://app.example.com/", "app.example.com", "https://App.example.com", "https://app.example.com:443", "ftp://a",
     "https://u@a.example", "https://", "https://*.example.com", "null", "", "https://a.example?x"],
)  # fmt: skip
def test_origins_that_no_browser_sends(origin):
    """What could never match is an error of the config, not a page that does not work."""
    text = f"models: [{{name: m, replicas: [{{name: r, url: 'http://h/v1'}}]}}]\nserver: {{cors: {{origins: ['{origin}']}}}}"
    with pytest.raises(ConfigError, match="origins"):
        parse(text)


def test_every_header_of_ours_is_exposed():
    """A response header that the README's table names can be read by a page."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("| response header") : readme.index("| request header")]
    named = set(re.findall(r"`((?:x|retry|openai)-[a-z-]+|age)", table)) - {"x-ratelimit-"}
    assert len(named) > 12
    assert named <= set(_EXPOSED.split(", "))


async def test_no_form_of_an_admin_path_may_be_read_by_a_page(gateway):
    """The absolute form of a request's target is the same call, and is told to no page either."""
    async with wire(gateway.gateway.port) as one:
        one.send(b"", method="GET", key="tg-admin-key", headers={"origin": APP}, path="http://gw/admin/status")
        answer = await one.answer()
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers
