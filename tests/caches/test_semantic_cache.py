"""The semantic cache as a whole: what is served to whom, what never is, and what happens when its parts are away."""

from __future__ import annotations

import pytest
from semantic_world import World, ask, body

from caches.errors import CacheAway
from caches.semantic.packed import said
from caches.which import Which

PAIR = ("how do I reset my password", "my password how do I reset")


async def test_a_question_of_the_same_words_is_served_the_answer() -> None:
    """An answer serves a question that means the same, with its age and an id of its own."""
    world = await World().open()
    await world.fill(ask(PAIR[0]), "click here")
    found = await world.cache.look(ask(PAIR[0] + "?"))
    assert found.entry is not None
    assert said(found.entry.body) == "click here"
    assert found.entry.id.startswith("cs-")
    assert (found.entry.model, found.entry.tier, found.entry.completion_tokens) == ("m", "small", 3)


async def test_no_answer_leaves_its_partition() -> None:
    """The very same question in another partition finds nothing, and costs no embedding."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    before = len(world.embedder.asked)
    found = await world.cache.look(ask(PAIR[0], room="bb", tenant="beta", scope="t:beta"))
    assert (found.entry, found.grey) == (None, None)
    assert len(world.embedder.asked) == before


async def test_a_question_that_resembles_nothing_costs_no_embedding() -> None:
    """The gate turns away what shares no words with anything that is kept."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    before = len(world.embedder.asked)
    found = await world.cache.look(ask("which planets have rings"))
    assert (found.entry, found.why, len(world.embedder.asked)) == (None, "gate", before)


async def test_what_a_guard_forbids_is_not_served() -> None:
    """Another number is another question, however alike the words are."""
    world = await World().open()
    await world.fill(ask("what happens if I take 200 mg of ibuprofen with my dinner every day"))
    found = await world.cache.look(ask("what happens if I take 2000 mg of ibuprofen with my dinner every day"))
    assert found.entry is None
    assert found.why


async def test_an_answer_that_has_expired_is_not_served() -> None:
    """After its end an answer is gone, whatever the store still holds."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    world.clock.now += 101
    assert (await world.cache.look(ask(PAIR[0]))).entry is None


async def test_an_older_answer_than_wanted_is_not_served() -> None:
    """A client's max-age holds here as for identical requests."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    world.clock.now += 20
    assert (await world.cache.look(ask(PAIR[0], max_age=10.0))).entry is None
    assert (await world.cache.look(ask(PAIR[0], max_age=30.0))).entry is not None


@pytest.mark.parametrize("part", ["embedder", "store"])
async def test_what_is_away_is_a_miss_that_says_so(part: str) -> None:
    """Neither an embedder nor a store that is away makes a question fail, and both are used again when they are back."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    getattr(world, part).away = "timeout"
    found = await world.cache.look(ask(PAIR[0]))
    assert found.entry is None
    assert "timeout" in found.away
    getattr(world, part).away = ""
    assert (await world.cache.look(ask(PAIR[0]))).entry is not None


async def test_a_store_that_is_away_at_the_start_is_opened_later() -> None:
    """Until the store is there every question is a miss; nothing has to be started anew."""
    world = World()
    world.store.away = "failed"
    await world.cache.writer.turn()
    assert (await world.cache.look(ask(PAIR[0]))).away == "starting"
    world.store.away = ""
    await world.cache.writer.turn()
    await world.fill(ask(PAIR[0]))
    assert (await world.cache.look(ask(PAIR[0]))).entry is not None


async def test_a_deleted_hit_never_comes_back_for_that_question() -> None:
    """Also when the same answer is kept again, the question whose hit was deleted is not served it; others are."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    hit = (await world.cache.look(ask(PAIR[1]))).entry
    assert hit is not None
    assert (await world.cache.delete(hit.id, "acme")).found
    assert (await world.cache.look(ask(PAIR[0]))).entry is None
    await world.fill(ask(PAIR[0]))
    assert (await world.cache.look(ask(PAIR[1]))).entry is None
    assert (await world.cache.look(ask(PAIR[0]))).entry is not None


