"""Small first: what is asked of whom, who answers, what the client sees and pays, and when that stops."""

import asyncio
import json
from contextlib import AsyncExitStack

import msgspec
import pytest
from gateway_talk import ask, chat

from gateway.commands.explain_text import text
from gateway.explanation import Explanation
from gateway.lab.fake import FakeVLLM, Options

ASK = {"model": "auto", "content": "How many legs have three cats?"}
SCHEMA = {"type": "object", "properties": {"legs": {"type": "integer"}}, "required": ["legs"], "additionalProperties": False}
SHAPED = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
TOOLS = {"tools": [{"type": "function", "function": {"name": "count", "parameters": SCHEMA}}]}


def say(*texts, **more):
    """A script that says these, a choice each."""
    return {"choices": [{"content": text, **more} for text in texts]}


@pytest.fixture
def scripted(tmp_path):
    """Options of a fake that replies with these entries."""
    made = []

    def options(*entries, **more):
        path = tmp_path / f"script{len(made)}.json"
        made.append(path)
        path.write_text(json.dumps(list(entries)))
        return Options(script=str(path), **more)

    return options


@pytest.fixture
def begin(start, scripted):
    """A gateway whose `auto` has a cascade; what the small tier says, and the large one."""

    async def make(small, large=("12",), *, changes=None, options=None, **cascade):
        fakes = {"s1": scripted(*small, **(options or {})), "l1": scripted(say(*large))}
        return await start({"routing": {"routes": {"auto": {"cascade": cascade}}}, **(changes or {})}, fakes=fakes)

    return make


def asked(fake):
    return [entry for entry in fake.log if "completions" in entry.path]


async def tell(stack, **request):
    """(The answer, its text, its log line)."""
    answer = await stack.chat(**{**ASK, **request})
    assert answer.status_code == 200, answer.text
    line = await stack.line()
    await stack.at_rest()
    return answer, answer.json()["choices"][0]["message"]["content"], line


async def test_two_that_agree_are_one_answer(begin):
    """The small tier's first answer is told as if it were the only one, with what both have cost."""
    stack = await begin([say("The answer is 12.", "12")])
    answer, text, line = await tell(stack)
    body = answer.json()
    assert (text, len(body["choices"])) == ("The answer is 12.", 1)
    [sent] = asked(stack.small)
    assert sent.body["n"] == 2
    assert not asked(stack.large)
    headers = {name: answer.headers[f"x-tiergate-{name}"] for name in ("model", "tier", "route", "cascade")}
    assert headers == {"model": "small-model", "tier": "small", "route": "score", "cascade": "answered"}
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] == line["charged_tokens"]
    assert (line["cascade"], line["small_tokens"], line["model"]) == ("answered", usage["total_tokens"], "small-model")


@pytest.mark.parametrize(
    ("small", "request_more", "result"),
    [
        ([say("12", "16")], {}, "disagreement"),
        ([say("12", "It depends on the cats, of which some have lost a leg or two, as cats do now and then.")], {}, "unchecked"),
        ([say(" ", " ")], {}, "empty"),
        ([say("12", "12", finish_reason="length")], {}, "truncated"),
        ([say("I'm sorry, but I can't help with that.", "I'm sorry, but I can't help with that.")], {}, "refusal"),
        ([{"choices": [{"refusal": "no"}, {"content": "12"}]}], {}, "refusal"),
        ([say('{"legs": "twelve"}', '{"legs": "twelve"}')], SHAPED, "invalid"),
        ([say("twelve", "twelve")], SHAPED, "invalid"),
        ([{"choices": [{"tool_calls": [{"name": "count", "arguments": {"feet": 12}}]}] * 2}], TOOLS, "invalid"),
        ([{"choices": [{"tool_calls": [{"name": "count", "arguments": '{"legs": 1'}]}] * 2}], TOOLS, "invalid"),
        ([{"choices": [{"tool_calls": [{"name": "other", "arguments": {"legs": 12}}]}] * 2}], TOOLS, "invalid"),
    ],
)  # fmt: skip
async def test_what_does_not_stand_up_goes_up(begin, small, request_more, result):
    """The dear tier answers, asked as its client asked; the usage, the log and the tenant's account have both tiers' tokens."""
    stack = await begin(small)
    answer, text, line = await tell(stack, **request_more)
    assert text == "12"
    [sent] = asked(stack.large)
    assert "n" not in sent.body
    assert answer.headers["x-tiergate-cascade"] == line["cascade"] == result
    assert (answer.headers["x-tiergate-model"], answer.headers["x-tiergate-route"]) == ("large-model", "score")
    assert answer.json()["usage"]["total_tokens"] == line["charged_tokens"] > line["small_tokens"] > 0
    assert line["charged_tokens"] == line["prompt_tokens"] + line["completion_tokens"]


