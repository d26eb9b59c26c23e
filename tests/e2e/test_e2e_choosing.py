"""What looks at answers before it believes in a tier, before a real model that is worse than the other one."""

import asyncio
import collections
import contextlib
import json
import random
import shutil
import subprocess

import httpx
import pytest
import yaml
from e2e_fleet import KEYS, digest
from e2e_programs import BACKEND_KEY, HOME, MODEL, Engine, Program, until

from gateway.lab.up import ports
from gateway.lab.up.processes import python

THIN = HOME / "smollm2-thin"
ALWAYS = {"floor": 0, "price": 1000}  # however seldom the thin model answers, that pays
BRIEF = {"max_tokens": 32, "stop": ["\n", "."]}  # the models do not know when to end
GOES_UP = {"disagreement", "unsure", "unchecked", "refusal", "empty", "truncated", "invalid"}
SHAPE = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
JSON = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SHAPE, "strict": True}}}
TOOL = {"type": "function", "function": {"name": "report", "strict": True, "parameters": SHAPE}}
CALL = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "report"}}}


class Tiers:
    """A thin model and a whole one, a gateway that chooses between them, and what it wrote."""

    def __init__(self, thin, whole, gateway, logs):
        self.thin, self.whole, self.gateway, self.logs = thin, whole, gateway, logs

    def client(self):
        headers = {"authorization": f"Bearer {KEYS['acme']}"}
        return httpx.AsyncClient(base_url=self.gateway.root, headers=headers, timeout=600, trust_env=False)

    def sum(self, name, **labels):
        return self.gateway.sample(name, **labels)

    def labels(self):
        lines = [line for file in sorted(self.logs.glob("learned/log/*.jsonl")) for line in file.read_text().splitlines()]
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def tiers(logs):
    if not (THIN / "config.json").is_file():
        script = str(HOME.parent / "tests/e2e/thin_weights.py")
        subprocess.run([str(HOME / "vllm/bin/python"), script, str(MODEL), str(THIN)], check=True, timeout=300)
    shutil.rmtree(logs / "learned", ignore_errors=True)
    first, second, own = ports.free(3, random.Random())
    thin = Engine("thin", ["e2e-thin"], 2048, first, logs, model=THIN)
    whole = Engine("whole", ["e2e-whole"], 2048, second, logs)
    config = logs / "choosing.yaml"
    config.write_text(yaml.safe_dump(config_of(thin, whole, own)), encoding="utf-8")
    gateway = Program("choosing-gateway", python("gateway.cli", "serve", "--config", str(config)), own, "/ready", logs)
    with contextlib.ExitStack() as scope:
        for engine in (thin, whole):
            scope.callback(engine.kill)
            engine.start()
        for engine in (thin, whole):
            engine.await_ready()
        scope.callback(gateway.kill)
        gateway.start()
        gateway.await_ready()
        yield Tiers(thin, whole, gateway, logs)


def config_of(thin, whole, port):
    def pool(name, tier, engine, most=8):
        replica = {"name": name, "url": engine.root + "/v1", "api_key": BACKEND_KEY}
        return {
            "name": name, "tier": tier, "served_name": engine.names[0], "context": 2048, "capabilities": ["tools", "json_schema"],
            "replicas": [replica], "concurrency": {"max": most},
        }  # fmt: skip

    return {
        "server": {"port": port, "drain_timeout": "5s"},
        "timeouts": {"connect": "10s", "first_token": "300s", "between_tokens": "120s", "total": "600s"},
        "models": [
            pool("thin", "small", thin),
            pool("whole", "large", whole),
            pool("other", "small", whole),
            pool("umpire", "umpire", whole),
            pool("few", "large", whole, most=2),
        ],
        "routing": {
            "classifier": {"kind": "rules", "default_tier": "large"},
            "tiers": ["small", "large", "umpire"],
            "routes": {
                "auto": {"models": ["other", "whole"]},
                "worse": {"models": ["thin", "whole"]},
                "samples": {"models": ["thin", "whole"], "cascade": ALWAYS},
                "able": {"models": ["other", "whole"], "cascade": ALWAYS},
                "models": {"models": ["thin", "other", "whole"], "cascade": {**ALWAYS, "check": "models", "charge": "answered"}},
                "logprobs": {"models": ["other", "whole"], "cascade": {**ALWAYS, "check": "logprobs", "certainty": 0.8}},
                "switched": {"models": ["thin", "whole"], "cascade": {}},
                "busy": {"models": ["thin", "few"]},
            },
            "load": {"wait": "300ms"},
            "learning": {
                "enabled": True, "share": 1.0, "per_minute": 100_000, "judge": "umpire", "path": "learned",
            },
        },
        "cache": {"exact": {"enabled": False}},
        "health": {"interval": "500ms", "timeout": "10s"},
        "queue": {"max_wait": {"realtime": "300s", "standard": "300s", "batch": "300s"}},
        "tenants": [{"name": "acme", "keys": [{"id": "k1", "sha256": digest(KEYS["acme"])}]}],
    }  # fmt: skip


