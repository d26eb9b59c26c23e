"""Conversations of many users over two vLLM whose caches turn over: how much of their prompts is read again."""

import asyncio
import contextlib
import random

import httpx
import pytest
import yaml
from e2e_fleet import KEYS, digest
from e2e_programs import BACKEND_KEY, Engine, Program

from gateway.lab.up import ports
from gateway.lab.up.processes import python

KINDS = ("round_robin", "work_cost")
ROUNDS = 2
USERS, TURNS = 20, 6
THINK = 2.0  # seconds, mean
BLOCKS = 224  # of 32 tokens, each engine: in the end all conversations together have an eighth more than both hold
REPLY = 32
WORDS = ("garden", "river", "stone", "lamp", "winter", "paper", "engine", "market", "violin", "harbour", "cloud", "ladder")


@pytest.fixture
def pair(logs):
    """Two engines of little memory, and a gateway that places by each kind: the engines, and the gateway's root."""
    first, second, own = ports.free(3, random.Random())
    engines = [
        Engine(f"talk{number}", ["e2e-talk"], 2048, port, logs, blocks=BLOCKS) for number, port in enumerate((first, second))
    ]
    replicas = [{"name": engine.name, "url": engine.root + "/v1", "api_key": BACKEND_KEY} for engine in engines]
    tree = {
        "server": {"port": own, "drain_timeout": "5s"},
        "timeouts": {"connect": "10s", "first_token": "300s", "between_tokens": "120s", "total": "600s"},
        "models": [
            {"name": kind, "tier": kind, "served_name": "e2e-talk", "replicas": replicas, "balance": {"kind": kind}}
            for kind in KINDS
        ],
        "cache": {"exact": {"enabled": False}},
        "health": {"interval": "500ms", "timeout": "10s"},
        "tenants": [{"name": "acme", "keys": [{"id": "k1", "sha256": digest(KEYS["acme"])}]}],
    }
    config = logs / "talk.yaml"
    config.write_text(yaml.safe_dump(tree), encoding="utf-8")
    gateway = Program("talk-gateway", python("gateway.cli", "serve", "--config", str(config)), own, "/ready", logs)
    with contextlib.ExitStack() as scope:
        for engine in engines:
            scope.callback(engine.kill)
            engine.start()
        for engine in engines:
            engine.await_ready()
        scope.callback(gateway.kill)
        gateway.start()
        gateway.await_ready()
        yield engines, gateway.root


def test_less_of_the_prompts_is_read_again_than_in_turns(pair, figures):
    """Twenty users in conversations of six turns, in alternating rounds: at most .65 of what round robin reads."""
    engines, root = pair
    read = dict.fromkeys(KINDS, 0)
    for number in range(ROUNDS):
        said = {}
        for kind in KINDS[:: 1 - 2 * (number % 2)]:
            for engine in engines:
                reset = httpx.post(
                    engine.root + "/reset_prefix_cache", headers={"authorization": f"Bearer {BACKEND_KEY}"}, timeout=30
                )
                assert reset.status_code == 200
            said[kind] = asyncio.run(everybody(root, kind, number))
            prompt, cached = (sum(column) for column in zip(*said[kind], strict=True))
            read[kind] += prompt - cached
            figures[f"conversations, round {number + 1}, {kind}: prompt tokens, cached"] = f"{prompt}, {cached}"
    share = read["work_cost"] / read["round_robin"]
    figures["conversations: prompt tokens read again, of what round robin reads"] = round(share, 3)
    assert share <= 0.65


def reset(engine):
    headers = {"authorization": f"Bearer {BACKEND_KEY}"}
    assert httpx.post(engine.root + "/reset_prefix_cache", headers=headers, timeout=60).status_code == 200


async def everybody(root, kind, number):
    """Prompt tokens and cached ones of every turn of every user."""
    headers = {"authorization": f"Bearer {KEYS['acme']}"}
    async with httpx.AsyncClient(base_url=root, headers=headers, timeout=600, trust_env=False) as client:
        users = [talk(client, kind, random.Random(f"{number} {user}")) for user in range(USERS)]
        return [turn for turns in await asyncio.gather(*users) for turn in turns]


async def talk(client, kind, rng):
    """One conversation; what it says is the same whatever places it, but for the answers."""
    messages = [{"role": "system", "content": "You are brief. " + words(rng, 30)}]
    used = []
    for _ in range(TURNS):
        await asyncio.sleep(rng.expovariate(1 / THINK))
        messages.append({"role": "user", "content": words(rng, rng.randint(10, 40))})
        body = {"model": kind, "messages": messages, "max_tokens": REPLY, "temperature": 0, "ignore_eos": True}
        answer = await client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        usage = answer.json()["usage"]
        used.append((usage["prompt_tokens"], (usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0))
        messages.append({"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]})
    return used


def words(rng, count):
    return " ".join(f"{rng.choice(WORDS)}{rng.randint(1, 99)}" for _ in range(count))