@pytest.mark.parametrize(
    ("small", "more"),
    [
        ([say('{"legs": 12}', '{\n "legs": 12\n}')], SHAPED),
        ([{"choices": [{"tool_calls": [{"name": "count", "arguments": {"legs": 12}}]}] * 2}], TOOLS),
    ],
)
async def test_what_fits_its_schema_and_agrees_is_passed_on(begin, small, more):
    """JSON and calls of tools are compared by value."""
    stack = await begin(small)
    answer, _, _ = await tell(stack, **more)
    assert answer.headers["x-tiergate-cascade"] == "answered"


async def test_only_the_answer_is_paid(begin):
    """With `charge: answered` what went up costs what the dear tier used, and its bytes are its own."""
    stack = await begin([say("12", "16")], charge="answered")
    answer, _, line = await tell(stack)
    direct = await stack.chat(ASK["content"], model="large-model", headers={"x-tiergate-cache": "no-store"})
    assert answer.json()["usage"] == direct.json()["usage"]
    assert line["charged_tokens"] == answer.json()["usage"]["total_tokens"]
    assert line["small_tokens"] > 0
    assert line["prompt_tokens"] + line["completion_tokens"] == line["charged_tokens"] + line["small_tokens"]


@pytest.mark.parametrize("charge", ["both", "answered"])
async def test_the_most_likely_answer_is_asked_for_alone(begin, charge):
    """At temperature 0 the request goes as it is, and then once more with a temperature; both are paid where they agree."""
    stack = await begin([say("#### 12")], charge=charge)
    answer, text, line = await tell(stack, temperature=0)
    one, other = asked(stack.small)
    assert text == "#### 12"
    assert ("n" not in one.body, one.body["temperature"], other.body["temperature"]) == (True, 0, 0.7)
    assert answer.json()["usage"]["total_tokens"] == line["charged_tokens"] == line["small_tokens"]


@pytest.mark.parametrize("charge", ["both", "answered"])
async def test_a_second_answer_that_differs(begin, charge):
    """The dear tier is asked, and with `answered` neither of the two is paid."""
    stack = await begin([say("12") | {"times": 1}, say("16")], charge=charge)
    answer, _, line = await tell(stack, temperature=0)
    assert answer.headers["x-tiergate-cascade"] == "disagreement"
    paid = line["prompt_tokens"] + line["completion_tokens"] - (line["small_tokens"] if charge == "answered" else 0)
    assert line["charged_tokens"] == paid == answer.json()["usage"]["total_tokens"]


@pytest.mark.parametrize(("other", "result"), [("12.", "answered"), ("16", "disagreement")])
async def test_two_models_are_asked(start, scripted, other, result):
    """With `check: models` the second model of the tier is asked what the first one was, and the first one answers."""
    async with AsyncExitStack() as scope:
        said = {"one": ("small", "12"), "two": ("small", other), "big": ("large", "20")}
        fakes = {name: await scope.enter_async_context(FakeVLLM(scripted(say(text)))) for name, (_, text) in said.items()}
        models = [
            {"name": name, "tier": tier, "served_name": "fake", "replicas": [{"name": f"{name}-1", "url": fakes[name].url}]}
            for name, (tier, _) in said.items()
        ]
        stack = await start({"models": models, "routing": {"routes": {"auto": {"cascade": {"check": "models"}}}}})
        answer, text, line = await tell(stack, temperature=0)
        assert (answer.headers["x-tiergate-cascade"], text) == (result, "12" if result == "answered" else "20")
        model = "one" if result == "answered" else "big"
        assert (answer.headers["x-tiergate-model"], answer.headers["x-tiergate-replica"]) == (model, f"{model}-1")
        assert [entry.body["temperature"] for name in ("one", "two") for entry in asked(fakes[name])] == [0, 0]
        assert answer.json()["usage"]["total_tokens"] == line["charged_tokens"] >= line["small_tokens"]


@pytest.mark.parametrize(("certainty", "result"), [(0.01, "answered"), (1.0, "unsure")])
async def test_an_answer_that_is_sure_enough(begin, certainty, result):
    """With `check: logprobs` it is asked once; what only the gateway wanted to know is not told."""
    stack = await begin([say("12")], check="logprobs", certainty=certainty)
    answer, _, _ = await tell(stack)
    [sent] = asked(stack.small)
    assert (sent.body["logprobs"], "n" in sent.body) == (True, False)
    assert answer.headers["x-tiergate-cascade"] == result
    assert answer.json()["choices"][0]["logprobs"] is None