def sums(count):
    rng = random.Random(7)
    for _ in range(count):
        one, other = rng.randint(2, 9), rng.randint(2, 9)
        yield f"What is {one} + {other}? Answer with the number only."


async def all_of(tiers, bodies, path="/v1/chat/completions", at_once=8):
    gate = asyncio.Semaphore(at_once)
    async with tiers.client() as client:

        async def one(body):
            async with gate:
                return await client.post(path, json=body)

        return await asyncio.gather(*map(one, bodies))


def tally(answers):
    """What came of the small tier, and `none` where it was not asked."""
    return collections.Counter(answer.headers.get("x-tiergate-cascade", "none") for answer in answers)


def whole_and_honest(answer):
    """One choice, a usage that adds up, and headers that name who answered."""
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert len(body["choices"]) == 1
    assert body["choices"][0]["index"] == 0
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    result, headers = answer.headers["x-tiergate-cascade"], answer.headers
    assert (headers["x-tiergate-tier"], result == "answered") in (("small", True), ("large", False)), result
    assert body["model"] == ("e2e-thin" if headers["x-tiergate-model"] == "thin" else "e2e-whole")
    assert result == "answered" or result in GOES_UP


@pytest.mark.parametrize("temperature", [None, 0])
@pytest.mark.parametrize("route", ["samples", "able"])
def test_a_cascade_by_two_samples(tiers, figures, route, temperature):
    """Sums: the thin model says nothing that could be compared, so the dear one answers; one that can add agrees with itself."""
    answers = asyncio.run(all_of(tiers, [asked(route, text, temperature=temperature, seed=3, **BRIEF) for text in sums(10)]))
    for answer in answers:
        whole_and_honest(answer)
    figures[f"cascade by samples, {route}, temperature {temperature}: what came of it"] = told(answers)
    assert route == "samples" or tally(answers)["answered"] > 0


def test_a_cascade_that_does_not_pay_is_switched_off(tiers, figures):
    """With the defaults, requests that the thin model seldom agrees on with itself are soon asked of the whole one alone."""
    bodies = [asked("switched", text, **BRIEF) for text in sums(40)]
    answers = asyncio.run(all_of(tiers, bodies, at_once=4))
    counts = tally(answers)
    figures["cascade with the defaults, 40 sums: what came of it"] = told(answers)
    good = counts["answered"] / (len(answers) - counts["none"])
    assert counts["none"] > 8 or good > 0.5
    assert tiers.sum("tiergate_cascade_switches_total", route="switched", to="off") == (counts["none"] > 0)


def test_two_samples_of_a_seeded_request_are_two(tiers):
    """vLLM gives the second choice another seed than the first: they are no copies, so that they agree says something."""
    body = {"model": "thin", "messages": [{"role": "user", "content": "Tell me a story."}], "n": 2, "seed": 3, "max_tokens": 24}
    (answer,) = asyncio.run(all_of(tiers, [body]))
    one, other = (choice["message"]["content"] for choice in answer.json()["choices"])
    assert one != other


def test_a_cascade_by_two_models(tiers, figures):
    """The thin model's answer is the answer where another model of its tier says the same, and only what answers is paid."""
    bodies = [asked("models", text, temperature=0, **BRIEF) for text in sums(10)]
    answers = asyncio.run(all_of(tiers, bodies))
    for answer in answers:
        whole_and_honest(answer)
    figures["cascade by two models: what came of it"] = told(answers)