async def test_a_refused_pair_outlives_the_process() -> None:
    """What was deleted, and what was learned, is known to the next process over the same store."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    hit = (await world.cache.look(ask(PAIR[1]))).entry
    assert hit is not None
    assert (await world.cache.delete(hit.id, "acme")).found
    await world.fill(ask(PAIR[0]))
    await world.cache.learn(ask("other words"), hit.id.replace("cs-", "cs-"), 0.97, right=True, weight=1.0)
    await world.cache.close()
    world.again()
    await world.open()
    assert (await world.cache.look(ask(PAIR[1]))).entry is None
    assert (await world.cache.look(ask(PAIR[0]))).entry is not None


async def test_only_the_owner_deletes_an_answer() -> None:
    """Another tenant's id is unknown to a tenant; the operator may delete any."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    hit = (await world.cache.look(ask(PAIR[0]))).entry
    assert hit is not None
    kept = hit.id.rsplit("-", 1)[0]
    assert not (await world.cache.delete(kept, "beta")).found
    assert not (await world.cache.delete("cs-" + "0" * 24, "acme")).found
    assert not (await world.cache.delete("cs-nonsense", None)).found
    assert (await world.cache.look(ask(PAIR[0]))).entry is not None
    assert (await world.cache.delete(kept, None)).found
    assert (await world.cache.look(ask(PAIR[0]))).entry is None


async def test_made_up_ids_crowd_out_nothing() -> None:
    """Ids with pairs that nobody was served are not remembered."""
    world = await World().open()
    for number in range(50):
        assert not (await world.cache.delete(f"cs-{'0' * 24}-{number:024x}", "acme")).found
        assert not await world.cache.forget(f"ce-{number:024x}", "acme", known=False)
    assert len(world.cache.refused) == 0


@pytest.mark.parametrize(
    ("which", "gone"),
    [
        (Which(everything=True), True),
        (Which(tenant="acme"), True),
        (Which(tenant="beta"), False),
        (Which(model="m"), True),
        (Which(model="other"), False),
        (Which(tag="faq"), True),
        (Which(tag="news"), False),
        (Which(older_than=50), False),
        (Which(older_than=5), True),
    ],
)
async def test_a_flush_takes_what_is_meant(which: Which, gone: bool) -> None:
    """By tenant, model, tag or age; a dry run only counts."""
    world = await World().open()
    await world.fill(ask(PAIR[0]), tags=("faq",))
    world.clock.now += 10
    assert await world.cache.flush(which, dry_run=True) == gone
    assert (await world.cache.look(ask(PAIR[0]))).entry is not None
    assert await world.cache.flush(which) == gone
    assert ((await world.cache.look(ask(PAIR[0]))).entry is None) == gone


async def test_an_answer_that_was_being_made_during_a_flush_is_not_kept() -> None:
    """What began before a flush that means it does not come back after it."""
    world = await World().open()
    began = world.clock.now
    world.clock.now += 5
    await world.cache.flush(Which(tenant="acme"))
    world.clock.now += 5
    await world.fill(ask(PAIR[0]), began_at=began)
    assert (await world.cache.look(ask(PAIR[0]))).entry is None
    await world.fill(ask(PAIR[0]), began_at=world.clock.now)
    assert (await world.cache.look(ask(PAIR[0]))).entry is not None


