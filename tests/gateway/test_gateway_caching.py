"""What tenants, plans and clients may say about caching, through the whole gateway; and feedback on what was served."""

import asyncio
import json

import pytest
from gateway_talk import ADMIN_KEY, GREEDY, KEY, OTHER_KEY, posts, said, shift_cache

ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}
ASK = "[[say: hello there]]"


def saying(directives):
    return {"x-tiergate-cache": directives}


async def test_a_client_may_have_a_random_answer_kept(stack):
    """`store` keeps an answer that asks for chance, and finds it again; without the word nobody is given it."""
    await stack.chat(ASK, headers=saying("store"))
    again = await stack.chat(ASK, headers=saying("store"))
    plain = await stack.chat(ASK)
    assert again.headers["x-tiergate-cache"] == "exact"
    assert plain.headers["x-tiergate-cache"].startswith("bypass")
    assert len(posts(stack.small)) == 2


async def test_a_client_may_want_no_old_answer(stack):
    """`max-age` refuses what is older, and takes what is younger."""
    await stack.chat(ASK, **GREEDY)
    shift_cache(stack, 30)
    young = await stack.chat(ASK, **GREEDY, headers=saying("max-age=60"))
    old = await stack.chat(ASK, **GREEDY, headers={"cache-control": "max-age=10"})
    assert young.headers["x-tiergate-cache"] == "exact"
    assert old.headers["x-tiergate-cache"].startswith("miss")


async def test_a_client_may_have_its_answer_kept_for_a_shorter_time(stack):
    """`ttl` is the longest that this answer is kept."""
    await stack.chat(ASK, **GREEDY, headers=saying("ttl=20"))
    shift_cache(stack, 19)
    assert (await stack.chat(ASK, **GREEDY)).headers["x-tiergate-cache"] == "exact"
    shift_cache(stack, 21)
    assert (await stack.chat(ASK, **GREEDY)).headers["x-tiergate-cache"] == "miss"


async def test_answers_are_flushed_by_their_tag(stack):
    """A tag that came with the request takes its answer out, and no other."""
    await stack.chat("[[say: one]]", **GREEDY, headers=saying("tag=faq, tag=de"))
    await stack.chat("[[say: two]]", **GREEDY, headers=saying("tag=news"))
    flushed = await stack.client.post("/admin/cache/flush", json={"tag": "faq"}, headers=ADMIN)
    assert flushed.json() == {"flushed": 1}
    assert (await stack.chat("[[say: one]]", **GREEDY)).headers["x-tiergate-cache"] == "miss"
    assert (await stack.chat("[[say: two]]", **GREEDY)).headers["x-tiergate-cache"] == "exact"


@pytest.mark.parametrize("directives", ["nostore", "ttl=soon", "tag=", "tag=a b", "no-store=1", ",".join(["store"] * 40)])
async def test_a_directive_of_ours_that_makes_no_sense_is_refused(stack, directives):
    """A mistyped tag is told at once, and not when its flush takes nothing."""
    refused = await stack.chat(ASK, headers=saying(directives))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_header")
    assert posts(stack.small) == []


SAID, KINDS = ("[[say: first]]", "[[say: last]]"), ("json_object", "text")
TWICE = {
    "content": ('"messages":[{"role":"user","content":"FIRST","content":"LAST"}]', SAID),
    "text": ('"messages":[{"role":"user","content":[{"type":"text","text":"FIRST","text":"LAST"}]}]', SAID),
    "role": ('"messages":[{"role":"FIRST","role":"LAST","content":"hi"}]', ("assistant", "user")),
    "type": (
        '"messages":[{"role":"user","content":"hi"}],"response_format":{"type":"FIRST","type":"LAST"}',
        ("json_object", "text"),
    ),
}


