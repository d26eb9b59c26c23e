"""A Qdrant server that is slow, stopped, wrong or wiped, over real sockets and a proxy that breaks."""

import asyncio
import logging
import random
import warnings

import pytest

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed (the extra `qdrant`)")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed (the extra `semantic`)")

from tcp_proxy import Proxy
from vector_points import NOW, made, vector
from vector_stores import Stores, patient

from caches.vectors.options import IndexOptions, ServerOptions
from caches.vectors.remote import client_of
from caches.vectors.types import StoreAway


@pytest.fixture
async def proxy(standin):
    proxy = await Proxy(standin.port).start()
    yield proxy
    await proxy.stop()


@pytest.fixture
async def far(folder, proxy):
    """Stores that reach the stand-in through the proxy."""
    found = Stores("rest", folder, proxy.port)
    yield found
    await found.close()


async def asked(store):
    return [match.id for match in await store.search("aa", vector(1.0))]


async def away(store):
    with pytest.raises(StoreAway) as caught:
        await asked(store)
    return caught.value.reason


def stall(_, proxy):
    proxy.open.clear()


def drip(_, proxy):
    proxy.delay = 0.2


async def stop(_, proxy):
    proxy.refuses = True
    await proxy.cut()


def fail(standin, _):
    standin.fault = 500


def refuse_the_key(standin, _):
    standin.fault = 403


def garbage(standin, _):
    standin.fault = "garbage"


def short(standin, _):
    standin.fault = "short"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [(stall, "timeout"), (drip, "timeout"), (stop, "failed"), (fail, "failed"), (refuse_the_key, "failed"), (garbage, "failed")],
)
async def test_what_is_slow_stopped_or_wrong_is_away_in_time_and_comes_back(far, standin, proxy, broken, reason, caplog):
    """StoreAway by the deadline, then at once by the breaker; afterwards all is as before, without a restart."""
    caplog.set_level(logging.INFO, logger="tiergate.caches")
    store = await far.open(times=patient(search=0.1))
    await store.put([made(1)])
    caplog.clear()
    done = broken(standin, proxy)
    if done is not None:
        await done
    assert [await away(store) for _ in range(5)] == [reason] * 3 + ["breaker"] * 2
    assert store.status != "ok"
    standin.fault, proxy.delay, proxy.refuses = None, 0.0, False
    proxy.open.set()
    assert await away(store) == "breaker"
    far.steady.now += 20.0
    await store.put([made(2)])
    assert sorted(await asked(store)) == [made(1).id, made(2).id]
    assert store.status == "ok"
    assert len(caplog.records) == 2  # away, and back


async def test_a_vector_of_another_length_is_no_match(far, standin):
    """Vectors that cannot be compared are a wrong answer, not a hit and not a crash."""
    store = await far.open()
    await store.put([made(1)])
    standin.fault = "short"
    assert await away(store) == "failed"


async def test_a_server_that_forgets_the_filter_gives_nothing_away(far, standin):
    """What comes back of another partition, or expired, is left out here too."""
    store = await far.open()
    await store.put([made(1, "bb"), made(2, "aa"), made(3, "aa", ttl=1.0)])
    far.clock.now = NOW + 1.0
    standin.fault = "strangers"
    assert await asked(store) == [made(2).id]


async def test_a_connection_that_is_cut_in_the_middle_is_made_again(far, proxy):
    """Connections that were kept and have died cost one failed call at most."""
    store = await far.open()
    await store.put([made(1)])
    waiting = asyncio.create_task(away(store))
    proxy.open.clear()
    await asyncio.sleep(0.05)
    await proxy.cut()
    assert await waiting == "failed"
    proxy.open.set()
    assert await asked(store) == [made(1).id]


async def test_a_server_that_is_not_there_at_first_is_found_later(far, proxy, caplog):
    """Opening says that it failed, and why; the background tries until it is there. One line in the log, not one a try."""
    proxy.refuses = True
    store = far.made()
    with pytest.raises(StoreAway, match="failed"):
        await store.open()
    assert store.status != "ok"
    for _ in range(3):
        with pytest.raises(StoreAway):
            await store.tend()
    assert len(caplog.records) == 1
    proxy.refuses = False
    await store.tend()
    assert store.status == "ok"
    await store.put([made(1)])
    assert await asked(store) == [made(1).id]


