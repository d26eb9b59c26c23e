"""The embedded engine and its process: what happens when either end dies, hangs, or finds rubbish."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="numpy is not installed (the extra `semantic`)")

import psutil
from vector_points import DIMENSION, NOW, made, vector
from vector_stores import patient

from caches.vectors.types import StoreAway
from caches.which import Which


def engines():
    return [child for child in psutil.Process().children() if "caches.vectors.engine" in child.cmdline()]


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


async def killed(store):
    """Its engine is killed, and the store has noticed."""
    (engine,) = engines()
    engine.kill()
    await until(lambda: not store._backend.alive)


async def count(store):
    return (await store.stats()).points


async def test_closing_ends_the_process(stores):
    """No process stays behind, and none is there before the store is opened."""
    store = stores.made()
    assert engines() == []
    await store.open()
    assert len(engines()) == 1
    await store.close()
    assert engines() == []


async def test_a_killed_engine_loses_nothing_and_is_replaced(stores):
    """Killed at any moment: what was answered is still there, and the store goes on without a restart of the gateway."""
    store = await stores.open()
    await store.put([made(number) for number in range(40)])
    await store.delete([made(0).id])
    await killed(store)
    with pytest.raises(StoreAway, match="failed"):
        await store.search("aa", vector(1.0))
    await store.tend()
    assert await count(store) == 39
    assert len(await store.search("aa", vector(1.0))) == 5
    assert store.status == "ok"


async def test_an_engine_that_hangs_costs_no_more_than_the_deadline(stores, caplog):
    """Calls end by their deadline, then at once by the breaker; when it goes on, so does the store."""
    store = await stores.open(times=patient(search=0.05))
    await store.put([made(1)])
    (engine,) = engines()
    caplog.clear()
    caplog.set_level(logging.INFO, logger="tiergate.caches")
    engine.suspend()
    try:
        for _ in range(3):
            with pytest.raises(StoreAway, match="timeout"):
                await store.search("aa", vector(1.0))
        for _ in range(3):
            with pytest.raises(StoreAway, match="breaker"):
                await store.search("aa", vector(1.0))
        assert "no answer in time" in store.status
    finally:
        engine.resume()
    stores.steady.now += 20.0
    assert await count(store) == 1
    assert [match.id for match in await store.search("aa", vector(1.0))] == [made(1).id]
    assert store.status == "ok"
    assert len(caplog.records) == 2  # away, and back


async def test_an_engine_that_hangs_for_good_is_replaced(stores):
    """Silent for half a minute with an answer owed: it is killed, and another one begins."""
    store = await stores.open(times=patient(search=0.05))
    await store.put([made(1)])
    (engine,) = engines()
    engine.suspend()
    with pytest.raises(StoreAway, match="timeout"):
        await store.search("aa", vector(1.0))
    stores.steady.now += 31.0
    await store.tend()
    assert await count(store) == 1
    (other,) = engines()
    assert other.pid != engine.pid


async def test_a_crowd_before_a_hanging_engine_is_refused(stores, monkeypatch):
    """No more than so many calls wait for the engine; who leaves makes room."""
    monkeypatch.setattr("caches.vectors.life._MOST_QUEUED", 60)
    store = await stores.open()
    (engine,) = engines()
    engine.suspend()
    waiting = [asyncio.create_task(store.search("aa", vector(1.0))) for _ in range(64)]
    await asyncio.sleep(0)
    with pytest.raises(StoreAway, match="overload"):
        await store.search("aa", vector(1.0))
    waiting[-1].cancel()
    await asyncio.sleep(0)
    another = asyncio.create_task(store.search("aa", vector(1.0)))
    await asyncio.sleep(0)
    engine.resume()
    assert await asyncio.gather(*waiting[:-1], another) == [[]] * 64


async def test_fifty_at_once_are_all_answered(stores):
    """In the usual time, by an engine that is laying its points out when they come: none is turned away."""
    store = await stores.open(times=patient(search=10.0))
    await store.put([made(number, f"{number % 7:x}") for number in range(500)])
    tidying = asyncio.create_task(store.tidy())
    await asyncio.sleep(0)
    found = await asyncio.gather(*(store.search(f"{number % 7:x}", vector(1.0)) for number in range(50)))
    assert [len(matches) for matches in found] == [5] * 50
    ids = [made(number).id for number in range(50)]
    assert [point.id for point in await asyncio.gather(*map(store.fetch, ids))] == ids
    await tidying


async def test_a_burst_opens_no_breaker(stores):
    """Who waits too long for a turn is told so, and the engine is thought well of."""
    store = await stores.open(times=patient(search=1.0))
    (engine,) = engines()
    engine.suspend()
    busy = [asyncio.create_task(store.stats()) for _ in range(4)]
    await asyncio.sleep(0)
    refused = await asyncio.gather(*(store.search("aa", vector(1.0)) for _ in range(20)), return_exceptions=True)
    assert {getattr(each, "reason", each) for each in refused} == {"overload"}
    assert store.status == "ok"
    engine.resume()
    assert len(await asyncio.gather(*busy)) == 4


async def test_what_nobody_waits_for_any_more_is_not_asked(stores):
    """A hundred that came too late cost those behind them nothing: the engine never hears of them."""
    store = await stores.open()
    (engine,) = engines()
    engine.suspend()
    late = [asyncio.create_task(store.search("aa", vector(1.0))) for _ in range(100)]
    await asyncio.sleep(0)
    for task in late:
        task.cancel()
    await asyncio.wait(late)
    last = asyncio.create_task(store.search("aa", vector(1.0)))
    await asyncio.sleep(0)
    line = store._backend._life._process._line
    assert line.queued == 1
    assert len(line.waiting) <= 4
    engine.resume()
    assert await last == []


async def test_a_second_process_is_told_that_the_directory_is_in_use(stores, caplog):
    """It is refused with the number of the process that has it, and the first one is not disturbed."""
    first = await stores.open()
    (engine,) = engines()
    second = stores.made(lock_seconds=0.1)
    with pytest.raises(StoreAway):
        await second.open()
    assert second.status == f"EngineGone: process {engine.pid} is using {stores.folder / 'edge' / 'tiergate-test-01234567-8-v1'}"
    await first.put([made(1)])
    assert await count(first) == 1
    await first.close()
    await second.tend()
    assert second.status == "ok"
    assert await count(second) == 1


OWNER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from vector_stores import Stores
from vector_points import made
async def main():
    stores = Stores("embedded", Path({folder!r}), 0)
    store = await stores.open()
    await store.put([made(number) for number in range(10)])
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_killed_owner_leaves_no_engine_and_no_lock(stores):
    """The engine of a gateway that was killed ends by itself; the next gateway opens the same directory, with all in it."""
    here = Path(__file__)
    code = OWNER.format(tests=str(here.parent), folder=str(stores.folder))
    env = {**os.environ, "PYTHONPATH": str(here.parents[2])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env, text=True) as owner:
        assert await asyncio.to_thread(owner.stdout.readline) == "ready\n"
        (engine,) = psutil.Process(owner.pid).children()
        owner.kill()
    store = await stores.open()
    await until(lambda: not engine.is_running())
    assert await count(store) == 10


async def test_signals_meant_for_the_gateway_do_not_stop_the_engine(stores):
    """Ctrl-C reaches the whole group, and the gateway still drains: the engine goes on until it is closed."""
    store = await stores.open()
    (engine,) = engines()
    engine.send_signal(signal.SIGINT)
    engine.send_signal(signal.SIGTERM)
    await store.put([made(1)])
    assert await count(store) == 1


def shard(stores):
    return stores.folder / "edge" / "tiergate-test-01234567-8-v1"


@pytest.mark.parametrize("broken", ["config", "segments", "file"])
async def test_a_broken_directory_is_moved_aside(stores, broken, caplog):
    """The store begins empty, says so in the log, and keeps what was there for whoever wants to look."""
    store = await stores.open()
    await store.put([made(1)])
    await store.close()
    home = shard(stores)
    if broken == "config":
        (home / "edge_config.json").write_text("{ not json")
    elif broken == "segments":
        for file in home.glob("segments/*/segment.json"):
            file.write_bytes(b"\x00" * 10)
    else:
        for file in sorted(home.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        home.rmdir()
        home.write_bytes(b"a file where a directory should be")
    again = await stores.open()
    assert again.status == "ok"
    await again.put([made(2)])
    assert await count(again) == 1
    (aside,) = home.parent.glob(f"{home.name}.broken-*")
    assert any(str(aside) in record.getMessage() for record in caplog.records)


SICK = """
import os, qdrant_edge
healthy = qdrant_edge.EdgeShard
class Sick:
    create = staticmethod(healthy.create)
    load = staticmethod(lambda *_: os._exit(9))
