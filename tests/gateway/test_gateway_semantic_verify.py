"""Served answers that are checked: in the shadow of requests, by a judge, by a verifier; and what the cache makes of it."""

import asyncio
from math import inf

import pytest
from gateway_talk import KEY, freeze_limits, hold, posts, remaining, said, scrape, total
from semantic_talk import EGG, NEAR, PASSWORD, PLANTS, ask, asked, cache_of, fill, opened, scripted, semantic, settled

from gateway.lab.fake import Options
from gateway.verify import yes_or_no

pytestmark = pytest.mark.usefixtures("one_model")

ALWAYS = {"share": 1.0, "per_minute": 1000}
OLD, OTHER = "The capital of France is Paris.", "Photosynthesis needs light, water and carbon dioxide."
ALIKE = "You reset it on the settings page, under security.", "Open the settings, go to security and follow the steps there."
"""One and the same for whoever reads it, but nothing that a comparison of vectors would swear to."""


def saying(folder, *answers):
    """A small model that answers the wordings of a question each in its own way."""
    return scripted(folder, dict(zip(("How do I", "How can I", "What do I have"), answers, strict=False)))


def judging(folder, word):
    """A large model that says one word, whatever it is asked."""
    return scripted(folder, {"": word})


async def verified(stack):
    found = await scrape(stack)
    return {word: total(found, "tiergate_semantic_verified_total", result=word) for word in ("right", "wrong", "unknown")}


# -- in the shadow


async def test_an_answer_that_is_shown_right_becomes_an_exact_one(start, tmp_path):
    """The model says the same to the other question: the next such request needs no embedding, and is as old as the answer."""
    stack = await opened(await start(semantic(shadow=ALWAYS), fakes={"s1": saying(tmp_path, OLD, OLD), "l1": Options()}))
    await fill(stack, PASSWORD[0])
    assert cache_of(await fill(stack, PASSWORD[1])) == "semantic"
    assert await verified(stack) == {"right": 1, "wrong": 0, "unknown": 0}
    again = await ask(stack, PASSWORD[1], stream=True)
    assert cache_of(again) == "exact"
    assert said(again)[0]["content"] == OLD
    assert asked(stack) == 2


async def test_an_answer_that_is_shown_wrong_is_refused_and_replaced(start, tmp_path):
    """The model says something else: its own answer takes the place, under its own counts, and serves other words too."""
    fakes = {"s1": saying(tmp_path, OLD, OTHER, OTHER), "l1": Options()}
    stack = await opened(await start(semantic(shadow=ALWAYS), fakes=fakes))
    first = await fill(stack, PASSWORD[0])
    hit = await fill(stack, PASSWORD[1])
    assert (cache_of(hit), said(hit)) == ("semantic", said(first))
    assert await verified(stack) == {"right": 0, "wrong": 1, "unknown": 0}
    again = await ask(stack, PASSWORD[1])
    assert (cache_of(again), said(again)[0]["content"]) == ("exact", OTHER)
    assert again.headers["x-tiergate-cache-id"].startswith("ce-")
    standing = stack.gateway.parts.semantic.standing()
    assert (standing.entries, standing.labels, standing.wrong) == (2, 1, 1)
    other_words = await ask(stack, PASSWORD[1].removesuffix("?"))
    assert (cache_of(other_words), said(other_words)[0]["content"]) == ("semantic", OTHER)


@pytest.mark.parametrize(("word", "counted"), [("Yes.", "right"), ("no", "wrong"), ("perhaps", "unknown")])
async def test_a_judge_is_asked_where_nothing_cheaper_can_tell(start, tmp_path, word, counted):
    """One word of a model of the operator's decides; another word than yes or no is nothing."""
    fakes = {"s1": saying(tmp_path, *ALIKE), "l1": judging(tmp_path, word)}
    stack = await opened(await start(semantic(shadow={**ALWAYS, "judge": "large-model"}), fakes=fakes))
    await fill(stack, PASSWORD[0])
    assert cache_of(await fill(stack, PASSWORD[1])) == "semantic"
    assert (await verified(stack))[counted] == 1
    [call] = posts(stack.large)
    assert (call.body["max_tokens"], call.body["temperature"]) == (1, 0)
    assert all(answer in call.body["messages"][-1]["content"] for answer in ALIKE)