@pytest.mark.parametrize(
    "request_more",
    [
        {"stream": True},
        {"n": 2},
        {"model": "large-model"},
        {"headers": {"x-tiergate-tier": "large"}},
        {"max_tokens": 4096, "content": "x"},
        {"content": "word " * 4000},
        {"key": "tg-test-key-of-small"},
    ],
)
async def test_what_goes_the_normal_way(begin, request_more):
    """Streams, several answers, long ones, and what is not the router's to choose."""
    stack = await begin([say("12", "12")])
    if request_more.get("key"):
        request_more = {"model": "small-model"}
    answer = await stack.chat(**{**ASK, **request_more})
    assert answer.status_code == 200
    assert "x-tiergate-cascade" not in answer.headers
    assert all(entry.body.get("n") == request_more.get("n") for entry in asked(stack.small))


async def test_an_answer_of_a_cascade_is_kept_and_shared(begin):
    """Those who ask the same meanwhile get the same, one try for all; later ones get it from the cache."""
    stack = await begin([say("12", "12")], options={"ttft": 0.2})
    answers = await asyncio.gather(*(stack.chat(**ASK, seed=1, temperature=1) for _ in range(4)))
    assert {answer.headers["x-tiergate-cache"] for answer in answers} == {"miss", "shared"}
    assert len({answer.content for answer in answers}) == len(asked(stack.small)) == 1
    again = await stack.chat(**ASK, seed=1, temperature=1)
    assert (again.headers["x-tiergate-cache"], again.json()["choices"]) == ("exact", answers[0].json()["choices"])
    await stack.at_rest()


@pytest.mark.parametrize(
    "fault", [{"status": 400, "body": {"error": {"message": "n must be 1"}}}, {"status": 500}, {"status": 200, "body": {}}]
)
async def test_a_small_tier_that_cannot_be_asked(begin, fault):
    """A backend that refuses `n`, or is broken, costs the client nothing but time: the request is answered the normal way."""
    stack = await begin([say("12", "12")])
    stack.small.faults.add(**fault, times=3)
    answer, text, line = await tell(stack, content="[[say: 12]]")
    assert text == "12"
    assert line["cascade"] == "failed"
    assert line["charged_tokens"] == answer.json()["usage"]["total_tokens"]


async def test_a_dear_tier_that_is_away(begin):
    """What should go up and cannot falls back, as everywhere."""
    stack = await begin([say("12", "16"), say("x")])
    stack.large.faults.add(status=500)
    answer = await stack.chat(**ASK)
    assert answer.status_code == 200
    assert (answer.headers["x-tiergate-route"], answer.headers["x-tiergate-model"]) == ("fallback", "small-model")
    await stack.at_rest()


@pytest.mark.parametrize("hanging", ["small", "large"])
async def test_a_client_that_leaves(begin, hanging):
    """While either tier works for it: the engine is told within a second, every lease is back, and what was used is charged."""
    stack = await begin([say("12", "16")], options={"ttft": 30.0} if hanging == "small" else {})
    fake = getattr(stack, hanging)
    if hanging == "large":
        fake.faults.add(hang_before_first_token=True)
    request = asyncio.create_task(stack.chat(**ASK, max_tokens=50))
    await stack.until(lambda: bool(asked(fake)))
    request.cancel()
    line = await stack.line()
    await stack.until(lambda: asked(fake)[-1].aborted)
    await stack.at_rest()
    assert line["outcome"] == "client_gone"
    assert line.get("cascade") == (None if hanging == "small" else "disagreement")
    assert line["charged_tokens"] >= 50


async def test_it_switches_itself_off(begin, caplog):
    """Where the small tier seldom agrees with itself its tries end, the log says so once, and a few are made all the same."""
    stack = await begin([say("12", "16")], changes={"cache": {"exact": {"enabled": False}}})
    for _ in range(60):
        assert (await stack.chat(**ASK)).status_code == 200
    assert len(asked(stack.small)) == 17
    assert len(asked(stack.large)) == 60
    said = [record.getMessage() for record in caplog.records if "small tier first" in record.getMessage()]
    assert said == ["under auto asking the small tier first does not pay: it is switched off, and tried rarely"]
    page = (await stack.client.get("/metrics")).text
    assert 'tiergate_cascade_switches_total{route="auto",to="off"} 1.0' in page
    assert 'tiergate_cascades_total{result="disagreement",route="auto"} 17.0' in page


