"""What other gateways flush and delete, obeyed by a semantic cache of its own: with outages, restarts and losses."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semantic_world import SECRET, World, ask

from caches.errors import ExactStoreAway
from caches.null import NullStore
from caches.orders import LEASE, Deleted, Flushed, Forgotten, News, Place, Refused
from caches.semantic.following import Following
from caches.semantic.refused import pair_of
from caches.vectors.types import StoreAway
from caches.which import Which

KEPT, OTHER = "how do I reset my password", "which planets have rings"
EXACT = "ce-" + "0" * 24


class ListOrders:
    """A server: orders since its last loss."""

    def __init__(self, tick):
        self.series = 0
        self.list = []
        self.away = False
        self._tick = tick

    async def post(self, order):
        if self.away:
            raise ExactStoreAway("failed")
        self.list.append((order, self._tick()))
        return self._tick()

    async def settle(self, posted):
        """A test's clock goes on by itself."""

    async def read(self, place):
        if self.away:
            raise ExactStoreAway("failed")
        now, series = Place(b"%d" % self.series, len(self.list)), b"%d" % self.series
        if place is None or place.series != series:
            return News(now, lost=True, more=False)
        behind = self.list[place.number : place.number + 2]
        number = place.number + len(behind)
        orders = [(order, self._tick() - at) for order, at in behind]
        return News(Place(series, number), lost=False, more=number < len(self.list), orders=orders)

    def wipe(self):
        self.series += 1
        self.list.clear()


class Node(World):
    """A gateway's semantic cache that follows."""

    def __init__(self):
        super().__init__()
        self.orders = ListOrders(self.clock)
        self.follow()

    def follow(self):
        self.cache.following = Following(self.cache, self.orders, NullStore(), self.clock)

    async def restart(self):
        self.again()
        self.follow()
        await self.cache.writer.turn()

    async def heard(self):
        for _ in range(10):
            if not await self.cache.following.turn():
                return

    async def served(self, text=KEPT):
        found = await self.cache.look(ask(text))
        return found.away or found.entry is not None


@pytest.fixture
async def node():
    made = Node()
    await made.open()
    made.clock.now += 1
    await made.heard()
    await made.fill(ask(KEPT), id=EXACT, tags=("door",), expires_at=made.clock.now + 1e6)
    await made.fill(ask(OTHER), id="ce-" + "1" * 24, model="n", tags=("sky",), expires_at=made.clock.now + 1e6)
    assert await made.served() is await made.served(OTHER) is True
    made.clock.now += 1
    await made.heard()
    return made


ORDERS = [
    Flushed(Which(tag="door")), Flushed(Which(model="m")), Flushed(Which(tenant="acme", tag="door")), Forgotten(EXACT, "acme"),
    Forgotten(EXACT, None), Refused((pair_of(SECRET, "aa", KEPT, KEPT),)),
]  # fmt: skip


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("when", ["running", "down", "cut off"])
async def test_an_order_takes_what_it_means_and_nothing_else(node, order, when):
    """Whether the gateway runs, is down, or cannot hear when it is given."""
    if when == "cut off":
        node.orders.away = True
        await node.heard()
        node.orders.list.append((order, node.clock.now))
        node.clock.now += 3600
        assert await node.served() == await node.served(OTHER) == "flushes not heard"
        node.orders.away = False
    else:
        await node.orders.post(order)
    await (node.restart() if when == "down" else node.heard())
    assert await node.served() is False
    assert await node.served(OTHER) is True


async def test_a_deleted_hit_is_refused_and_its_answer_goes(node):
    """Its id is as good here as where it was shown."""
    hit = (await node.cache.look(ask(KEPT))).entry.id
    await node.orders.post(Deleted(hit, "acme"))
    await node.orders.post(Deleted(hit[:-1] + "x", None))
    await node.heard()
    assert await node.served() is False
    assert [point.text for point in node.store.points.values()] == [OTHER]


async def test_an_age_counts_from_when_the_flush_was_given(node):
    """What was younger then is not taken, however late it is heard."""
    await node.orders.post(Flushed(Which(older_than=10)))
    node.clock.now += 60
    await node.heard()
    assert await node.served() is True


async def test_an_answer_that_was_begun_before_an_order_is_not_kept(node):
    """It is posted after the order was heard, and had begun before."""
    began = node.clock.now
    await node.orders.post(Flushed(Which(tag="door")))
    node.clock.now += 1
    await node.heard()
    await node.fill(ask(KEPT), tags=("door",), began_at=began)
    await node.heard()
    assert await node.served() is False