async def test_without_a_judge_what_cannot_be_told_is_no_label(start, tmp_path):
    """It is counted as unknown, and the pair goes on being served."""
    stack = await opened(await start(semantic(shadow=ALWAYS), fakes={"s1": saying(tmp_path, *ALIKE), "l1": Options()}))
    await fill(stack, PASSWORD[0])
    await fill(stack, PASSWORD[1])
    assert await verified(stack) == {"right": 0, "wrong": 0, "unknown": 1}
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"


async def test_what_was_nearly_served_is_compared_for_nothing(start, tmp_path):
    """The model was asked anyway: what it says is a label for the neighbour, at no further call."""
    fakes = {"s1": scripted(tmp_path, {"iron": OLD}), "l1": Options()}
    stack = await opened(await start(semantic(shadow=ALWAYS, max_error=0.05), fakes=fakes))
    await fill(stack, NEAR[0])
    assert cache_of(await fill(stack, NEAR[1])) == "miss"
    assert asked(stack) == 2
    assert (await verified(stack))["right"] == 1


async def test_a_scope_that_is_off_goes_on_being_compared(start, tmp_path):
    """While a scope serves nothing the model is asked anyway: what it says is a label for the neighbour, at no further call."""
    fakes = {"s1": saying(tmp_path, OLD, OLD), "l1": Options()}
    stack = await opened(await start(semantic(shadow=ALWAYS, max_error=0.02), fakes=fakes))
    owner = stack.gateway.parts.semantic
    for _ in range(300):
        owner.evidence.learn("t:acme", 0.99, right=False)
    await fill(stack, PASSWORD[0])
    assert cache_of(await fill(stack, PASSWORD[1])) == "miss"
    assert asked(stack) == 2
    assert (await verified(stack))["right"] == 1


async def test_the_shadow_is_on_nobodys_account(start, tmp_path):
    """Neither tokens nor requests of the tenant are spent, its log has no line more, and it waits behind everybody."""
    stack = await opened(
        await start(
            {**semantic(shadow=ALWAYS), "tenants": {0: {"tpm": 100_000, "rpm": 1000}}},
            fakes={"s1": saying(tmp_path, OLD, OTHER), "l1": Options()},
        )
    )
    freeze_limits(stack)
    await fill(stack, PASSWORD[0])
    left = await remaining(stack)
    lines = len(stack.log.lines)
    hit = await fill(stack, PASSWORD[1])
    assert cache_of(hit) == "semantic"
    assert len(posts(stack.small)) == 2
    assert await remaining(stack) == left
    assert len(stack.log.lines) == lines + 2  # the hit, and the request that asked what remains


async def test_the_shadow_has_a_budget(start, tmp_path):
    """So many questions a minute, however many hits there are."""
    shadow = {"share": 1.0, "per_minute": 2}
    stack = await opened(await start(semantic(shadow=shadow), fakes={"s1": saying(tmp_path, *ALIKE), "l1": Options()}))
    stack.gateway.parts.edge._pipeline.answers.similar._shadow._budget.clock = lambda: 0.0
    stack.gateway.parts.edge._pipeline.answers.similar._shadow._budget.at = 0.0
    await fill(stack, PASSWORD[0])
    for _ in range(5):
        assert cache_of(await fill(stack, PASSWORD[1])) == "semantic"
    assert len(posts(stack.small)) == 3