qdrant_edge.EdgeShard = Sick
"""


async def test_what_kills_the_engine_is_moved_aside_too(stores, monkeypatch):
    """An engine that dies twice of what it reads, without a word, gets an empty directory at the third try."""
    store = await stores.open()
    await store.put([made(1)])
    await store.close()
    sick = stores.folder / "sick"
    sick.mkdir()
    (sick / "sitecustomize.py").write_text(SICK)
    monkeypatch.setenv("PYTHONPATH", str(sick), prepend=os.pathsep)
    again = stores.made()
    for _ in range(2):
        with pytest.raises(StoreAway, match="failed"):
            await again.open()
    await again.open()
    assert await count(again) == 0
    (aside,) = shard(stores).parent.glob("*.broken-*")
    assert (aside / "edge_config.json").exists()


async def test_a_place_that_cannot_be_written_is_no_store(stores):
    """It is told why, and tried again: when the place is there, the store is."""
    (stores.folder / "edge").write_bytes(b"no directory")
    store = stores.made()
    with pytest.raises(StoreAway, match="failed"):
        await store.open()
    assert "exists" in store.status
    (stores.folder / "edge").unlink()
    await store.tend()
    assert store.status == "ok"


async def test_trying_again_waits_longer_each_time(stores):
    """One second, then two, then four: by the clock, not by how often it is asked."""
    (stores.folder / "edge").write_bytes(b"no directory")
    store = stores.made(times=patient(retry=1.0))
    with pytest.raises(StoreAway):
        await store.open()
    (stores.folder / "edge").unlink()
    stores.steady.now = 0.9
    with pytest.raises(StoreAway):
        await store.tend()
    stores.steady.now = 1.0
    await store.tend()
    assert store.status == "ok"


async def test_the_oldest_make_room(stores):
    """Never more than `max_points`, and it is the oldest that go."""
    store = await stores.open(max_points=100)
    for start in range(0, 250, 10):
        await store.put([made(number, at=NOW + number, ttl=9999.0) for number in range(start, start + 10)])
        assert await count(store) <= 100
    left = [known.stored_at - NOW async for page in store.scan() for known in page]
    assert min(left) == 250 - len(left)
    assert len(left) >= 90


async def test_tidying_that_lasts_refuses_searches_and_loses_nothing(stores):
    """What the engine's laying out makes late is `busy`, which opens no breaker, and a write waits."""
    store = await stores.open(times=patient(search=0.01))
    await store.put([made(number, f"{number % 7:x}") for number in range(500)])
    backend = store._backend
    (engine,) = engines()
    engine.suspend()
    tidying = asyncio.create_task(backend.tidy())
    await asyncio.sleep(0)
    for _ in range(4):
        with pytest.raises(StoreAway, match="busy"):
            await store.search("1", vector(1.0))
    engine.resume()
    await store.put([made(1000)])
    await tidying
    assert await count(store) == 501
    store._times = patient()
    assert len(await store.search("1", vector(1.0))) == 5
    assert store.status == "ok"