@pytest.mark.parametrize("when", ["running", "down"])
async def test_what_a_server_has_lost_may_have_meant_anything(node, when):
    """All that was kept by then goes; what is kept afterwards stays, also over a restart."""
    node.orders.wipe()
    await (node.restart() if when == "down" else node.heard())
    assert (await node.served(), await node.served(OTHER)) == (False, False)
    node.clock.now += 1
    await node.fill(ask(KEPT), expires_at=node.clock.now + 1e6)
    await node.heard()
    assert await node.served() is True
    await node.restart()
    assert await node.served() is True


async def test_while_its_store_does_not_obey_nothing_is_served(node):
    """Neither before the lease is over, nor afterwards; a restart in between forgets nothing."""
    node.store.away = "failed"
    await node.orders.post(Flushed(Which(tag="door")))
    await node.orders.post(Forgotten("ce-" + "1" * 24, "acme"))
    await node.heard()
    assert await node.served() == "flush pending"
    await node.restart()
    node.clock.now += 3600
    node.store.away = ""
    await node.restart()
    assert (await node.served(), await node.served(OTHER)) == (False, False)


@pytest.mark.parametrize("what", ["lease", "flush"])
async def test_what_is_on_its_way_when_it_must_not_be_served_any_more_is_not(node, what):
    """The lease ends, or a flush is heard, while the answer is fetched."""
    fetch = node.store.fetch

    async def slow(id):  # noqa: A002 - the protocol's
        point = await fetch(id)
        if what == "lease":
            node.clock.now += LEASE
        else:
            node.store.away = "failed"
            await node.orders.post(Flushed(Which(tag="door")))
            await node.heard()
        return point

    node.store.fetch = slow
    assert await node.served() == ("flushes not heard" if what == "lease" else "flush pending")


async def test_how_it_stands_tells_that_others_are_not_heard(node):
    """For the body of `/ready`."""
    assert node.cache.standing().store == "ok"
    node.clock.now += LEASE
    assert node.cache.standing().store == "other gateways are not heard"


async def test_a_store_that_takes_no_note_is_believed(node):
    """A full disk keeps nothing new; what is there is served, and an order is obeyed once more after a restart."""

    async def full(name, data):
        raise StoreAway("full")

    node.store.keep_note = full
    await node.orders.post(Flushed(Which(tag="door")))
    await node.heard()
    assert (await node.served(), await node.served(OTHER)) == (False, True)
    assert node.cache.following._noted != node.cache.following._place


async def test_what_is_refused_here_is_told_to_the_others(node):
    """As digests, once the server is there."""
    node.orders.away = True
    asked = ask(KEPT)
    await node.cache.look(asked)
    await node.cache.feedback("acme", asked.request_id, 0.0)
    await node.heard()
    node.orders.away = False
    await node.heard()
    (order,) = [order for order, _ in node.orders.list]
    other = Node()
    for pair in order.pairs:
        other.cache.refused.add(pair)
    assert other.cache.refused.bars(pair_of(SECRET, "aa", KEPT, KEPT), "acme")


STEPS = st.lists(
    st.sampled_from(
        ["ask", "hear", "wait", "long", "away", "back", "restart", "store away", "store back", "fill", "wipe", "flush"]
    )
    | st.sampled_from(["ask", "hear", "wait", "flush"]),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_nothing_is_served_that_was_flushed_a_lease_ago(steps):
    """Whatever happens to the server, the gateway and its store in between."""

    async def play():
        node, flushed = Node(), float("-inf")
        for step in ["hear", "wait", "fill", *steps]:
            match step:
                case "fill":
                    await node.fill(ask(KEPT), expires_at=node.clock.now + 1e6)
                case "flush" if not node.orders.away:
                    await node.orders.post(Flushed(Which(tenant="acme")))
                    flushed = node.clock.now
                case "hear":
                    await node.heard()
                case "wait" | "long":
                    node.clock.now += LEASE / 2 if step == "wait" else 60.0
                case "away" | "back":
                    node.orders.away = step == "away"
                case "wipe":
                    node.orders.wipe()
                case "store away" | "store back":
                    node.store.away = "failed" if step == "store away" else ""
                case "restart":
                    await node.restart()
            entry = (await node.cache.look(ask(KEPT))).entry
            if entry is not None and node.clock.now >= flushed + LEASE:
                assert entry.stored_at >= flushed

    asyncio.run(play())