@pytest.mark.parametrize(("members", "words"), TWICE.values(), ids=TWICE)
async def test_of_two_equal_keys_below_the_top_level_the_last_counts(stack, members, words):
    """An engine that reads as Python does is asked what the key was made of: the answer kept is the one to the last."""
    first, last = words

    async def send(one, other):
        body = '{"model":"small-model","temperature":0,' + members.replace("FIRST", one).replace("LAST", other) + "}"
        return await stack.client.post("/v1/chat/completions", content=body.encode(), headers={"authorization": f"Bearer {KEY}"})

    both, plain, other = await send(first, last), await send(last, last), await send(first, first)
    assert [answer.headers["x-tiergate-cache"] for answer in (both, plain, other)] == ["miss", "exact", "miss"]
    assert said(plain) == said(both)
    assert first in posts(stack.small)[0].text
    assert posts(stack.small)[0].body != posts(stack.small)[1].body


def own(acme=None, globex=None, plan=None):
    return {"tenants": {0: {"cache": acme or {}}, 1: {"cache": globex or {}}}, "plans": {"pro": {"cache": plan or {}}}}


async def test_what_is_kept_is_the_tenants_own_say_then_its_plans(start):
    """A plan may keep everything; a tenant of it may keep nothing."""
    stack = await start(own(globex={"keep": "none"}, plan={"keep": "all"}))
    await stack.chat(ASK)
    assert (await stack.chat(ASK)).headers["x-tiergate-cache"] == "exact"
    await stack.chat(ASK, **GREEDY, key=OTHER_KEY)
    assert (await stack.chat(ASK, **GREEDY, key=OTHER_KEY)).headers["x-tiergate-cache"] == "off"


async def test_a_tenants_answers_end_when_it_says(start):
    """A tenant's own ttl is the one that counts for its answers."""
    stack = await start(own(acme={"ttl": "10s"}))
    for key in (KEY, OTHER_KEY):
        await stack.chat(ASK, **GREEDY, key=key)
    shift_cache(stack, 11)
    assert (await stack.chat(ASK, **GREEDY)).headers["x-tiergate-cache"] == "miss"
    assert (await stack.chat(ASK, **GREEDY, key=OTHER_KEY)).headers["x-tiergate-cache"] == "exact"


async def test_tenants_share_answers_only_where_the_operator_lets_them(start):
    """Those that name one scope share; one whose name is the scope's is no part of it."""
    stack = await start(own(acme={"scope": "globex"}))
    await stack.chat(ASK, **GREEDY)
    assert (await stack.chat(ASK, **GREEDY, key=OTHER_KEY)).headers["x-tiergate-cache"] == "miss"
    shared = await start(own(acme={"scope": "team"}, globex={"scope": "team"}))
    first = await shared.chat(ASK, **GREEDY)
    other = await shared.chat(ASK, **GREEDY, key=OTHER_KEY)
    assert other.headers["x-tiergate-cache"] == "exact"
    assert said(other) == said(first)


async def test_a_stale_answer_is_served_once_and_renewed(start):
    """After its ttl an answer is still served, at once, while one new request goes to the model."""
    stack = await start({"cache": {"secret": "s", "exact": {"ttl": "10s", "stale": "1h"}}})
    await stack.chat(ASK, **GREEDY)
    shift_cache(stack, 11)
    answers = await asyncio.gather(*(stack.chat(ASK, **GREEDY) for _ in range(5)))
    assert [answer.headers["x-tiergate-cache"] for answer in answers] == ["exact"] * 5
    await stack.until(lambda: len(posts(stack.small)) == 2)
    await stack.at_rest()
    fresh = await stack.chat(ASK, **GREEDY)
    assert int(fresh.headers["age"]) < 5
    assert len(posts(stack.small)) == 2


@pytest.mark.parametrize("directives", ["only-if-cached", "no-store"])
async def test_who_may_not_ask_a_model_or_keep_its_answer_renews_nothing(start, directives):
    """A stale answer is served to it all the same; the next ordinary request renews it."""
    stack = await start({"cache": {"secret": "s", "exact": {"ttl": "10s", "stale": "1h"}}})
    await stack.chat(ASK, **GREEDY)
    shift_cache(stack, 11)
    stale = await stack.chat(ASK, **GREEDY, headers=saying(directives))
    assert stale.headers["x-tiergate-cache"] == "exact"
    await stack.at_rest()
    assert len(posts(stack.small)) == 1
    await stack.chat(ASK, **GREEDY)
    await stack.until(lambda: len(posts(stack.small)) == 2)


