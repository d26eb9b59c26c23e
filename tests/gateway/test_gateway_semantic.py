"""Answers to questions that mean the same, through the whole gateway: what is served, what is not, and what has no part in it."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml
from gateway_talk import ADMIN_KEY, KEY, OTHER_KEY, chat, freeze_limits, payloads, posts, said, scrape, total, usage, wire
from semantic_talk import EGG, PASSWORD, PLANTS, TRAPS, Forwards, ask, asked, cache_of, fill, opened, scripted, semantic, settled

from gateway.lab.fake import Options

pytestmark = pytest.mark.usefixtures("one_model")

USAGE = {"include_usage": True}


@pytest.fixture
async def stack(start):
    return await opened(await start(semantic()))


# -- what is served


@pytest.mark.parametrize("filled", [False, True], ids=["filled by JSON", "filled by SSE"])
@pytest.mark.parametrize("read", [False, True], ids=["read as JSON", "read as SSE"])
async def test_a_question_in_other_words_is_served(stack, filled, read):
    """Whichever way it was filled: the same words, finish and usage, in the form that is asked for, and no model is asked."""
    first = await fill(stack, PASSWORD[0], stream=filled, **({"stream_options": USAGE} if filled else {}))
    found = await ask(stack, PASSWORD[1], stream=read, **({"stream_options": USAGE} if read else {}))
    assert cache_of(found) == "semantic"
    assert found.headers["content-type"].startswith("text/event-stream" if read else "application/json")
    assert said(found) == said(first)
    assert usage(found) == usage(first)
    assert (payloads(found.text)[-1] if read else "[DONE]") == "[DONE]"
    assert asked(stack) == 1


async def test_what_a_hit_says_of_itself(stack):
    """Its headers name the model, an id and an age, and no score; the log line has the score; it costs no tokens."""
    await fill(stack, PASSWORD[0])
    found = await ask(stack, PASSWORD[1])
    assert found.headers["x-tiergate-cache"] == "semantic"
    assert found.headers["x-tiergate-cache-id"].startswith("cs-")
    assert int(found.headers["age"]) >= 0
    assert (found.headers["x-tiergate-model"], found.headers["x-tiergate-tier"]) == ("small-model", "small")
    assert not {"x-tiergate-score", "x-tiergate-replica", "x-tiergate-route"} & set(found.headers)
    line = await stack.line()
    assert (line["cache"], line["model"], line["charged_tokens"], line["completion_tokens"]) == ("semantic", "small-model", 0, 0)
    assert line["semantic_score"] >= 0.5
    assert not any("score" in name for name in found.headers)


async def test_what_a_hit_counts(stack):
    """One hit of the semantic cache, the tokens that it saved, a request that is ok; and not a token more."""
    first = await fill(stack, PASSWORD[0])
    before = await scrape(stack)
    await ask(stack, PASSWORD[1])
    await stack.line()
    after = await scrape(stack)

    def grew(name, **labels):
        return total(after, name, **labels) - total(before, name, **labels)

    assert grew("tiergate_cache_lookups_total", cache="semantic", result="hit") == 1
    assert grew("tiergate_cache_tokens_saved_total") == usage(first)["completion_tokens"]
    assert grew("tiergate_requests_total", tenant="acme", outcome="ok") == 1
    assert grew("tiergate_tokens_total") == 0
    assert total(after, "tiergate_semantic_entries") == 1


async def test_the_tenant_pays_no_tokens_for_a_hit(start):
    """Who has no tokens left is served what is kept, and refused what is not."""
    fakes = {"s1": Options(tokens=400), "l1": Options()}
    stack = await opened(await start({**semantic(), "tenants": {0: {"tpm": 600}}}, fakes=fakes))
    freeze_limits(stack)
    await fill(stack, PASSWORD[0], max_tokens=400)
    assert (await ask(stack, EGG[0], max_tokens=400)).status_code == 429
    assert cache_of(await ask(stack, PASSWORD[1], max_tokens=400)) == "semantic"


async def test_the_very_same_question_is_exact(stack):
    """The exact cache is asked first."""
    forwards = Forwards(stack)
    await fill(stack, PASSWORD[0])
    made = len(forwards.texts)
    assert cache_of(await ask(stack, PASSWORD[0])) == "exact"
    assert len(forwards.texts) == made


async def test_a_question_that_only_looks_alike_goes_to_the_model(stack):
    """Another number, name, unit, direction or polarity is another question; why is told to the operator alone."""
    for one, _ in TRAPS.values():
        await fill(stack, one)
    for kind, (_, other) in TRAPS.items():
        answer = await ask(stack, other)
        assert cache_of(answer) == "miss", kind
        reason = (await stack.line())["semantic"]
        assert reason, kind
        assert not any(reason in value for value in answer.headers.values())
    assert asked(stack) == 2 * len(TRAPS)


async def test_responses_are_served_too(start):
    """`/v1/responses` has its own kept answers, which serve either form."""
    stack = await opened(await start({**semantic(), "models": {0: {"endpoints": ["chat", "responses"]}}}))

    async def respond(content, **fields):
        body = {"model": "small-model", "input": content, "temperature": 0, **fields}
        return await stack.client.post("/v1/responses", json=body, headers={"authorization": f"Bearer {KEY}"})

    first = await respond(PASSWORD[0])
    await settled(stack)
    found, streamed = await respond(PASSWORD[1]), await respond(PASSWORD[1], stream=True)
    assert (cache_of(found), cache_of(streamed)) == ("semantic", "semantic")
    text = first.json()["output"][0]["content"][0]["text"]
    assert found.json()["output"][0]["content"][0]["text"] == text
    assert "response.completed" in streamed.text
    assert cache_of(await ask(stack, PASSWORD[1])) == "miss"


async def test_many_who_ask_the_same_at_once_are_one_call(stack):
    """Fifty identical requests: one goes upstream, all have its answer; the next in other words is served."""
    answers = await asyncio.gather(*(ask(stack, PASSWORD[0], stream=number % 2 == 0) for number in range(50)))
    assert {cache_of(answer) for answer in answers} <= {"miss", "shared", "exact"}
    assert asked(stack) == 1
    assert all(said(answer) == said(answers[0]) for answer in answers)
    await settled(stack)
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"


async def test_many_who_ask_the_same_of_two_workers_at_once_are_one_call(start):
    """As above, whichever worker takes a request."""
    stack = await opened(await start(semantic(), workers=2))
    async with AsyncExitStack() as scope:
        wires = [await scope.enter_async_context(wire(stack.gateway.port)) for _ in range(50)]
        for one in wires:
            one.send(chat(PASSWORD[0], temperature=0))
        answers = [await one.answer() for one in wires]
    assert {cache_of(answer) for answer in answers} <= {"miss", "shared", "exact"}
    assert asked(stack) == 1


async def test_many_in_other_words_at_once_are_hits(stack):
    """What is kept is served to any number at once."""
    await fill(stack, PASSWORD[0])
    answers = await asyncio.gather(*(ask(stack, PASSWORD[1 + number % 2]) for number in range(30)))
    assert {cache_of(answer) for answer in answers} == {"semantic"}
    assert asked(stack) == 1


async def test_no_more_is_remembered_than_may_be_kept(start):
    """Beyond `max_entries` the oldest question goes, in memory as in the store."""
    stack = await opened(await start(semantic(max_entries=2)))
    for question in (PASSWORD[0], EGG[0], PLANTS[0]):
        await fill(stack, question)
    assert stack.gateway.parts.semantic.standing().entries == 2
    assert [cache_of(await ask(stack, question)) for question in (PASSWORD[1], PLANTS[1])] == ["miss", "semantic"]


# -- what has no part in it

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
PICTURE = [{"type": "text", "text": PASSWORD[1]}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]


def turns(*contents):
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]


NO_PLAIN_QUESTIONS = {
    "tools": {"tools": [TOOL]},
    "an image": {"messages": [{"role": "user", "content": PICTURE}]},
    "n": {"n": 2, "temperature": 0.5, "seed": 1},
    "hot": {"temperature": 1.3, "seed": 1},
    "logprobs": {"logprobs": True},
    "several turns": {"messages": turns("hello", "hi", PASSWORD[1])},
    "an answer begun": {"messages": [*turns(PASSWORD[1]), {"role": "assistant", "content": "You"}]},
}


async def test_what_is_no_plain_question_has_no_part_in_it(stack):
    """It goes to the model, neither looked up nor kept, and the embedder hears nothing of it."""
    await fill(stack, PASSWORD[0])
    forwards = Forwards(stack)
    for kind, fields in NO_PLAIN_QUESTIONS.items():
        answer = await fill(stack, PASSWORD[1], **fields)
        assert cache_of(answer) == "miss", kind
    assert forwards.texts == []
    found = await scrape(stack)
    assert total(found, "tiergate_semantic_entries") == 1
    assert total(found, "tiergate_cache_lookups_total", cache="semantic", result="bypass") == len(NO_PLAIN_QUESTIONS)


BOUND = [
    ("What is the weather like in Paris today?", "How is the weather in Paris today?"),
    ("What happened in the news this week?", "What has happened in the news this week?"),
    ("What time is it now in Tokyo?", "What is the time in Tokyo now?"),
    ("Write me a poem about the sea", "Write a poem about the sea for me"),
]


async def test_a_question_that_is_bound_to_a_time_or_a_whim_has_no_part_in_it(stack):
    """Neither kept nor served: the answer is to change while the words stay."""
    forwards = Forwards(stack)
    for one, other in BOUND:
        await fill(stack, one)
        assert cache_of(await fill(stack, other)) == "miss", one
    assert forwards.texts == []


async def test_questions_about_whoever_asks_may_be_left_out(start):
    """With `personal: skip` what is said of oneself is neither kept nor served."""
    stack = await opened(await start(semantic(personal="skip")))
    await fill(stack, PASSWORD[0])
    assert cache_of(await ask(stack, PASSWORD[1])) == "miss"
    await fill(stack, PLANTS[0])
    assert cache_of(await ask(stack, PLANTS[1])) == "semantic"


async def test_completions_and_embeddings_have_no_part_in_it(stack):
    """Prompts that are continued, and vectors, are never compared by meaning."""
    forwards = Forwards(stack)
    auth = {"authorization": f"Bearer {KEY}"}
    for path, field in (("/v1/completions", "prompt"), ("/v1/embeddings", "input")):
        for content in PASSWORD:
            body = {"model": "small-model", field: content, "temperature": 0}
            answer = await stack.client.post(path, json=body, headers=auth)
            assert cache_of(answer) == "miss"
            await settled(stack)
    assert forwards.texts == []
    assert total(await scrape(stack), "tiergate_semantic_entries") == 0


async def test_no_cache_asks_the_model_and_keeps_its_answer(stack):
    """A fresh answer replaces the one of the same question."""
    await fill(stack, PASSWORD[0])
    fresh = await fill(stack, PASSWORD[1], headers={"x-tiergate-cache": "no-cache"})
    assert cache_of(fresh) == "bypass"
    assert asked(stack) == 2
    assert total(await scrape(stack), "tiergate_semantic_entries") == 2


async def test_no_store_is_served_and_keeps_nothing(stack):
    """What is kept may be served to it; what a model makes for it is not kept."""
    await fill(stack, EGG[0], headers={"x-tiergate-cache": "no-store"})
    assert cache_of(await ask(stack, EGG[1])) == "miss"
    await fill(stack, PASSWORD[0])
    assert cache_of(await ask(stack, PASSWORD[1], headers={"x-tiergate-cache": "no-store"})) == "semantic"


async def test_only_if_cached_is_served_or_refused(stack):
    """A hit is a hit; without one no model is asked."""
    await fill(stack, PASSWORD[0])
    only = {"cache-control": "only-if-cached"}
    assert cache_of(await ask(stack, PASSWORD[1], headers=only)) == "semantic"
    refused = await ask(stack, EGG[0], headers=only)
    assert (refused.status_code, refused.json()["error"]["code"]) == (504, "not_cached")
    assert asked(stack) == 1


async def test_who_wants_no_old_answer_gets_none(stack):
    """`max-age` counts here too."""
    await fill(stack, PASSWORD[0])
    owner = stack.gateway.parts.semantic
    wall = owner._wall
    owner._wall = lambda: wall() + 100
    assert cache_of(await ask(stack, PASSWORD[1], headers={"cache-control": "max-age=60"})) == "miss"
    assert cache_of(await ask(stack, PASSWORD[2], headers={"cache-control": "max-age=1000"})) == "semantic"


async def test_a_conversation_takes_part_only_if_told_and_only_with_the_same_past(start):
    """With `multi_turn` the last question is compared where all that was said before is equal."""
    stack = await opened(await start(semantic(multi_turn=True)))
    past = ("I use the mobile app.", "Good to know.")
    await fill(stack, "", messages=turns(*past, PASSWORD[0]))
    assert cache_of(await ask(stack, "", messages=turns(*past, PASSWORD[1]))) == "semantic"
    assert cache_of(await ask(stack, "", messages=turns("I use the web site.", past[1], PASSWORD[1]))) == "miss"
    assert cache_of(await ask(stack, PASSWORD[2])) == "miss"


async def test_the_end_of_a_long_question_counts_byte_for_byte(stack):
    """What the embedder does not read must be equal."""
    paste = "Here is the log of my router. " * 40
    await fill(stack, f"{PASSWORD[0]} {paste} line A")
    assert cache_of(await ask(stack, f"{PASSWORD[0]} {paste} line B")) == "miss"


async def test_a_script_that_the_embedder_does_not_read_has_no_part_in_it(stack):
    """MiniLM maps all of Chinese onto nearly the same place."""
    forwards = Forwards(stack)
    await fill(stack, "如何重置我的密码？")
    assert cache_of(await fill(stack, "怎样重置我的密码？")) == "miss"
    assert forwards.texts == []


async def test_an_answer_that_is_no_plain_text_is_not_kept(start, tmp_path):
    """Cut, refused or made of tool calls: it serves nobody else."""
    stack = await opened(await start(semantic()))
    for marker in ("[[finish: length]] [[say: cut]]", "[[refuse: no]]", '[[tool: f {"a": 1}]]'):
        await fill(stack, f"{PASSWORD[0]} {marker}")
    assert total(await scrape(stack), "tiergate_semantic_entries") == 0


# -- isolation


CHANGES = [
    {"key": OTHER_KEY},
    {"model": "large-model"},
    {"messages": [{"role": "system", "content": "Answer in French."}, {"role": "user", "content": PASSWORD[1]}]},
    {"messages": [{"role": "user", "content": PASSWORD[1], "name": "bob"}]},
    {"max_tokens": 7},
    {"seed": 4},
    {"top_p": 0.5},
    {"temperature": 0.2, "seed": 1},
    {"response_format": {"type": "json_object"}},
    {"stop": ["x"]},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"reasoning_effort": "high"},
    {"model": "auto"},
    {"model": "auto", "headers": {"x-tiergate-tier": "small"}},
]


async def test_all_but_the_question_must_be_equal(stack):
    """Another tenant, model, system prompt or parameter is served nothing of it, not even for the very same words."""
    await fill(stack, PASSWORD[1])
    for change in CHANGES:
        assert cache_of(await fill(stack, PASSWORD[1], **change)) == "miss", change
    assert asked(stack) == 1 + len(CHANGES)


async def test_what_changes_no_answer_changes_no_partition(stack):
    """The fields that the exact key leaves out are left out here too."""
    await fill(stack, PASSWORD[0])
    for change in ({"user": "u1"}, {"metadata": {"a": "b"}}, {"store": False}, {"stream": True}):
        assert cache_of(await ask(stack, PASSWORD[1], **change)) == "semantic", change


async def test_another_version_of_a_model_serves_nothing_old(start, tmp_path):
    """After a restart with another version what was kept is not served; with the same one it is."""
    for version, expected in (("1", "miss"), ("1", "semantic"), ("2", "miss"), ("2", "semantic"), ("1", "semantic")):
        stack = await opened(await start({**semantic(), "models": {0: {"version": version}}}))
        answer = await fill(stack, PASSWORD[0] if expected == "miss" else PASSWORD[1])
        assert cache_of(answer) == expected, version
        await stack.gateway.stop()


async def test_a_tenant_without_it_is_not_part_of_it(start):
    """It is on for one tenant only: the other's questions are neither kept nor served."""
    own = {"tenants": {0: {"cache": {"semantic": True}}}}
    stack = await opened(await start({**semantic(enabled=False), **own}))
    for key, expected in ((OTHER_KEY, "miss"), (KEY, "semantic")):
        await fill(stack, PASSWORD[0], key=key)
        assert cache_of(await ask(stack, PASSWORD[1], key=key)) == expected


