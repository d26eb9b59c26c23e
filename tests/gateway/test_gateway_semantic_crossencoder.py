"""A cross-encoder as the verifier: what is nearly alike is served with its yes only."""

import pytest
import tiny_onnx
from gateway_talk import said
from semantic_talk import EGG, NEAR, PASSWORD, TRAPS, ask, asked, cache_of, fill, opened, semantic

pytestmark = pytest.mark.usefixtures("one_model")

YES, NO = 4.0, -4.0


def verifying(folder, logit, about=None, **own):
    verifier = {"kind": "onnx", "path": str(tiny_onnx.steady(folder / "cross", logit, **(about or {}))), "deadline": "20s", **own}
    return semantic(verifier=verifier)


async def test_a_yes_serves_what_is_nearly_alike(start, tmp_path):
    """The kept answer, with an id and no call of a model; feedback on it counts."""
    stack = await opened(await start(verifying(tmp_path, YES)))
    first = await fill(stack, NEAR[0])
    hit = await ask(stack, NEAR[1])
    assert (cache_of(hit), said(hit)) == ("semantic", said(first))
    assert hit.headers["x-tiergate-cache-id"].startswith("cs-")
    assert asked(stack) == 1


async def test_a_no_is_a_miss(start, tmp_path):
    """The model answers, and the log says who objected."""
    stack = await opened(await start(verifying(tmp_path, NO)))
    await fill(stack, NEAR[0])
    answer = await ask(stack, NEAR[1])
    assert answer.headers["x-tiergate-cache"] == "miss"
    assert (await stack.line())["semantic"] == "verifier"
    assert asked(stack) == 2


async def test_what_is_sure_is_not_put_to_it(start, tmp_path):
    """Its no does not keep a paraphrase from being served."""
    stack = await opened(await start(verifying(tmp_path, NO)))
    await fill(stack, PASSWORD[0])
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"


async def test_what_is_hopeless_is_not_put_to_it(start, tmp_path):
    """Nor does its yes serve a trap."""
    stack = await opened(await start(verifying(tmp_path, YES)))
    await fill(stack, EGG[0])
    assert cache_of(await ask(stack, "How many litres are in 5 gallons?")) == "miss"
    await fill(stack, TRAPS["number"][0])
    assert cache_of(await ask(stack, TRAPS["number"][1])) == "miss"


@pytest.mark.parametrize(("logit", "expected"), [(YES, "semantic"), (NO, "miss")])
async def test_it_may_be_asked_about_every_hit(start, tmp_path, logit, expected):
    """With `ask: all` what would be served for sure must be confirmed as well."""
    stack = await opened(await start(verifying(tmp_path, logit, ask="all")))
    await fill(stack, PASSWORD[0])
    assert cache_of(await ask(stack, PASSWORD[1])) == expected


async def test_the_threshold_may_be_the_operators(start, tmp_path):
    """0.98 sure is not enough for whoever wants 0.99."""
    stack = await opened(await start(verifying(tmp_path, YES, threshold=0.99)))
    await fill(stack, NEAR[0])
    assert cache_of(await ask(stack, NEAR[1])) == "miss"


async def test_one_that_cannot_be_run_is_a_miss_with_a_reason(start, tmp_path):
    """The gateway starts, serves what is sure, and says why it does not serve what is doubtful."""
    config = verifying(tmp_path, YES)
    (tmp_path / "cross" / "model.onnx").write_bytes(b"no model")
    stack = await opened(await start(config))
    await fill(stack, NEAR[0])
    await fill(stack, PASSWORD[0])
    assert (await ask(stack, NEAR[1])).headers["x-tiergate-cache"] == "miss; reason=verifier-failed"
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"


async def test_one_that_speaks_nonsense_is_left_alone(start, tmp_path):
    """Doubtful questions are misses, for what it said and then for the breaker; nothing else changes."""
    stack = await opened(await start(verifying(tmp_path, YES)))

    def scores(pairs):
        raise ValueError("tiny said nan, which is no probability")

    stack.gateway.parts.semantic.verifier._running._model.scores = scores
    await fill(stack, NEAR[0])
    answers = [await ask(stack, f"{NEAR[1]} {'!' * n}", headers={"x-tiergate-cache": "no-store"}) for n in range(4)]
    told = [answer.headers["x-tiergate-cache"] for answer in answers]
    assert told == ["miss; reason=no-store,-verifier-failed"] * 3 + ["miss; reason=no-store,-verifier-breaker"]
    assert asked(stack) == 5
