"""A thousand tenants with one and the same prompt: nobody is told anything by what the others have asked."""

import asyncio

import pytest
from gateway_talk import chat, posts, tenant, wire
from semantic_talk import PASSWORD, asked, cache_of, opened, semantic, settled

pytestmark = pytest.mark.usefixtures("one_model")
MANY, CONNECTIONS = 1_000, 20
NAMES = [f"tenant-{number}" for number in range(MANY)]
SOME = NAMES[:: MANY // 10]
ITS_OWN = {"x-request-id", "date", "openai-processing-ms", "content-length"}  # of every answer


@pytest.fixture
async def stack(start):
    """Each with a key of its name, and two more."""
    tenants = [tenant(name, name) for name in (*NAMES, "early", "late")]
    return await opened(await start({**semantic(), "tenants": tenants}))


async def each(stack, names, content):
    """The answer to each of them; each connection is many tenants' in turn."""
    found = {}

    async def some(names):
        async with wire(stack.gateway.port) as one:
            for name in names:
                one.send(chat(content, temperature=0), key=name)
                found[name] = await one.answer()

    await asyncio.gather(*(some(names[start::CONNECTIONS]) for start in range(CONNECTIONS)))
    return [found[name] for name in names]


def shown(answers):
    return {answer.headers["x-tiergate-cache-id"] for answer in answers}


async def test_nobody_learns_what_others_have_asked(stack):
    """By a body, a header, an id, an age, or whether a model is asked: the last to ask is served as the first was."""
    early = (await each(stack, ["early"], PASSWORD[1]))[0]
    answers = await each(stack, NAMES, PASSWORD[0])
    assert {cache_of(answer) for answer in answers} == {"miss"}
    own = {name: answer.json()["id"] for name, answer in zip(NAMES, answers, strict=True)}
    assert len(set(own.values())) == MANY == asked(stack) - 1
    await settled(stack)

    hits, near = await each(stack, SOME, PASSWORD[0]), await each(stack, SOME, PASSWORD[1])
    assert ({cache_of(hit) for hit in hits}, {cache_of(hit) for hit in near}) == ({"exact"}, {"semantic"})
    for found in (hits, near):
        assert [hit.json()["id"] for hit in found] == [own[name] for name in SOME]
        assert len(shown(found)) == len(SOME)
    assert asked(stack) == MANY + 1

    late = (await each(stack, ["late"], PASSWORD[1]))[0]
    first, last = ({name: value for name, value in it.headers.items() if name not in ITS_OWN} for it in (early, late))
    assert last == first
    assert late.json()["id"] not in own.values()
    assert len(posts(stack.small)) == MANY + 2

    ids = [*shown(hits), *shown(near), "ce-" + "0" * 24, "cs-" + "0" * 24]
    gone = [await stack.client.delete(f"/v1/cache/{entry}", headers={"authorization": "Bearer late"}) for entry in ids]
    assert {(answer.status_code, answer.content) for answer in gone} == {(404, gone[-1].content)}
    assert {cache_of(hit) for hit in await each(stack, SOME, PASSWORD[0])} == {"exact"}
    assert {cache_of(hit) for hit in await each(stack, SOME, PASSWORD[1])} == {"semantic"}