async def test_the_examples_tenant_is_served_without_naming_a_temperature(start):
    """Who copies the example's line for a tenant has hits for ordinary requests, in the same words and in others."""
    example = yaml.safe_load((Path(__file__).parents[2] / "config.yaml").read_text())
    own = {"tenants": {0: {"cache": example["tenants"][0]["cache"]}}}
    stack = await opened(await start({**semantic(enabled=False), **own}))
    assert cache_of(await stack.chat(PASSWORD[0])) == "miss"
    await settled(stack)
    assert [cache_of(await stack.chat(content)) for content in PASSWORD[:2]] == ["exact", "semantic"]


async def test_a_shared_scope_serves_what_enough_of_its_tenants_asked(start):
    """Until so many have asked it nobody learns from a hit that somebody else has; a tenant's own answers serve it at once."""
    team = {"tenants": {0: {"cache": {"scope": "team"}}, 1: {"cache": {"scope": "team"}}}}
    stack = await opened(await start({**semantic(askers=2), **team}))
    await fill(stack, PASSWORD[0])
    assert cache_of(await ask(stack, PASSWORD[2])) == "semantic"
    assert cache_of(await fill(stack, PASSWORD[0], key=OTHER_KEY, headers={"x-tiergate-cache": "no-cache"})) == "bypass"
    assert cache_of(await ask(stack, PASSWORD[1], key=OTHER_KEY)) == "semantic"


