"""Tenants that share answers: what they are served of each other's, from when on, and what they may do to it."""

import asyncio

import pytest
from gateway_talk import ADMIN_KEY, hold, posts, tenant
from semantic_talk import EGG, PASSWORD, ask, asked, cache_of, fill, opened, semantic, settled

pytestmark = pytest.mark.usefixtures("one_model")
ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}
ONLY = {"x-tiergate-cache": "only-if-cached"}
TEAM = ("ann", "bob", "cid", "dan")


@pytest.fixture
async def stack(start):
    """Four tenants with one scope, and one without."""
    tenants = [tenant(name, name, cache={"scope": "team"}) for name in TEAM] + [tenant("eve", "eve")]
    return await opened(await start({**semantic(askers=3), "tenants": tenants}))


async def kept(stack, content, key):
    answer = await ask(stack, content, key=key, headers=ONLY)
    return "" if answer.status_code == 504 else cache_of(answer)


async def shared(stack):
    """An answer of ann's, which everybody of the team is served."""
    for key in TEAM[:3]:
        await fill(stack, PASSWORD[0], key=key)
    assert asked(stack) == 1


async def delete(stack, entry, key):
    return (await stack.client.delete(f"/v1/cache/{entry}", headers={"authorization": f"Bearer {key}"})).status_code


async def shown(stack, content, key):
    return (await ask(stack, content, key=key, headers=ONLY)).headers["x-tiergate-cache-id"]


async def test_whoever_was_served_by_the_exact_cache_has_asked(stack):
    """Two tenants are not enough for the others to be served by meaning, however often they ask; three are."""
    for key in ("ann", "bob", "ann", "bob"):
        await fill(stack, PASSWORD[0], key=key)
    assert await kept(stack, PASSWORD[1], "dan") == ""
    assert cache_of(await fill(stack, PASSWORD[0], key="cid")) == "exact"
    assert [await kept(stack, PASSWORD[1], key) for key in (*TEAM, "eve")] == ["semantic"] * 4 + [""]
    assert asked(stack) == 1


async def test_whoever_shared_a_request_in_flight_has_asked(stack):
    """Three tenants ask the same at once: one call, and what it brings serves the fourth in other words."""
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, PASSWORD[0], key=key)) for key in TEAM[:3]]
    await stack.until(lambda: bool(posts(stack.small)) and stack.gateway.parts.edge.running == len(tasks))
    wake()
    assert {cache_of(answer) for answer in await asyncio.gather(*tasks)} <= {"miss", "shared", "exact"}
    await settled(stack)
    assert asked(stack) == 1
    assert await kept(stack, PASSWORD[1], "dan") == "semantic"


async def test_one_who_keeps_nothing_has_not_asked(stack):
    """`no-store` leaves no trace of the question."""
    for key in TEAM[:3]:
        await fill(stack, PASSWORD[0], key=key, headers={"x-tiergate-cache": "no-store"} if key == "cid" else {})
    assert await kept(stack, PASSWORD[1], "dan") == ""


async def test_no_hit_waits_for_its_being_counted(stack):
    """Who counts may take as long as he likes, and is told of a question once in a while only."""
    await fill(stack, PASSWORD[0], key="ann")
    owner, told, gate = stack.gateway.parts.semantic, [], asyncio.Event()
    heard = owner.heard

    async def slow(question):
        told.append(question.tenant)
        await gate.wait()
        return await heard(question)

    owner.heard = slow
    for key in ("bob", "cid", "bob", "cid"):
        assert await kept(stack, PASSWORD[0], key) == "exact"
        assert cache_of(await ask(stack, PASSWORD[0], key=key)) == "exact"
    await stack.until(lambda: len(told) == 2)
    assert told == ["bob", "cid"]
    gate.set()
    await settled(stack)
    assert await kept(stack, PASSWORD[1], "dan") == "semantic"


async def test_who_did_not_make_an_answer_refuses_it_for_itself(stack):
    """Its id and its complaints concern nobody else; the owner's id takes the answer from all."""
    await shared(stack)
    assert await delete(stack, await shown(stack, PASSWORD[1], "bob"), "bob") == 200
    assert [await kept(stack, PASSWORD[1], key) for key in TEAM] == ["semantic", "", "semantic", "semantic"]
    for content in PASSWORD[1:]:
        hit = await ask(stack, content, key="cid", headers=ONLY)
        body = {"request_id": hit.headers["x-request-id"], "score": 0}
        told = await stack.client.post("/v1/feedback", json=body, headers={"authorization": "Bearer cid"})
        assert told.json()["applied"] is True
    assert [await kept(stack, PASSWORD[1], key) for key in TEAM] == ["semantic", "", "", "semantic"]
    assert await kept(stack, PASSWORD[2], "bob") == "semantic"
    assert await delete(stack, await shown(stack, PASSWORD[1], "ann"), "ann") == 200
    assert {await kept(stack, content, key) for key in TEAM for content in PASSWORD} == {""}


async def test_the_operator_takes_an_answer_from_all(stack):
    """By whatever id anybody was shown."""
    await shared(stack)
    entry = await shown(stack, PASSWORD[1], "dan")
    gone = await stack.client.delete(f"/admin/cache/{entry}", headers=ADMIN)
    assert gone.status_code == 200
    assert {await kept(stack, content, key) for key in TEAM for content in PASSWORD} == {""}


async def test_an_exact_answer_is_deleted_by_its_owner_alone(stack):
    """To the others of the scope its id is none; the owner's takes it from both caches of all."""
    await shared(stack)
    entry = await shown(stack, PASSWORD[0], "bob")
    assert [await delete(stack, entry, key) for key in ("bob", "eve")] == [404, 404]
    assert [await kept(stack, PASSWORD[0], key) for key in TEAM] == ["exact"] * 4
    assert await delete(stack, entry, "ann") == 200
    assert {await kept(stack, content, key) for key in TEAM for content in PASSWORD} == {""}


async def test_a_flush_of_the_makers_answers_takes_what_is_shared(stack):
    """What ann has made is hers, in whichever partition it lies."""
    await shared(stack)
    await fill(stack, EGG[0], key="bob")
    flushed = await stack.client.post("/admin/cache/flush", json={"tenant": "ann"}, headers=ADMIN)
    assert flushed.json() == {"flushed": 3}
    assert {await kept(stack, content, key) for key in TEAM for content in PASSWORD} == {""}
    assert await kept(stack, EGG[1], "bob") == "semantic"