async def test_a_client_waits_for_no_shadow(start, tmp_path):
    """A hit is served while the model that would verify it hangs."""
    stack = await opened(await start(semantic(shadow=ALWAYS), fakes={"s1": saying(tmp_path, OLD, OLD), "l1": Options()}))
    await fill(stack, PASSWORD[0])
    wake = hold(stack.small)
    answers = await asyncio.gather(*(ask(stack, PASSWORD[1]) for _ in range(5)))
    assert {cache_of(answer) for answer in answers} == {"semantic"}
    wake()
    await settled(stack)


# -- the verifier


def asking(word, folder, **own):
    verifier = {"model": "large-model", "deadline": "20s", **own}
    return semantic(verifier=verifier), {"s1": Options(), "l1": judging(folder, word)}


async def test_a_verifier_decides_on_what_is_nearly_alike(start, tmp_path):
    """Asked one word about both questions, a yes serves the answer; it is on no balance, and feedback on it counts."""
    config, fakes = asking("Yes", tmp_path)
    stack = await opened(await start({**config, "tenants": {0: {"tpm": 100_000}}}, fakes=fakes))
    freeze_limits(stack)
    first = await fill(stack, NEAR[0])
    left = await remaining(stack)
    hit = await ask(stack, NEAR[1])
    assert (cache_of(hit), said(hit)) == ("semantic", said(first))
    [call] = posts(stack.large)
    assert all(question in call.body["messages"][-1]["content"] for question in NEAR)
    assert (call.body["max_tokens"], call.body["temperature"]) == (1, 0)
    assert await remaining(stack) == left
    assert (await stack.line())["prompt_tokens"] == 0
    complaint = {"request_id": hit.headers["x-request-id"], "score": 0}
    told = await stack.client.post("/v1/feedback", json=complaint, headers={"authorization": f"Bearer {KEY}"})
    assert told.json()["applied"] is True
    assert cache_of(await ask(stack, NEAR[1])) == "miss"
    assert len(posts(stack.large)) == 1


@pytest.mark.parametrize("said", ["yes", "Yes", " YES.\n", '"yes"', "**Yes**", "`yes`", "(yes)", "是。"])
def test_a_yes_is_that_word(said):
    """In any case, and whatever stands around it that is no word."""
    assert yes_or_no(said) is True


@pytest.mark.parametrize(
    "said", ["Yes and no: the answers differ.", "YESYESYES", "yesterday", "yes yes", "yes, but", "是不是", "", "?", "Nothing"]
)
def test_more_than_a_word_says_nothing(said):
    """What only begins like a yes is none, and what begins like a no is none either."""
    assert yes_or_no(said) is None


@pytest.mark.parametrize("word", ["No", "Maybe", "", "YESYESYES", "The answer is yes, but"])
async def test_another_word_than_yes_is_a_miss(start, tmp_path, word):
    """A no, and whatever is neither yes nor no."""
    config, fakes = asking(word, tmp_path)
    stack = await opened(await start(config, fakes=fakes))
    await fill(stack, NEAR[0])
    assert cache_of(await ask(stack, NEAR[1])) == "miss"
    assert len(posts(stack.large)) == 1


@pytest.mark.parametrize(
    ("fault", "deadline", "reason"),
    [
        ({"status": 500}, "20s", "failed"),
        ({"status": 429}, "20s", "failed"),
        ({"status": 200, "body": "<html>"}, "20s", "failed"),
        ({"status": 200, "body": '{"choices": []}'}, "20s", "failed"),
        ({"hang_before_headers": 60}, "200ms", "timeout"),
    ],
    ids=str,
)
@pytest.mark.parametrize("about", ["grey", "all"])
async def test_a_verifier_that_fails_is_a_miss_with_a_reason(start, tmp_path, fault, deadline, reason, about):
    """Dead, slow or speaking nonsense: the model answers, and after a few times nobody asks the verifier for a while."""
    config, fakes = asking("Yes", tmp_path, deadline=deadline, ask=about)
    stack = await opened(await start(config, fakes=fakes))
    stack.large.faults.add(**fault)
    one, other = NEAR if about == "grey" else PASSWORD[:2]
    await fill(stack, one)
    async with asyncio.timeout(20):
        for n in range(3):
            answer = await ask(stack, f"{other} {'!' * n}", headers={"x-tiergate-cache": "no-store"})
            assert answer.headers["x-tiergate-cache"] == f"miss; reason=no-store,-verifier-{reason}"
        stack.gateway.parts.edge._pipeline.answers.similar._verify._inner._breakers["large-model"].open_until = inf
        assert (await ask(stack, other)).headers["x-tiergate-cache"] == "miss; reason=verifier-breaker"
    await settled(stack)