async def test_a_cut_of_ones_own_decides(start):
    """What a preset would serve, a higher cut does not; the same in other words passes both."""
    stain = "How do I remove a wine stain from a carpet?", "What removes wine stains from carpets?"
    for cut, expected in ((None, "semantic"), (0.9, "miss")):
        stack = await opened(await start(semantic(cut=cut)))
        for one in (PASSWORD[0], stain[0]):
            await fill(stack, one)
        found = [cache_of(await ask(stack, other, headers={"x-tiergate-cache": "no-store"})) for other in (PASSWORD[1], stain[1])]
        assert found == ["semantic", expected]
        await stack.gateway.stop()


# -- what the operator sees


async def test_ready_tells_of_the_store(stack):
    """Its body has a word for the semantic cache; its status does not depend on it."""
    ready = await stack.client.get("/ready")
    assert (ready.status_code, ready.json()["semantic_cache"]) == (200, "ok")


async def test_the_admin_sees_how_it_stands(stack):
    """Entries, labels, bounds, embedder, store: for the operator alone."""
    await fill(stack, PASSWORD[0])
    told = await stack.client.get("/admin/cache", headers={"authorization": f"Bearer {ADMIN_KEY}"})
    found = told.json()["semantic"]
    assert (found["entries"], found["partitions"], found["labels"], found["store"]) == (1, 1, 0, "ok")
    assert (await stack.client.get("/admin/cache", headers={"authorization": f"Bearer {KEY}"})).status_code in {401, 403}