async def test_when_it_is_time_to_tidy(stores):
    """After many changes and a moment of rest, at four times as many at once, and after minutes for a single one."""
    from caches.vectors.embedded import Tidying

    store = await stores.open(tidying=Tidying(changes=20, idle=0.5, rest=300.0))
    backend = store._backend
    done = []
    backend.tidy = lambda: _note(done, backend)
    steady = stores.steady

    async def tended():
        done.clear()
        await store.tend()
        return bool(done)

    await store.put([made(number) for number in range(19)])
    assert not await tended()
    await store.delete([made(1).id])
    await store.search("aa", vector(1.0))
    assert not await tended()
    steady.now += 0.5
    assert await tended()
    await store.put([made(number) for number in range(80)])
    await store.search("aa", vector(1.0))
    assert await tended()
    await store.put([made(1)])
    steady.now += 299.0
    assert not await tended()
    steady.now += 1.0
    assert await tended()
    steady.now += 1000.0
    assert not await tended()


async def _note(done, backend):
    done.append(True)
    backend._changes = 0
    backend._tidied_at = backend._steady()


async def test_the_background_sweeps_and_tidies(stores):
    """Nobody has to ask for it."""
    store = await stores.open(times=patient(tend=0.001, sweep=0.0))
    await store.put([made(1, ttl=10.0), made(2, ttl=20.0)])
    stores.clock.now = NOW + 15.0
    while await count(store) != 1:
        await asyncio.sleep(0.005)


async def test_flushing_one_tenant_of_many(stores):
    """Only its points go, and they are told by their ids."""
    store = await stores.open()
    await store.put([made(number, f"{number % 50:x}", tenant=f"tenant-{number % 50}") for number in range(1000)])
    ids = await store.flush(Which(tenant="tenant-7"))
    assert sorted(ids) == [made(number).id for number in range(7, 1000, 50)]
    assert await count(store) == 980


async def test_the_log_and_the_repr_tell_nobody_what_was_asked(stores, caplog):
    """Neither questions nor answers are in a log line, an error or a repr."""
    caplog.set_level(logging.DEBUG, logger="tiergate.caches")
    store = await stores.open()
    point = made(1, text="a secret question", answer=b"a secret answer")
    await store.put([point])
    (match,) = await store.search("aa", vector(1.0))
    back = await store.fetch(point.id)
    await killed(store)
    with pytest.raises(StoreAway) as caught:
        await store.put([point])
    told = repr((match, back, caught.value, caught.value.__cause__)) + caplog.text + store.status
    assert "secret" not in told
    assert DIMENSION == 8