async def test_workers_learn_together(start, scripted):
    """Three of them try no more than one alone would, and who explains knows what they know."""
    changes = {"routing": {"routes": {"auto": {"cascade": {}}}}, "cache": {"exact": {"enabled": False}}}
    fakes = {"s1": scripted(say("12", "16")), "l1": scripted(say("12"))}
    stack = await start(changes, fakes=fakes, workers=3)
    for _ in range(60):
        assert (await ask(stack, chat(**ASK))).status_code == 200
    assert len(asked(stack.small)) == 17
    for process in (stack.gateway.dispatcher, *stack.gateway.workers):
        assert not process.parts.own.pipeline.cascades._routes[""].switch.on


async def test_a_share_is_kept(begin):
    """Under a target of a share what was sent down anyway is not looked at, and what a cascade sends up counts as sent up."""
    changes = {"routing": {"routes": {"auto": {"target": {"large": 0.25}, "cascade": {}}}}}
    stack = await begin([say("12", "16")], changes=changes)
    for number in range(40):
        assert (await stack.chat(f"{ASK['content']} {number}", model="auto")).status_code == 200
    await stack.at_rest()
    tries = [entry for entry in asked(stack.small) if entry.body.get("n") == 2]
    assert len(tries) == len(asked(stack.large)) <= 12
    assert len(asked(stack.small)) == 40
    page = (await stack.client.get("/metrics")).text
    assert f'tiergate_route_choices_total{{route="auto",tenant="",to="dearer"}} {len(tries)}.0' in page


@pytest.mark.parametrize(("ask", "then"), [("Prove it step by step.", "large-model"), ("Hello!", "one of the dearest tier")])
async def test_explain_calls_nothing_first_but_what_is_asked_first(begin, ask, then):
    """In its words, whichever of the two was decided on."""
    stack = await begin([say("12", "12")], floor=0.0)
    question = {"tenant": "acme", "body": {"model": "auto", "messages": [{"role": "user", "content": ask}]}}
    told = await stack.client.post("/admin/explain", json=question, headers={"authorization": "Bearer tg-admin-key"})
    words = text(msgspec.convert(told.json(), Explanation))
    assert f"cascade   small-model is asked first; {then} if its answer does not stand up" in words
    assert "large-model (large), first" not in words
    assert ("then      large-model (large), when the answer of small-model does not stand up" in words) == (then == "large-model")


async def test_explain_tells_who_is_asked_first(begin):
    """And whom after it."""
    stack = await begin([say("12", "12")])
    body = {"model": "auto", "messages": [{"role": "user", "content": "Prove it step by step."}]}
    for stream, first in ((False, "small-model"), (True, "")):
        told = await stack.client.post(
            "/admin/explain",
            json={"tenant": "acme", "body": {**body, "stream": stream}},
            headers={"authorization": "Bearer tg-admin-key"},
        )
        assert (told.json()["route"]["first"], told.json()["route"]["model"]) == (first, "large-model")
    assert not asked(stack.small)


async def test_a_limit_of_tokens_that_holds_one_answer_only(begin):
    """A tenant whose minute has no room for two answers is answered by one."""
    stack = await begin([say("12", "12")], changes={"tenants": {0: {"tpm": 1500}}})
    answer, _, line = await tell(stack, max_tokens=1000)
    assert line["cascade"] == "failed"
    assert answer.json()["usage"]["total_tokens"] == line["charged_tokens"]


@pytest.mark.parametrize("during", ["small", "large"])
async def test_another_dispatcher_meanwhile(start, scripted, during):
    """A dispatcher that dies while either tier works costs nothing: the answer comes, all is charged, no lease is left."""
    slow = {"ttft": 1.0}
    fakes = {
        "s1": scripted(say("12", "16"), **(slow if during == "small" else {})),
        "l1": scripted(say("12"), **(slow if during == "large" else {})),
    }
    stack = await start({"routing": {"routes": {"auto": {"cascade": {}}}}}, fakes=fakes, workers=1)
    request = asyncio.create_task(stack.chat(**ASK))
    await stack.until(lambda: bool(asked(getattr(stack, during))))
    await stack.gateway.replace_dispatcher()
    answer = await request
    assert answer.status_code == 200, answer.text
    line = await stack.line()
    await stack.at_rest()
    assert answer.json()["usage"]["total_tokens"] == line["charged_tokens"] > line["small_tokens"] > 0
    assert (len(asked(stack.small)), len(asked(stack.large))) == (1, 1)
