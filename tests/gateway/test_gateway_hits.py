"""What answers cost that no model made for the request that gets them: kept ones, ones that mean the same, shared ones."""

import asyncio

import pytest
from gateway_talk import GREEDY, ask, chat, freeze_limits, hold, lines, posts, remaining, usage
from semantic_talk import PASSWORD, fill, opened, semantic, settled
from semantic_talk import ask as ask_question

RPM, TPM = 100, 100_000
LIMITED = {"plans": {"pro": {"priority": "realtime", "rpm": RPM, "tpm": TPM}}}
COSTS = pytest.mark.parametrize("requests", [True, False], ids=["a request", "no request"])
CHARGED = pytest.mark.parametrize("tokens", [True, False], ids=["its tokens", "no tokens"])


def costing(*, requests, tokens):
    """The config in which hits cost so much."""
    return LIMITED | {"limits": {"hits": {"requests": requests, "tokens": tokens}}}


def left(answer):
    """Requests and tokens that remain, as an answer tells."""
    return [int(answer.headers[f"x-ratelimit-remaining-{name}"]) for name in ("requests", "tokens")]


@COSTS
@CHARGED
async def test_a_kept_answer(start, requests, tokens):
    """Its headers tell what it cost: a request or none, its tokens when it was made or none. The log says the same."""
    stack = await start(costing(requests=requests, tokens=tokens))
    freeze_limits(stack)
    spent = usage(await ask(stack, chat(**GREEDY)))["total_tokens"]
    await stack.until(stack.idle)
    for count, stream in ((1, False), (2, True)):
        hit = await ask(stack, chat(**GREEDY, stream=stream))
        assert hit.headers["x-tiergate-cache"] == "exact"
        assert left(hit) == [RPM - 1 - count * requests, TPM - spent - count * spent * tokens]
    await stack.until(stack.idle)
    assert await remaining(stack) == TPM - spent - 2 * spent * tokens
    charged = [line["charged_tokens"] for line in (await lines(stack, 3))[:3]]
    assert charged == [spent, spent * tokens, spent * tokens]
    assert len(posts(stack.small)) == 1


@pytest.mark.usefixtures("one_model")
async def test_an_answer_to_a_question_that_means_the_same(start):
    """Costs what a kept answer costs."""
    stack = await opened(await start(semantic() | costing(requests=False, tokens=True)))
    freeze_limits(stack)
    spent = usage(await fill(stack, PASSWORD[0]))["total_tokens"]
    before = left(await ask(stack, chat(model="no-such-model")))
    hit = await ask_question(stack, PASSWORD[1])
    assert hit.headers["x-tiergate-cache"] == "semantic"
    assert left(hit) == [before[0], before[1] - spent]
    await settled(stack)


@pytest.mark.parametrize(("requests", "tokens"), [(True, False), (False, True)], ids=["a request", "its tokens"])
@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_an_answer_that_is_shared(start, requests, tokens, stream):
    """Each who joined an identical request in flight pays at the end what it paid; one who leaves before it pays a request."""
    stack = await start(costing(requests=requests, tokens=tokens))
    freeze_limits(stack)
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, chat(**GREEDY, stream=stream))) for _ in range(4)]
    await stack.until(lambda: [len(flight.readers) for flight in stack.gateway.parts.flights._flights.values()] == [4])
    tasks[3].cancel()
    await asyncio.gather(tasks[3], return_exceptions=True)
    wake()
    answers = await asyncio.gather(*tasks[:3])
    assert sorted(answer.headers["x-tiergate-cache"] for answer in answers) == ["miss", "shared", "shared"]
    await stack.until(stack.idle)
    spent = posts(stack.small)[0].prompt_tokens + posts(stack.small)[0].tokens
    found = left(await ask(stack, chat(model="no-such-model")))
    assert found == [RPM - 1 - 2 * requests - 1 - 1, TPM - spent - 2 * spent * tokens]
    charged = sorted(line["charged_tokens"] for line in (await lines(stack, 5))[:4])
    assert charged == sorted([spent, spent * tokens, spent * tokens, 0])


async def test_a_hit_that_costs_tokens_is_never_refused_for_them(start):
    """It makes a debt, which the next request waits for."""
    stack = await start({"plans": {"pro": {"tpm": 60}}, "limits": {"hits": {"tokens": True}}})
    clock = freeze_limits(stack)
    spent = usage(await ask(stack, chat("[[tokens: 30]]", **GREEDY)))["total_tokens"]
    await stack.until(stack.idle)
    for _ in range(3):
        hit = await ask(stack, chat("[[tokens: 30]]", **GREEDY))
        assert (hit.status_code, hit.headers["x-tiergate-cache"]) == (200, "exact")
    assert hit.headers["x-ratelimit-remaining-tokens"] == "0"
    refused = await ask(stack, chat("other", max_tokens=1))
    assert refused.status_code == 429
    assert int(refused.headers["retry-after-ms"]) / 1000 > 4 * spent - 60
    clock.advance(int(refused.headers["retry-after-ms"]) / 1000)
    assert (await ask(stack, chat("other", max_tokens=1))).status_code == 200


async def test_a_request_that_is_given_back_is_needed_to_be_let_in(start):
    """With hits that cost no request, kept answers go on as long as one is left; who has none is refused before any look."""
    stack = await start({"plans": {"pro": {"rpm": 2}}, "limits": {"hits": {"requests": False}}})
    freeze_limits(stack)
    assert (await ask(stack, chat(**GREEDY))).status_code == 200
    await stack.until(stack.idle)
    for _ in range(5):
        assert (await ask(stack, chat(**GREEDY))).headers["x-tiergate-cache"] == "exact"
    assert (await ask(stack, chat("other"))).status_code == 200
    assert (await ask(stack, chat(**GREEDY))).status_code == 429
