"""What flushes and deletes leave behind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.marks import Marks, field_of, fields_of
from caches.memory import MemoryStore
from caches.types import Entry
from caches.which import Which


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def made(*, born, now=1000.0, ident="ce-1", tenant="acme", model="small", tags=("faq",)):
    return Entry(ident, b"k", tenant, model, "t", "chat", b"{}", now, now + 600, tags=tags, began_at=born)


MEANT = [
    {"tenant": "acme"},
    {"model": "small"},
    {"tag": "faq"},
    {"older_than": 0.0},
    {"everything": True},
    {"tenant": "acme", "model": "small", "tag": "faq", "older_than": 0.0},
]
NOT_MEANT = [{"tenant": "other"}, {"model": "large"}, {"tag": "news"}, {"older_than": 60.0}, {"tenant": "acme", "model": "large"}]


@pytest.mark.parametrize("conditions", MEANT)
async def test_an_answer_that_was_being_made_is_not_stored_after_a_flush(conditions):
    """One that began before the flush, or with it, is refused however late it comes; one that began since is taken."""
    clock = Clock()
    store = MemoryStore(100_000, clock)
    await store.flush(Which(**conditions))
    clock.now = 1100.0
    assert not await store.put(made(born=999.0, now=1100.0))
    assert not await store.put(made(born=1000.0, now=1100.0))
    assert await store.put(made(born=1000.5, now=1100.0))


@pytest.mark.parametrize("conditions", NOT_MEANT)
async def test_a_flush_of_others_refuses_nothing(conditions):
    """What a flush does not mean may be stored, whenever its making began."""
    store = MemoryStore(100_000, Clock())
    await store.flush(Which(**conditions))
    assert await store.put(made(born=999.0))


async def test_a_dry_run_leaves_nothing_behind():
    """It only counts."""
    store = MemoryStore(100_000, Clock())
    await store.flush(Which(everything=True), dry_run=True)
    assert await store.put(made(born=999.0))


@pytest.mark.parametrize(("tenant", "stored"), [("acme", False), (None, False), ("other", True)])
async def test_a_deleted_answer_does_not_come_back(tenant, stored):
    """What was being made when its id was deleted is refused, if its owner or the operator did that, and only then."""
    store = MemoryStore(100_000, Clock())
    await store.delete("ce-1", tenant)
    assert await store.put(made(born=999.0)) is stored
    assert await store.put(made(born=999.0, ident="ce-2"))
    assert await store.put(made(born=1000.5))


async def test_a_tenant_that_deletes_without_end_harms_itself_alone():
    """The number of its marks is bounded, its own oldest ones become coarse, and other tenants do not feel it."""
    clock = Clock()
    store = MemoryStore(100_000, clock)
    for n in range(10_000):
        clock.now += 1
        await store.delete(f"ce-x{n}", "noisy")
    assert await store.put(made(born=1.0, now=clock.now))
    assert not await store.put(made(born=1.0, now=clock.now, tenant="noisy", ident="ce-2"))
    assert await store.put(made(born=clock.now - 60, now=clock.now, tenant="noisy", ident="ce-3"))
    assert not await store.put(made(born=clock.now - 60, now=clock.now, tenant="noisy", ident="ce-x9990"))
    assert sum(len(ids) for ids in store._marks._ids.values()) <= 64


NAMES = st.sampled_from(["a", "b", "c"])


@given(
    steps=st.lists(
        st.tuples(st.just("flush"), NAMES | st.none(), NAMES | st.none())
        | st.tuples(st.just("delete"), NAMES, NAMES | st.none()),
        max_size=40,
    ),
    born=st.integers(0, 40),
    tenant=NAMES,
    model=NAMES,
)
def test_marks_that_are_too_many_become_coarser_and_never_weaker(steps, born, tenant, model):
    """However few marks are kept, whatever a flush or a delete since then was meant for is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("caches.marks._MOST", 2)
        patch.setattr("caches.marks._MOST_IDS", 2)
        marks, meant = Marks(), False
        for now, (step, one, other) in enumerate(steps, 1):
            if step == "flush":
                marks.flushed(field_of(Which(tenant=one, model=other, everything=True)), now)
                meant = meant or (one in (None, tenant) and other in (None, model) and born <= now)
            else:
                marks.deleted(one, other, now)
                meant = meant or (one == "a" and other in (None, tenant) and born <= now)
            assert len(marks._flushed) <= 2
            assert sum(len(ids) for ids in marks._ids.values()) <= 4
        if meant:
            assert marks.bars(made(born=born or -1, ident="a", tenant=tenant, model=model, tags=()))


def test_every_field_of_an_entry_is_told():
    """A flush takes an entry exactly if its field is one of the entry's."""
    fields = fields_of("t", "m", ("x", "y"))
    assert len(set(fields)) == len(fields) == 12
    for tenant in ("t", "u", None):
        for model in ("m", "n", None):
            for tag in ("x", "y", "z", None):
                which = Which(tenant=tenant, model=model, tag=tag, everything=True)
                assert which.takes("t", "m", ("x", "y"), 0, 0) is (field_of(which) in fields)