async def test_every_family_is_there_from_the_start(stack):
    """Dashboards find them before the first hit."""
    page = (await stack.client.get("/metrics")).text
    for name in ("semantic_entries", "semantic_error_ratio", "semantic_scopes_off", "semantic_verified_total"):
        assert f"# TYPE tiergate_{name.removesuffix('_total')}" in page, name


async def test_a_script_of_answers_reaches_the_client_unchanged(start, tmp_path):
    """What is served is what the model said to the other question, byte for byte."""
    fakes = {"s1": scripted(tmp_path, {"password": "Ünïcode — 100 % «ok»"}), "l1": Options()}
    stack = await opened(await start(semantic(), fakes=fakes))
    await fill(stack, PASSWORD[0])
    found = await ask(stack, PASSWORD[1])
    assert found.json()["choices"][0]["message"]["content"] == "Ünïcode — 100 % «ok»"
    assert len(posts(stack.small)) == 1


async def test_a_tenants_ttl_bounds_what_is_served_by_meaning(start):
    """Who says how long answers live says it of both caches; the section's own `ttl` counts where it is shorter."""
    stack = await start({**semantic(ttl="1h"), "tenants": {0: {"cache": {"ttl": "20s"}}}})
    await opened(stack)
    await fill(stack, PASSWORD[0])
    [point] = [point for batch in [b async for b in stack.gateway.parts.semantic.store.scan()] for point in batch]
    assert point.expires_at - point.stored_at == pytest.approx(20, abs=0.01)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"n": 2, "temperature": 0.5, "seed": 1}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"temperature": 1.9, "seed": 1}, "temperature"),
    ],
)
async def test_what_is_not_eligible_says_why_on_its_line(start, body, reason):
    """The operator reads on the log why a question had no part in it."""
    stack = await opened(await start(semantic(max_temperature=1.0)))
    answer = await ask(stack, PASSWORD[0], **body)
    assert answer.status_code == 200
    assert (await stack.line())["semantic"] == reason
