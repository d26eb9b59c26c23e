"""What a vLLM that was killed has cached when it serves again."""

import contextlib
import random
import time

import httpx
import pytest
import yaml
from e2e_fleet import KEYS, digest
from e2e_programs import BACKEND_KEY, Engine, Program, until

from gateway.lab.up import ports
from gateway.lab.up.processes import python

LISTED = "You are a careful assistant of a shop for garden tools. " * 60
LEARNED = "Answer in rhymes about the sea and its ships, always. " * 60
UNKNOWN = "Nobody has ever sent this beginning to anybody. " * 60


@pytest.fixture
def alone(logs):
    """One engine and a gateway with two workers: the engine, and what asks the gateway."""
    first, own = ports.free(2, random.Random())
    engine = Engine("warm", ["e2e-warm"], 2048, first, logs)
    tree = {
        "server": {"port": own, "workers": 2, "drain_timeout": "5s"},
        "models": [
            {
                "name": "warm",
                "served_name": "e2e-warm",
                "replicas": [{"name": "w1", "url": engine.root + "/v1", "api_key": BACKEND_KEY}],
                "warm": {"prompts": [{"system": LISTED, "tenants": ["acme"]}], "learn": 4, "timeout": "60s"},
            }
        ],
        "cache": {"secret": "e2e", "exact": {"enabled": False}, "prefix": {"isolate": "tenant"}},
        "health": {"interval": "500ms", "timeout": "10s"},
        "tenants": [{"name": "acme", "keys": [{"id": "k1", "sha256": digest(KEYS["acme"])}]}],
    }
    config = logs / "warm.yaml"
    config.write_text(yaml.safe_dump(tree), encoding="utf-8")
    gateway = Program("warm-gateway", python("gateway.cli", "serve", "--config", str(config)), own, "/ready", logs)
    with contextlib.ExitStack() as scope:
        scope.callback(engine.kill)
        engine.start()
        engine.await_ready()
        scope.callback(gateway.kill)
        gateway.start()
        gateway.await_ready()
        yield engine, scope.enter_context(httpx.Client(base_url=gateway.root, timeout=600, trust_env=False))


def asked(client, system, user):
    """Seconds, prompt tokens and cached ones of one request."""
    body = {
        "model": "warm",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "max_tokens": 1,
    }
    began = time.monotonic()
    answer = client.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {KEYS['acme']}"})
    assert answer.status_code == 200, answer.text
    usage = answer.json()["usage"]
    return time.monotonic() - began, usage["prompt_tokens"], (usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0


def test_a_killed_engine_has_read_before_it_serves(alone, figures):
    """Its first requests find the listed prompt and the learned one cached; one that nobody knew is not."""
    engine, client = alone
    for number in range(8):
        asked(client, LEARNED, f"Number {number}?")
        time.sleep(0.6)
    engine.kill()
    until(lambda: client.get("/ready").status_code == 503, "the gateway sees that it is gone")
    engine.start()
    engine.await_ready()
    until(lambda: client.get("/ready").status_code == 200, "it serves again")
    for name, system in (("listed", LISTED), ("learned", LEARNED)):
        seconds, prompt, cached = asked(client, system, "And now?")
        figures[f"first request after a kill, {name} prompt: s, tokens, cached"] = f"{seconds:.2f}, {prompt}, {cached}"
        assert cached > prompt * 0.9
    seconds, prompt, cached = asked(client, UNKNOWN, "And now?")
    figures["first request after a kill, unknown prompt: s, tokens, cached"] = f"{seconds:.2f}, {prompt}, {cached}"
    assert cached < 64
