"""What every vector store does, whatever lies behind it."""

import dataclasses

import pytest

pytest.importorskip("numpy", reason="numpy is not installed (the extra `semantic`)")

import numpy as np
from vector_points import DIMENSION, NOW, made, vector

from caches.vectors.types import StoreAway
from caches.which import Which

pytestmark = pytest.mark.parametrize("stores", ["embedded", "rest", "local"], indirect=True)


async def everything(store, since=0.0):
    return {known.id: known async for page in store.scan(since) for known in page}


async def test_a_store_that_was_opened_says_so_and_is_empty(stores):
    """Opening writes and reads a probe, and leaves nothing of it behind."""
    store = stores.made()
    assert store.status == "not open yet"
    store = await stores.open()
    assert store.status == "ok"
    assert (await store.stats()).points == 0
    assert await everything(store) == {}


async def test_the_nearest_come_first(stores):
    """Matches are ordered by cosine, at most as many as were asked for, with all that a decision needs."""
    store = await stores.open()
    await store.put([made(1, towards=(1.0, 0.2)), made(2, towards=(1.0, 0.0)), made(3, towards=(0.0, 1.0))])
    found = await store.search("aa", vector(1.0), 2)
    assert [match.id for match in found] == [made(2).id, made(1).id]
    best, second = found
    assert best.cosine == pytest.approx(1.0, abs=1e-6)
    assert second.cosine == pytest.approx(1.0 / np.hypot(1.0, 0.2), abs=1e-6)
    assert (best.text, best.tenant, best.stored_at, best.expires_at) == ("question 2", "acme", NOW, NOW + 3600)


async def test_the_length_of_a_vector_does_not_matter(stores):
    """A cosine is told also for vectors that are not of length 1."""
    store = await stores.open()
    await store.put([made(1, towards=(3.0, 4.0))])
    assert (await store.search("aa", vector(30.0)))[0].cosine == pytest.approx(0.6, abs=1e-6)


async def test_another_partition_is_never_found(stores):
    """Equal vectors and texts of another partition are not there, however few of its own there are."""
    store = await stores.open()
    await store.put([made(number, "bb") for number in range(20)])
    assert await store.search("aa", vector(1.0)) == []
    await store.put([made(99, "aa", towards=(0.1, 1.0))])
    assert [match.id for match in await store.search("aa", vector(1.0), 10)] == [made(99).id]


async def test_what_has_expired_is_gone_at_once(stores):
    """From the moment on that it expires at, a point is found by nothing."""
    store = await stores.open()
    await store.put([made(1, ttl=10.0), made(2, ttl=20.0)])
    stores.clock.now = NOW + 10.0
    assert [match.id for match in await store.search("aa", vector(1.0))] == [made(2).id]
    assert await store.fetch(made(1).id) is None
    assert set(await everything(store)) == {made(2).id}
    assert await store.flush(Which(everything=True), dry_run=True) == [made(2).id]


async def test_a_sweep_deletes_what_has_expired(stores):
    """Expired points take room until they are swept away, and only they go."""
    store = await stores.open()
    await store.put([made(number, ttl=10.0) for number in range(300)] + [made(1000, ttl=20.0)])
    stores.clock.now = NOW + 10.0
    assert (await store.stats()).points == 301
    await store.sweep()
    assert (await store.stats()).points == 1


@pytest.mark.parametrize("answer", [b"", b'{"a": "\xe4\xb8\x80"}', bytes(range(256)) * 1024], ids=["none", "json", "binary"])
async def test_an_answer_comes_back_byte_for_byte(stores, answer):
    """What was put is fetched as it was, be it text or not, up to the size of a long answer."""
    store = await stores.open()
    point = made(1, tags=("a", "b"), answer=answer, text='quotes " and \\ and \x00 and 一千')
    await store.put([point])
    back = await store.fetch(point.id)
    assert dataclasses.replace(back, vector=None) == dataclasses.replace(point, vector=None)
    assert back.vector == pytest.approx(point.vector)


async def test_the_same_id_replaces(stores):
    """A point of a known id takes the place of the former one, in whatever partition that was."""
    store = await stores.open()
    await store.put([made(1, "aa", answer=b"old")])
    await store.put([made(1, "bb", answer=b"new")])
    assert (await store.fetch(made(1).id)).answer == b"new"
    assert await store.search("aa", vector(1.0)) == []
    assert (await store.stats()).points == 1


async def test_deleting_by_id(stores):
    """What is deleted is gone; an id that is not known is no error."""
    store = await stores.open()
    await store.put([made(1), made(2)])
    await store.delete([made(1).id, "cs-unknown"])
    await store.delete([])
    assert await store.fetch(made(1).id) is None
    assert set(await everything(store)) == {made(2).id}