async def test_a_flush_that_the_store_does_not_hear_stops_the_cache_until_it_does() -> None:
    """The operator is told; meanwhile nothing is served that should be gone."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    world.store.away = "timeout"
    with pytest.raises(CacheAway):
        await world.cache.flush(Which(everything=True))
    world.store.away = ""
    assert (await world.cache.look(ask(PAIR[0]))).away == "flush pending"
    await world.cache.writer.turn()
    assert (await world.cache.look(ask(PAIR[0]))).away == ""
    assert world.store.points == {}


async def test_a_shared_question_is_served_to_others_only_once_enough_have_asked_it() -> None:
    """Before k tenants have asked it, nobody learns from a hit that somebody has; each has its own answer meanwhile."""
    world = await World(askers=3).open()
    for number, tenant in enumerate("abc", 1):
        mine = ask(PAIR[0], room="5c", own=f"{number:02x}", tenant=tenant, scope="s:team")
        assert (await world.cache.look(mine)).entry is None
        await world.fill(mine, f"answer of {tenant}")
    late = ask(PAIR[1], room="5c", own="0d", tenant="d", scope="s:team")
    found = (await world.cache.look(late)).entry
    assert found is not None
    assert said(found.body) == "answer of c"


async def test_an_answer_shown_wrong_is_refused_and_its_maker_retired() -> None:
    """One wrong answer refuses the pair; the second retires the kept answer."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    for text in (PAIR[1], "do I reset my password how"):
        hit = await world.cache.look(ask(text))
        assert hit.entry is not None
        assert hit.score is not None
        await world.cache.learn(ask(text), hit.entry.id, hit.score, right=False, weight=1.0)
        assert (await world.cache.look(ask(text))).entry is None
    assert (await world.cache.look(ask(PAIR[0]))).entry is None
    assert world.store.points == {}


async def test_bad_feedback_refuses_and_good_feedback_loosens_nothing() -> None:
    """Only the tenant that was served may speak of it, once, and only a bad score has an effect."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    asked = ask(PAIR[1])
    assert (await world.cache.look(asked)).entry is not None
    assert not await world.cache.feedback("beta", asked.request_id, 0.0)
    assert not await world.cache.feedback("acme", "r-unknown", 0.0)
    assert not await world.cache.feedback("acme", asked.request_id, 1.0)
    assert world.cache.standing().labels == 0
    assert (await world.cache.look(ask(PAIR[1]))).entry is not None
    assert await world.cache.feedback("acme", asked.request_id, 0.0)
    assert (await world.cache.look(ask(PAIR[1]))).entry is None


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b"[]",
        body("  "),
        b'{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}',
        b'{"choices":[{"message":{"content":"a","tool_calls":[{"id":"1"}]}}]}',
        b'{"choices":[{"message":{"content":null,"refusal":"no"}}]}',
        body("x" * 20_000),
    ],
)
async def test_only_one_plain_text_is_kept(answer: bytes) -> None:
    """Calls, refusals, several choices, nothing, and what is too long never become an answer to another question."""
    world = await World().open()
    await world.fill(ask(PAIR[0]), body=answer)
    assert world.store.points == {}


async def test_comparing_answers_tells_same_from_other() -> None:
    """Equal texts are right, unlike ones wrong, and what nobody can tell is left to a judge, with the kept answer."""
    world = await World().open()
    await world.fill(ask(PAIR[0]), "Click on Settings.")
    hit = (await world.cache.look(ask(PAIR[1]))).entry
    assert hit is not None
    assert (await world.cache.compare(ask(PAIR[1]), hit.id, body("click on settings"))).right is True
    assert (await world.cache.compare(ask(PAIR[1]), hit.id, body("we do not know you"))).right is False
    unsure = await world.cache.compare(ask(PAIR[1]), hit.id, body("click on Settings twice or so"))
    assert (unsure.right, said(unsure.kept)) == (None, "Click on Settings.")


async def test_an_embedder_that_never_worked_is_told_of() -> None:
    """Nothing is kept, so no question needs it; what is told of the cache says so, until an answer has its vector."""
    world = World()
    world.embedder.away = "timeout"
    await world.open()
    await world.fill(ask(PAIR[0]))
    assert world.cache.standing().store == "embedder timeout"
    world.embedder.away = ""
    await world.fill(ask(PAIR[0]))
    assert world.cache.standing().store == "ok"