async def test_a_clients_deadline_is_the_verifiers_too(start, tmp_path):
    """A verifier that hangs leaves half of what the client waits to the model."""
    config, fakes = asking("Yes", tmp_path, deadline="60s")
    stack = await opened(await start(config, fakes=fakes))
    stack.large.faults.add(hang_before_headers=60)
    await fill(stack, NEAR[0])
    assert cache_of(await ask(stack, NEAR[1], headers={"x-tiergate-deadline-ms": "6000"})) == "miss"


async def test_a_verifier_is_not_asked_about_what_is_sure_or_hopeless(start, tmp_path):
    """With `ask: grey` neither a paraphrase nor a trap costs a question."""
    config, fakes = asking("No", tmp_path)
    stack = await opened(await start(config, fakes=fakes))
    await fill(stack, PASSWORD[0])
    await fill(stack, EGG[0])
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"
    assert cache_of(await ask(stack, "How many litres are in 5 gallons?")) == "miss"
    assert len(posts(stack.large)) == 0


@pytest.mark.parametrize(("word", "expected"), [("Yes", "semantic"), ("No", "miss")])
async def test_a_verifier_may_be_asked_about_every_hit(start, tmp_path, word, expected):
    """With `ask: all` what would be served for sure must be confirmed as well, and so must what is nearly alike."""
    config, fakes = asking(word, tmp_path, ask="all")
    stack = await opened(await start(config, fakes=fakes))
    for one, other in (PASSWORD[:2], NEAR):
        await fill(stack, one)
        assert cache_of(await ask(stack, other, headers={"x-tiergate-cache": "no-store"})) == expected
    assert len(posts(stack.large)) == 2


# -- the bound


async def test_a_bound_that_is_passed_turns_the_cache_off_and_on_again(start):
    """With `max_error` a scope that was shown wrong too often serves nothing; once it was shown right often enough it does."""
    stack = await opened(await start(semantic(max_error=0.02)))
    owner = stack.gateway.parts.semantic
    await fill(stack, PASSWORD[0])
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"
    for number in range(300):
        owner.evidence.learn("t:acme", 0.6 + number / 1000, right=number % 3 > 0)
    await fill(stack, PLANTS[0])
    off = await ask(stack, PLANTS[1], headers={"x-tiergate-cache": "no-store"})
    assert cache_of(off) == "miss"
    assert total(await scrape(stack), "tiergate_semantic_scopes_off") == 1
    for _ in range(2000):
        owner.evidence.learn("t:acme", 0.98, right=True)
    assert cache_of(await ask(stack, PLANTS[1])) == "semantic"
    found = await scrape(stack)
    assert total(found, "tiergate_semantic_scopes_off") == 0
    assert total(found, "tiergate_semantic_error_ratio", bound="high") < 0.02


async def test_labels_of_one_tenant_tighten_its_own_scope_first(start):
    """Whoever has enough labels of his own is judged by them."""
    stack = await opened(await start(semantic(max_error=0.02)))
    owner = stack.gateway.parts.semantic
    for _ in range(400):
        owner.evidence.learn("t:acme", 0.99, right=True)
        owner.evidence.learn("t:globex", 0.99, right=False)
    for key, expected in ((KEY, "semantic"), ("tg-test-key-of-globex", "miss")):
        await fill(stack, PASSWORD[0], key=key)
        assert cache_of(await ask(stack, PASSWORD[1], key=key)) == expected