async def test_a_wiped_server_gets_its_collection_again(far, standin):
    """A miss while it is not there, then everything is made anew in the background, indexes and notes as well."""
    store = await far.open()
    await store.put([made(1)])
    await store.keep_note("learned", b"1")
    standin.wipe()
    assert await away(store) == "failed"
    await store.tend()
    assert await asked(store) == []
    assert await store.note("learned") is None
    await store.put([made(2)])
    await store.keep_note("learned", b"2")
    assert await asked(store) == [made(2).id]
    assert await store.note("learned") == b"2"
    indexes = [path for method, path in standin.asked if method == "PUT" and path.endswith("/index")]
    assert len(indexes) == 12


async def test_a_mark_waits_here_for_a_server_that_is_away(far, proxy, folder):
    """Who ends meanwhile loses none: the next process brings it, and nothing of it stays behind."""
    proxy.refuses = True
    store = far.made(beside=folder / "beside")
    with pytest.raises(StoreAway):
        await store.open()
    with pytest.raises(StoreAway):
        await store.mark("one", b"a flush")
    await store.close()
    proxy.refuses = False
    again = await far.open(beside=folder / "beside")
    assert await again.marks() == {"one": b"a flush"}
    assert [path for path in (folder / "beside").rglob("*") if path.is_file()] == []
    assert await (await far.open()).marks() == {"one": b"a flush"}


async def test_two_nodes_that_open_at_once_share_one_collection(far):
    """Both find or make it, whoever is first, and see each other's points."""
    one, two = far.made(), far.made(rng=random.Random(2))
    await asyncio.gather(one.open(), two.open())
    await one.put([made(1)])
    assert await asked(two) == [made(1).id]


async def test_of_too_many_the_oldest_go(far):
    """With a bound, the background deletes the oldest until there are no more than that."""
    store = await far.open(max_points=50)
    await store.put([made(number, at=NOW + number, ttl=9999.0) for number in range(80)])
    await store.tend()
    left = [known.stored_at - NOW async for page in store.scan() for known in page]
    assert sorted(left) == list(range(30, 80))


async def test_what_an_operator_chose_reaches_the_server(far, standin):
    """Graph, quantisation, shards and replicas are passed through when the collection is made."""
    seen = []
    create = standin.create
    standin.create = lambda name, body: (seen.append(body), create(name, body))[1]
    await far.open(
        options=IndexOptions(m=4, payload_m=8, quantization="scalar", vectors_on_disk=True),
        server=ServerOptions(shards=2, replicas=3, write_consistency=2),
    )
    body = seen[0]
    assert (body["hnsw_config"]["m"], body["hnsw_config"]["payload_m"]) == (4, 8)
    assert body["quantization_config"]["scalar"]["type"] == "int8"
    assert body["vectors"]["on_disk"] is True
    assert (body["shard_number"], body["replication_factor"], body["write_consistency_factor"]) == (2, 3, 2)


async def test_a_key_is_sent_and_never_told(standin, folder, caplog):
    """In a header, without a warning, over plain http too; and no failure repeats it."""
    stores = Stores("rest", folder, standin.port)
    stores.connect = lambda: client_of(f"http://127.0.0.1:{standin.port}", api_key="a-secret-key")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = await stores.open()
    assert {head.get("api-key") for head in standin.headers} == {"a-secret-key"}
    standin.fault = 403
    with pytest.raises(StoreAway) as caught:
        await asked(store)
    assert "a-secret-key" not in caplog.text + store.status + repr(caught.value.__cause__)
    standin.fault = None
    await stores.close()


async def test_proxies_of_the_environment_are_not_used(standin, folder, monkeypatch):
    """What a machine's users browse through is no way to its database."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    stores = Stores("rest", folder, standin.port)
    store = await stores.open()
    assert store.status == "ok"
    await stores.close()
