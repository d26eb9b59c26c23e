"""A client that works alone, one request strictly after the other, is refused nothing that one process would not refuse it."""

import random
from contextlib import AsyncExitStack

import pytest
from gateway_talk import GREEDY, KEY, ask, chat, config_of, tenant, wire
from pair import Pair

from gateway.config import parse
from gateway.lab.fake import FakeVLLM, Options

TIGHT = {
    "tokens": {"tpm": 40_000},
    "a slot": {"max_parallel": 1},
    "a model's tokens": {"models": {"small-model": {"tpm": 40_000, "max_parallel": 1}}},
    "a day's budget": {"budget": {"day": 40_000}},
}


@pytest.fixture
async def start(tmp_path):
    """`await start(the tenant's limits, hits=…, **config)` → a running Pair."""
    async with AsyncExitStack() as scope:

        async def make(terms, *, hits=None, **config):
            fakes = {name: await scope.enter_async_context(FakeVLLM(Options())) for name in ("s1", "l1")}
            plan = {"models": terms.pop("models", {})}
            changes = {
                "keys": {"path": str(tmp_path / "keys.json")},
                "limits": {"budgets": {"path": str(tmp_path / "budgets")}, "hits": hits or {}},
                "plans": {"pro": plan},
                "tenants": [tenant("acme", KEY, **terms)],
                **config,
            }
            pair = Pair(parse(config_of(fakes, changes), tmp_path / "config.yaml"))
            await pair.start()
            scope.push_async_callback(pair.stop)
            return pair

        yield make


@pytest.mark.parametrize("kind", TIGHT)
async def test_a_client_alone_is_never_refused_for_what_it_gave_back(start, kind):
    """Whatever it reserves, large or small, streamed or not, on new connections and kept ones, of whichever worker."""
    rng = random.Random(kind)
    pair = await start(dict(TIGHT[kind]), cache={"exact": {"enabled": False}})
    async with AsyncExitStack() as scope:
        kept = [await scope.enter_async_context(wire(each.gateway.port)) for each in (pair.a, pair.b) for _ in range(2)]
        for number in range(120):
            most = rng.choice([32_000, 32_000, 20_000, 9_000, 500])
            body = chat(f"[[tokens: 3]] {number}", max_tokens=most, stream=rng.random() < 0.4)
            if rng.random() < 0.5:
                answer = await ask(rng.choice([pair.a, pair.b]), body)
            else:
                one = rng.choice(kept)
                one.send(body)
                answer = await one.answer()
            assert answer.status_code == 200, (number, answer.text)


async def test_a_hit_gives_its_request_back_in_time(start):
    """Where hits cost none, and there are two requests a minute, any number of them passes."""
    pair = await start({"rpm": 2}, hits={"requests": False})
    for number in range(60):
        answer = await ask((pair.a, pair.b)[number % 2], chat("[[tokens: 3]]", **GREEDY, stream=number % 3 == 0))
        assert answer.status_code == 200, (number, answer.text)
