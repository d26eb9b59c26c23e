"""Conversations through the whole gateway: which tier a turn goes to, and what the next one finds."""

import asyncio

import pytest
from gateway_talk import ADMIN_KEY, KEY, OTHER_KEY, ask, chat, posts, scrape, total

from gateway.lab.fake import Options

HARD = (
    "Prove by induction that the algorithm terminates, derive its worst-case complexity step by step, and refactor the "
    "following function so that it must never allocate:\n```python\ndef f(x):\n    return x\n```"
)
EASY = "What is the capital of France?"
PROOF = "Prove by contradiction that the square root of 3 is irrational."
CALL = {"id": "c1", "type": "function", "function": {"name": "sh", "arguments": "{}"}}


def user(text):
    return {"role": "user", "content": text}


DONE = {"role": "assistant", "content": "Done."}
LOOP = [{"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "exit 0"}]


class Conversation:
    """Asks turn after turn, as a client that sends all of it each time; `turn` tells where that went."""

    def __init__(self, stack, *, key=KEY, session=None, **fields):
        self.stack, self.key, self.fields = stack, key, fields
        self.headers = {"x-tiergate-session": session} if session else {}
        self.messages = []

    async def turn(self, text):
        self.messages.append(user(text))
        where = await self.send()
        self.messages.append(DONE)
        return where

    async def send(self, *more):
        body = chat(model="auto", messages=[*self.messages, *more], **self.fields)
        answer = await ask(self.stack, body, key=self.key, headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.headers["x-tiergate-tier"], answer.headers["x-tiergate-route"]


async def told(stack, messages, **how):
    """The route of a request that is not sent."""
    question = {"tenant": "acme", "endpoint": "chat", "body": chat(model="auto", messages=messages), "headers": {}, **how}
    answer = await stack.client.post(
        f"{stack.url}/admin/explain", json=question, headers={"authorization": f"Bearer {ADMIN_KEY}"}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["route"]


@pytest.mark.parametrize("session", [None, "s-1"], ids=["by itself", "named"])
async def test_easy_turns_of_hard_work_stay_until_there_were_several(start, session):
    """Up at once, three easy turns stay, the fourth goes down; every line of the log and the metrics say why."""
    stack = await start()
    talk = Conversation(stack, session=session)
    seen = [await talk.turn(text) for text in (EASY, HARD, EASY, f"{EASY} 2", f"{EASY} 3", f"{EASY} 4", HARD)]
    assert seen == [
        ("small", "score"), ("large", "score"), ("large", "session"), ("large", "session"), ("large", "session"),
        ("small", "score"), ("large", "score"),
    ]  # fmt: skip
    await stack.until(lambda: len(stack.log.lines) == 7)
    assert [line["route"] for line in stack.log.lines].count("session") == 3
    found = await scrape(stack)
    turns = {
        result: total(found, "tiergate_conversation_turns_total", result=result) for result in ("up", "kept", "down", "same")
    }
    assert turns == {"up": 2, "kept": 3, "down": 1, "same": 0}
    assert total(found, "tiergate_route_decisions_total", tier="large", reason="session") == 3


@pytest.mark.parametrize("kind", ["rules", "learned"])
@pytest.mark.parametrize("session", [None, "s-1"], ids=["by itself", "named"])
async def test_an_ask_that_nobody_can_rate_goes_up_at_once(start, session, kind):
    """After an easy turn as without one: to the default tier, and not explained by the words of the turn before."""
    stack = await start({"routing": {"classifier": {"kind": kind, "threshold": 0.55}}})
    talk = Conversation(stack, session=session)
    assert await talk.turn(EASY) == ("small", "score")
    unrated = "zxqv blorp wug fnord glim trx qwl"
    alone, after = await told(stack, [user(unrated)]), await told(stack, [*talk.messages, user(unrated)])
    assert (after["tier"], after["reason"], after["terms"]) == ("large", "default", alone["terms"])
    assert await talk.turn(unrated) == ("large", "default")


@pytest.mark.parametrize("text", ["commit it", "yes", "继续", "改一下"])
async def test_short_words_after_a_hard_turn_stay_up_however_often(start, text):
    """They lean on it, and are no easy turns."""
    stack = await start({"routing": {"sessions": {"easy_turns": 0}}})
    talk = Conversation(stack, session="s")
    await talk.turn(HARD)
    for _ in range(4):
        talk.messages = []  # a client that sends the newest words alone: nothing but the session tells
        assert (await talk.turn(text))[0] == "large"


async def test_what_was_read_keeps_a_conversation_up(start):
    """A long prompt that one tier has read is not computed anew by the other, until it is cold."""
    stack = await start({"routing": {"sessions": {"easy_turns": 0, "move_tokens": 100, "warm": "1h"}}})
    talk = Conversation(stack)
    await talk.turn(HARD + " and look at this: " + "word " * 800)
    assert [await talk.turn(f"{EASY} {number}") for number in range(2)] == [("large", "session")] * 2
    short = Conversation(stack)
    await short.turn("Prove that sqrt(2) is irrational, step by step.")
    assert await short.turn(EASY) == ("small", "score")


async def test_a_tool_loop_goes_on_with_the_model_that_answers_it(start):
    """Even one that stood in for another that failed; the next ask is free again."""
    stack = await start({"routing": {"sessions": {"move_tokens": 100_000}}})
    talk = Conversation(stack)
    stack.small.faults.add(status=500)
    talk.messages.append(user(EASY))
    assert await talk.send() == ("large", "fallback")
    stack.small.faults.clear()
    await stack.until(lambda: stack.gateway.parts.lanes["small-model"].pool.capacity() > 0)
    assert await talk.send(*LOOP) == ("large", "session")
    assert await talk.send(*LOOP, *LOOP) == ("large", "session")
    await stack.until(lambda: len(stack.log.lines) == 3)
    assert stack.log.lines[-1]["score"] is None
    talk.messages += [*LOOP, DONE]
    assert await talk.turn(f"{EASY} again") == ("small", "score")


async def test_a_tool_loop_leaves_a_model_whose_context_is_full(start):
    """It goes where it fits."""
    stack = await start()
    talk = Conversation(stack)
    talk.messages.append(user(EASY))
    assert await talk.send() == ("small", "score")
    assert await talk.send(*LOOP) == ("small", "session")
    long = [LOOP[0], {"role": "tool", "tool_call_id": "c1", "content": "word " * 5000}]
    assert await talk.send(*long) == ("large", "context")


async def test_an_ask_that_is_sent_again_is_counted_once(start):
    """In a named session, too: a client that tries again does not use up the turns that stay."""
    stack = await start({"routing": {"sessions": {"easy_turns": 1}}})
    talk = Conversation(stack, session="s")
    await talk.turn(HARD)
    talk.messages.append(user(EASY))
    assert [await talk.send() for _ in range(4)] == [("large", "session")] * 4
    talk.messages.append(DONE)
    assert await talk.turn(f"{EASY} 2") == ("small", "score")


async def test_a_conversation_that_grows_beyond_a_context_goes_where_it_fits(start):
    """A turn of 80,000 tokens is for the model that holds it, and so are those after it."""
    stack = await start(
        {"models": {1: {"context": 131_072}}}, fakes={"s1": Options(), "l1": Options(max_model_len=131_072, kv_blocks=16_384)}
    )
    talk = Conversation(stack)
    assert await talk.turn(EASY) == ("small", "score")
    assert await talk.turn(f"{EASY} Here is the file: " + "some words of it " * 17_000) == ("large", "context")
    assert await talk.turn("commit it") == ("large", "context")
    assert talk.stack.log.lines[-1]["prompt_tokens"] > 60_000


async def test_a_conversation_that_was_too_long_for_its_model_does_not_go_back(start):
    """A backend that says so itself has it moved up once, not at each turn."""
    stack = await start({"models": {0: {"context": None}}}, fakes={"s1": Options(max_model_len=8), "l1": Options()})
    talk = Conversation(stack)
    assert await talk.turn(EASY) == ("large", "context")
    assert await talk.turn(f"{EASY} 2") == ("large", "session")
    assert len(posts(stack.small)) == 1


async def test_what_steers_no_request_steers_no_conversation(start):
    """A system prompt full of hard words, `tool_choice` without tools, what a harness reminds of."""
    stack = await start({"models": {0: {"capabilities": ["json_schema"]}}})
    talk = Conversation(stack, tool_choice="none")
    talk.messages = [{"role": "system", "content": HARD * 20}]
    assert await talk.turn(f"<system-reminder>{HARD}</system-reminder>{EASY}") == ("small", "score")
    assert await talk.turn(f"{EASY} 2<system-reminder>{HARD}</system-reminder>") == ("small", "score")


async def test_one_tenant_does_not_steer_another(start):
    """Of the same session, and of the same words."""
    stack = await start()
    for session in ("shared", None):
        mine = Conversation(stack, session=session)
        await mine.turn(HARD)
        assert await mine.turn(EASY) == ("large", "session")
    theirs = Conversation(stack, key=OTHER_KEY, session="shared")
    assert await theirs.turn(EASY) == ("small", "score")


async def test_a_conversation_that_nobody_remembers_is_made_out_from_its_body(start):
    """Its earlier asks were hard: what is kept of it elsewhere is not known here."""
    stack = await start()
    talk = Conversation(stack)
    talk.messages = [user(HARD), DONE]
    assert await talk.turn(EASY) == ("large", "session")
    other = Conversation(stack)
    other.messages = [user(EASY), DONE]
    assert await other.turn(f"{EASY} 2") == ("small", "score")


async def test_a_conversation_does_not_outspend_a_target(start):
    """Who asks something hard once and then says "commit it" for ever has his share, as with any other words."""
    stack = await start({"routing": {"routes": {"auto": {"target": {"large": 0.2}}}}})
    talk = Conversation(stack, session="s")
    seen = [await talk.turn(HARD)]
    for _ in range(120):
        talk.messages = []
        seen.append(await talk.turn("commit it"))
    up = sum(tier == "large" for tier, _ in seen)
    assert up <= 0.2 * len(seen) + 9
    assert ("large", "session") in seen


async def test_off_is_off(start):
    """Each request stands for itself."""
    stack = await start({"routing": {"sessions": {"enabled": False}}})
    talk = Conversation(stack, session="s")
    assert [await talk.turn(text) for text in (HARD, EASY)] == [("large", "score"), ("small", "score")]


async def test_an_explanation_tells_what_is_held_and_changes_nothing(start):
    """What the conversation holds, the easy turns so far, the cost and the bounds."""
    stack = await start()
    talk = Conversation(stack)
    await talk.turn(HARD)
    messages = [*talk.messages, user(EASY)]
    for _ in range(5):
        route = await told(stack, messages)
        assert (route["tier"], route["reason"]) == ("large", "session")
        held = route["session"]
        assert (held["tier"], held["wanted"], held["turned"], held["easy"], held["kept"]) == ("large", "small", "kept", 0, True)
        assert (held["easy_turns"], held["move_tokens"], held["leans"]) == (3, 4096, False)
        assert held["cost"] > 50
    assert await talk.turn(EASY) == ("large", "session")
    assert (await told(stack, [*talk.messages, user(f"{EASY} 2")]))["session"]["easy"] == 1
    assert (await told(stack, [user(EASY)]))["session"] is None
    made_out = await told(stack, [user(f"{HARD} now"), DONE, user(EASY)])
    assert (made_out["reason"], made_out["session"]["kept"]) == ("session", False)


async def test_sessions_of_any_kind_are_taken(start):
    """The longest, and bytes that are no text."""
    stack = await start()
    for session in ("x" * 256, "\xff\xfe ", "é,;=" * 10):
        talk = Conversation(stack, session=session)
        assert (await talk.turn(HARD))[0] == "large"
        assert (await talk.turn(EASY))[1] == "session"


async def test_workers_share_what_they_know_and_it_outlives_them(start, how_many_workers):
    """Whoever takes a turn finds it, without asking anybody, also when the dispatcher or a worker has gone meanwhile."""
    if not how_many_workers:
        pytest.skip("a process that is alone shares nothing")
    stack = await start({"routing": {"sessions": {"easy_turns": 90}}}, workers=2)
    talk = Conversation(stack, session="s")
    await talk.turn(HARD)
    seen = await asyncio.gather(*(Conversation(stack, session="s").turn(EASY) for _ in range(24)))
    assert set(seen) == {("large", "session")}
    await stack.gateway.replace_dispatcher()
    await stack.gateway.workers[0].stop()
    await stack.until(lambda: all(r.up for s in stack.gateway.parts.lanes.values() for r in s.pool.replicas))
    seen = await asyncio.gather(*(Conversation(stack, session="s").turn(EASY) for _ in range(24)))
    assert set(seen) == {("large", "session")}


async def test_an_anthropic_conversation_is_one_too(start):
    """Its tool results ride in user messages, with a reminder beside them."""
    stack = await start({"models": {0: {"endpoints": ["chat", "messages"]}, 1: {"endpoints": ["chat", "messages"]}}},
                        fakes={"s1": Options(), "l1": Options()})  # fmt: skip
    asked = user([{"type": "text", "text": HARD}])
    used = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "sh", "input": {}}]}
    result = user([
        {"type": "tool_result", "tool_use_id": "t1", "content": "exit 0"},
        {"type": "text", "text": "<system-reminder>say hello</system-reminder>"},
    ])  # fmt: skip
    told_ = []
    for messages in ([asked], [asked, used, result], [asked, used, result, DONE, user("commit it")]):
        answer = await ask(stack, {"model": "auto", "max_tokens": 8, "messages": messages}, path="/v1/messages")
        assert answer.status_code == 200, answer.text
        told_.append((answer.headers["x-tiergate-tier"], answer.headers["x-tiergate-route"]))
    assert told_[:2] == [("large", "score"), ("large", "session")]
    assert told_[2][0] == "large"


@pytest.mark.parametrize("kind", ["learned", "rules"])
async def test_small_talk_takes_no_conversation_up_and_none_down(start, kind):
    """One that begins with a greeting is cheap, until something hard is asked; then thanks stay up and are no easy turn."""
    stack = await start({"routing": {"classifier": {"kind": kind}}})
    talk = Conversation(stack)
    seen = [await talk.turn(text) for text in ("Hello!", EASY, PROOF)]
    assert seen == [("small", "score"), ("small", "score"), ("large", "score")]
    assert [await talk.turn(text) for text in ("Thanks!", "谢谢", "thank you", "hi")] == [("large", "session")] * 4
    seen = [await talk.turn(f"{EASY} {number}") for number in range(4)]
    assert seen == [("large", "session")] * 3 + [("small", "score")]
    route = await told(stack, [user("Hi")])
    assert (route["tier"], route["reason"], [term["feature"] for term in route["terms"]]) == ("small", "score", ["pleasantry"])


async def test_small_talk_of_a_conversation_that_nobody_kept_says_nothing(start):
    """Where it is made out from the body, thanks are no easy turns either."""
    stack = await start({"routing": {"sessions": {"easy_turns": 2}}})
    thanks = [message for text in ("Thanks!", "谢谢", "thx") for message in (user(text), DONE)]
    route = await told(stack, [user(HARD), DONE, *thanks, user(EASY)])
    assert (route["tier"], route["reason"], route["session"]["easy"]) == ("large", "session", 0)


@pytest.mark.parametrize("kind", ["learned", "rules"])
@pytest.mark.parametrize(
    "text", ["it crashes", "why does it diverge", "yes", "ok now do the whole thing in assembler", "zxqv blorp wug"]
)
async def test_what_follows_small_talk_alone_is_decided_as_if_it_came_first(start, kind, text):
    """Whether the greeting was routed here or not, by itself or in a session, and however often somebody greets."""
    stack = await start({"routing": {"classifier": {"kind": kind, "threshold": 0.55}}})
    first = await told(stack, [user(text)])
    elsewhere = await told(stack, [user("Hello!"), DONE, user("Thanks!"), DONE, user(text)])
    seen = []
    for session in (None, "s-1"):
        talk = Conversation(stack, session=session)
        assert [await talk.turn(small) for small in ("Hello!", "Thanks!")] == [("small", "score")] * 2
        seen.append(await talk.turn(text))
    wanted = first["tier"], first["reason"]
    assert [wanted, (elsewhere["tier"], elsewhere["reason"]), *seen] == [("large", "default")] * 4


async def test_the_tool_loop_of_a_greeting_goes_on_with_its_model(start):
    """And leaves no tier to the next ask either."""
    stack = await start()
    talk = Conversation(stack, session="s-1")
    talk.messages.append(user("Hello!"))
    assert [await talk.send(), await talk.send(*LOOP), await talk.send(*LOOP, *LOOP)] == [
        ("small", "score"), ("small", "session"), ("small", "session"),
    ]  # fmt: skip
    talk.messages += [*LOOP, DONE]
    assert await talk.turn("it crashes") == ("large", "default")