def test_a_cascade_by_probabilities(tiers, figures):
    """The thin model is asked once, with probabilities that the client is not told of unless it asked for them."""
    for more in ({}, {"logprobs": True, "top_logprobs": 2}):
        bodies = [asked("logprobs", text, temperature=0, **BRIEF, **more) for text in sums(8)]
        answers = asyncio.run(all_of(tiers, bodies))
        for answer in answers:
            whole_and_honest(answer)
            assert bool(answer.json()["choices"][0]["logprobs"]) is bool(more)
        assert tally(answers)["answered"] > 0
        figures[f"cascade by probabilities, {'asked for' if more else 'not asked for'}: what came of it"] = told(answers)
    completions = [{"model": "logprobs", "prompt": f"{n} + 1 =", "max_tokens": 3, "temperature": 0} for n in range(6)]
    for answer in asyncio.run(all_of(tiers, completions, "/v1/completions")):
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["logprobs"] is None


@pytest.mark.parametrize(("name", "more"), [("a schema", JSON), ("a tool", CALL)])
def test_a_cascade_of_what_has_a_shape(tiers, figures, name, more):
    """JSON and calls are compared by value, and what the client gets is of the shape that it asked for."""
    bodies = [asked("able", f"Is {n} an even number?", max_tokens=60, **more) for n in range(8)]
    answers = asyncio.run(all_of(tiers, bodies))
    for answer in answers:
        whole_and_honest(answer)
        if answer.headers["x-tiergate-cascade"] == "answered":
            message = answer.json()["choices"][0]["message"]
            said = message["content"] if more is JSON else message["tool_calls"][0]["function"]["arguments"]
            assert set(json.loads(said)) == {"ok"}
    figures[f"cascade of {name}: what came of it"] = told(answers)


def test_shadows_and_their_judge(tiers, figures):
    """Each request is asked of the other end as well: what agrees is a label, what was cut short or nobody can judge is none."""
    before, written = shadows(tiers), len(tiers.labels())
    for route in ("auto", "worse"):
        bodies = [asked(route, text, temperature=0, stream=turn % 2 == 0, **BRIEF) for turn, text in enumerate(sums(10))]
        for answer in asyncio.run(all_of(tiers, bodies, at_once=2)):
            assert answer.status_code == 200, answer.text
        until(lambda: not tiers.sum("tiergate_inflight_requests"), "no shadow runs")
        now = shadows(tiers)
        found, before = {name: now[name] - before[name] for name in now}, now
        figures[f"shadows of {route}: what came of them"] = ", ".join(f"{n:.0f} {name}" for name, n in found.items() if n)
        if route == "auto":
            assert found["good"] > 0
    until(lambda: len(tiers.labels()) == before["good"] + before["bad"], "each label is written down", 30)
    lines = tiers.labels()[written:]
    figures["labels: by whom"] = ", ".join(
        f"{n} {name}" for name, n in collections.Counter(one["source"] for one in lines).items()
    )
    pairs = {frozenset((one["model"], one["other"])) for one in lines}
    assert pairs <= {frozenset(("other", "whole")), frozenset(("thin", "whole"))}


def shadows(tiers):
    return {
        name: tiers.sum("tiergate_route_shadows_total", result=name)
        for name in ("good", "bad", "unknown", "unanswered", "unjudged")
    }


def test_what_is_near_the_cut_spills(tiers, figures):
    """Two slots of the dear tier are taken for seconds: work that would have gone there is answered by the thin model."""
    hard = "Prove step by step that the sum of two odd numbers is even, then derive the general theorem for n numbers."
    first = [asked("busy", f"{hard} ({n})", max_tokens=1) for n in range(16)]  # before these nobody knows what is near the cut
    asyncio.run(all_of(tiers, first, at_once=2))
    long = [asked("busy", f"{hard} ({n})", max_tokens=64, ignore_eos=True) for n in range(16, 32)]
    answers = asyncio.run(all_of(tiers, long, at_once=8))
    assert {answer.status_code for answer in answers} == {200}
    routes = collections.Counter((answer.headers["x-tiergate-route"], answer.headers["x-tiergate-tier"]) for answer in answers)
    figures["16 hard requests, two slots: by route and tier"] = ", ".join(f"{n} {' '.join(way)}" for way, n in routes.items())
    assert routes["load", "small"] > 0
    assert tiers.sum("tiergate_load_moves_total", tier="small", move="spilled") == routes["load", "small"]


def asked(model, text, **more):
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    return {name: value for name, value in body.items() if value is not None}


def told(answers):
    return ", ".join(f"{count} {name}" for name, count in sorted(tally(answers).items()))
