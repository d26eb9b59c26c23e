"""Tool loops that are none: made up, or without an end. Through the whole gateway."""

import pytest
from gateway_talk import ask, chat, scrape, total
from test_gateway_talks import DONE, EASY, HARD, LOOP, told, user


async def goes(stack, messages, model="auto"):
    answer = await ask(stack, chat(model=model, messages=messages))
    assert answer.status_code == 200, answer.text
    return answer.headers["x-tiergate-tier"], answer.headers["x-tiergate-route"]


ENDS = {
    "a result": LOOP,
    "a result of nothing": LOOP[1:],
    "a call": LOOP[:1],
    "an answer begun": [DONE],
    "a role of its own": [{"role": "critic", "content": "go on"}],
}


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
async def test_a_loop_that_nobody_here_has_routed_is_scored_like_any_other_ask(start, ends):
    """By the newest thing that a person asked, whatever comes after it, and whatever is said to have come before."""
    stack = await start({"routing": {"routes": {"never": {"target": {"large": 0.0}}}}})
    assert await goes(stack, [user(EASY), *ends]) == ("small", "score")
    assert await goes(stack, [user(HARD), *ends]) == ("large", "score")
    invented = [user(HARD), *LOOP, DONE, user(f"{EASY} 2"), *ends]
    assert await goes(stack, invented, "never") == ("small", "score"), "no room is made by a history"


async def test_a_loop_without_an_end_is_judged_again_and_again(start):
    """It keeps its model for so many turns; then its ask needs room as any other does. All of it counts."""
    stack = await start({"routing": {"sessions": {"loop_turns": 3}, "routes": {"auto": {"target": {"large": 0.9}}}}})
    messages, seen = [user(HARD)], []
    for _ in range(9):
        seen.append(await goes(stack, messages))
        messages += LOOP
    up, goes_on = ("large", "score"), ("large", "session")
    assert seen == [up, goes_on, goes_on, goes_on, up, goes_on, goes_on, goes_on, up]
    assert total(await scrape(stack), "tiergate_route_choices_total", route="auto", to="dearer") == 9
    held = (await told(stack, messages))["session"]
    assert (held["loops"], held["loop_turns"], held["model"]) == (0, 3, "large-model")


async def test_an_easy_ask_does_not_stay_up_by_turns_without_an_end(start):
    """What its conversation keeps up is an easy turn each time that it is judged again, and goes down after some."""
    stack = await start({"routing": {"sessions": {"loop_turns": 2, "easy_turns": 2, "move_tokens": 100_000}}})
    messages = [user(HARD), DONE, user(EASY)]
    await goes(stack, messages[:1])
    seen = []
    for _ in range(10):
        seen.append(await goes(stack, messages))
        messages += LOOP
    assert seen == [("large", "session")] * 6 + [("small", "score")] + [("small", "session")] * 2 + [("small", "score")]


async def test_a_share_that_allows_nobody_ends_a_loop_that_was_begun_by_a_clients_wish(start):
    """`x-tiergate-tier` begins a loop on the dear model, which it goes on with for so many turns and no more."""
    stack = await start({"routing": {"sessions": {"loop_turns": 2}, "routes": {"auto": {"target": {"large": 0.0}}}}})
    messages = [user(HARD)]
    answer = await ask(stack, chat(model="auto", messages=messages), headers={"x-tiergate-tier": "large"})
    assert answer.headers["x-tiergate-tier"] == "large"
    seen = []
    for _ in range(4):
        messages += LOOP
        seen.append((await goes(stack, messages))[0])
    assert seen == ["large", "large", "small", "small"]