@pytest.mark.parametrize(
    ("which", "meant"),
    [
        (Which(tenant="acme"), {1, 2, 3}),
        (Which(model="large"), {3, 4}),
        (Which(tag="faq"), {2, 4}),
        (Which(older_than=100.0), {1}),
        (Which(tenant="acme", model="large"), {3}),
        (Which(tenant="nobody"), set()),
        (Which(everything=True), {1, 2, 3, 4}),
    ],
    ids=["tenant", "model", "tag", "age", "two", "none", "all"],
)
async def test_flushing_takes_what_is_meant_and_nothing_else(stores, which, meant):
    """A dry run tells the same ids and deletes nothing."""
    store = await stores.open()
    points = [
        made(1, at=NOW - 200.0),
        made(2, tags=("faq", "x")),
        made(3, model="large"),
        made(4, tenant="other", model="large", tags=("faq",)),
    ]
    await store.put(points)
    ids = {points[number - 1].id for number in meant}
    assert set(await store.flush(which, dry_run=True)) == ids
    assert len(await everything(store)) == 4
    assert set(await store.flush(which)) == ids
    assert set(await everything(store)) == {point.id for point in points} - ids


async def test_flushing_many(stores):
    """A flush goes over as many pages as there are."""
    store = await stores.open()
    await store.put([made(number) for number in range(700)] + [made(1000, tenant="other")])
    assert len(await store.flush(Which(tenant="acme"))) == 700
    assert set(await everything(store)) == {made(1000).id}


async def test_scanning_tells_all_that_was_stored_since(stores):
    """Every point comes once, with what is needed to look for likenesses."""
    store = await stores.open()
    await store.put([made(number, at=NOW + number, ttl=5000.0) for number in range(600)])
    assert len(await everything(store)) == 600
    found = await everything(store, NOW + 590)
    assert set(found) == {made(number).id for number in range(590, 600)}
    known = found[made(595).id]
    assert (known.partition, known.text, known.stored_at, known.expires_at) == ("aa", "question 595", NOW + 595, NOW + 5595)


async def test_marks_are_kept_until_they_are_taken_back(stores):
    """All of them are told to whoever asks, beside notes and points, which know nothing of them."""
    store = await stores.open()
    await store.put([made(1)])
    await store.keep_note("one", b"a note")
    assert await store.marks() == {}
    for name in ("one", "two", "three"):
        await store.mark(name, b"\x00" + name.encode())
    await store.unmark(["two", "none"])
    assert await store.marks() == {"one": b"\x00one", "three": b"\x00three"}
    assert await store.note("one") == b"a note"
    assert list(await everything(store)) == [made(1).id]
    if stores.kind != "local":
        await store.close()
        assert await (await stores.open()).marks() == {"one": b"\x00one", "three": b"\x00three"}


async def test_notes_are_kept(stores):
    """A note is what was written last; one that was never written is None."""
    store = await stores.open()
    assert await store.note("learned") is None
    await store.keep_note("learned", b"one")
    await store.keep_note("learned", b"\x00two" * 100_000)
    await store.keep_note("other", b"")
    assert await store.note("learned") == b"\x00two" * 100_000
    assert await store.note("other") == b""
    with pytest.raises(ValueError, match="not a note's name"):
        await store.note("../x")


@pytest.mark.parametrize(
    "point",
    [
        dataclasses.replace(made(1), vector=np.ones(DIMENSION + 1, dtype=np.float32)),
        dataclasses.replace(made(1), vector=np.full(DIMENSION, np.nan, dtype=np.float32)),
        made(1, text="half a character \ud800"),
        made(1, tags=("\udfff",)),
        made(1, answer=bytes(17 * 2**20)),
    ],
    ids=["long vector", "no number", "half a character", "in a tag", "huge"],
)
async def test_what_cannot_be_kept_is_refused_and_harms_nobody(stores, point):
    """However often: the store answers all others, and its status stays well."""
    store = await stores.open()
    for _ in range(5):
        with pytest.raises(StoreAway, match="failed"):
            await store.put([made(2), point])
    assert store.status == "ok"
    assert await store.search("aa", vector(1.0)) == []


async def test_what_cannot_be_asked_is_refused_and_harms_nobody(stores):
    """A vector of another length, half a character in a flush: refused; an id like that is just not known."""
    store = await stores.open()
    for _ in range(5):
        with pytest.raises(StoreAway, match="failed"):
            await store.search("aa", np.ones(DIMENSION - 1, dtype=np.float32))
        with pytest.raises(StoreAway, match="failed"):
            await store.flush(Which(tenant="\ud800"))
        assert await store.fetch("\ud800") is None
        await store.delete(["\ud800"])
    assert store.status == "ok"


async def test_a_store_that_was_closed_is_away_and_can_be_opened_again(stores):
    """Closed: every call is StoreAway. Opened again: it works."""
    store = await stores.open()
    await store.close()
    with pytest.raises(StoreAway):
        await store.search("aa", vector(1.0))
    await store.close()
    if stores.kind != "local":
        await store.open()
        await store.put([made(1)])
        assert len(await store.search("aa", vector(1.0))) == 1


async def test_points_and_notes_survive_a_restart(stores):
    """A store opened on the same place finds what was there."""
    if stores.kind == "local":
        pytest.skip("the client's local mode keeps nothing of its memory")
    store = await stores.open()
    await store.put([made(number, answer=b"x" * number) for number in range(50)])
    await store.keep_note("learned", b"something")
    await store.close()
    again = await stores.open()
    assert len(await everything(again)) == 50
    assert (await again.fetch(made(40).id)).answer == b"x" * 40
    assert len(await again.search("aa", vector(1.0), 60)) == 50
    assert await again.note("learned") == b"something"