@pytest.mark.parametrize("name", ["x-tiergate-cache", "cache-control"])
@pytest.mark.parametrize("others", [("max-age=60",), ("no-cache", "max-age=5")])
@pytest.mark.parametrize("first", [True, False])
async def test_a_header_on_several_lines_is_one_list(stack, name, others, first):
    """Whichever line says `no-store`, it is heard."""
    lines = ["no-store", *others] if first else [*others, "no-store"]
    body = {"model": "small-model", "messages": [{"role": "user", "content": ASK}], **GREEDY}
    headers = [("authorization", f"Bearer {KEY}"), *((name, line) for line in lines)]
    assert (await stack.client.post("/v1/chat/completions", json=body, headers=headers)).status_code == 200
    assert (await stack.chat(ASK, **GREEDY)).headers["x-tiergate-cache"] == "miss"


async def test_a_replay_may_be_paced(start):
    """With a pace a kept answer is streamed in many pieces over time; unstreamed it comes whole."""
    stack = await start({"cache": {"secret": "s", "exact": {"pace": 40}}})
    content = f"[[say: {' '.join(['word'] * 20)}]]"
    whole = await stack.chat(content, **GREEDY)
    assert (await stack.chat(content, **GREEDY)).json()["choices"] == whole.json()["choices"]
    pieces = []
    body = {"model": "small-model", "messages": [{"role": "user", "content": content}], "stream": True, **GREEDY}
    async with stack.client.stream("POST", "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {KEY}"}) as hit:
        assert hit.headers["x-tiergate-cache"] == "exact"
        pieces += [piece async for piece in hit.aiter_raw()]
    assert len(pieces) > 3
    assert b"".join(pieces).endswith(b"data: [DONE]\n\n")


async def test_feedback_is_taken_from_who_has_a_key(stack):
    """A score for a request is noted on the log; it says whether it has changed what the caches serve."""
    asked = await stack.chat(ASK, **GREEDY)
    request_id = asked.headers["x-request-id"]
    given = await stack.client.post(
        "/v1/feedback", json={"request_id": request_id, "score": 0.25}, headers={"authorization": f"Bearer {KEY}"}
    )
    assert (given.status_code, given.json()) == (
        200,
        {"request_id": request_id, "score": 0.25, "applied": False, "labelled": False},
    )
    line = await stack.line()
    assert (line["endpoint"], line["feedback_on"], line["feedback_score"]) == ("feedback", request_id, 0.25)
    assert (await stack.client.post("/v1/feedback", json={"request_id": "x", "score": 1})).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b'{"request_id": "x"}', b'{"request_id": "x", "score": 2}', b'{"request_id": "x", "score": -0.1}',
        b'{"request_id": "x", "score": true}', b'{"request_id": "x", "score": "1"}', b'{"request_id": "", "score": 1}',
        b'{"request_id": 7, "score": 1}', b'{"request_id": "x", "score": NaN}', b'{"request_id": "x", "score": 1, "more": 1}',
        json.dumps({"request_id": "x" * 129, "score": 1}).encode(), b"[" * 2000,
    ],
)  # fmt: skip
async def test_feedback_that_is_none_is_refused(stack, body):
    """What is not an id and a score from 0 to 1 is a 400 that says what to send."""
    refused = await stack.client.post("/v1/feedback", content=body, headers={"authorization": f"Bearer {KEY}"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_feedback")


async def test_long_feedback_is_refused(stack):
    """It is a short call."""
    refused = await stack.client.post("/v1/feedback", content=b" " * 5000, headers={"authorization": f"Bearer {KEY}"})
    assert refused.status_code == 413
    assert (await stack.client.get("/v1/feedback", headers={"authorization": f"Bearer {KEY}"})).status_code == 405
