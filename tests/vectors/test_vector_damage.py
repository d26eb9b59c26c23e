"""Files that lie, and disks that refuse: what is damaged is set aside, and what is only refused is kept."""

import asyncio
import contextlib
import logging
import os
import random
import shutil
import stat
import subprocess

import pytest

pytest.importorskip("numpy", reason="numpy is not installed (the extra `semantic`)")

import psutil
from vector_points import made, vector
from vector_stores import patient

from caches.vectors.faults import ROOM
from caches.vectors.types import StoreAway


def home(stores):
    return stores.folder / "edge" / "tiergate-test-01234567-8-v1"


def broken(stores):
    return list(home(stores).parent.glob("*.broken-*"))


async def filled(stores, many=40):
    """Written down, as a gateway leaves it behind."""
    store = await stores.open()
    await store.put([made(number, answer=b"x" * 300) for number in range(many)])
    await store.tidy()
    return store


async def used(store):
    """All that a gateway does with it; the number of points that it then knows of."""
    known = [one.id async for page in store.scan() for one in page]
    await store.search("aa", vector(1.0), 60)
    for one in known:
        await store.fetch(one)
    await store.put([made(1000)])
    await store.delete([made(1000).id])
    return len(known)


async def works(store):
    """Within a few rounds of the background."""
    for _ in range(8):
        with contextlib.suppress(StoreAway):
            await store.tend()
            return await used(store)
        store._watch._breaker.open_until = 0.0
    raise AssertionError(store.status)


def noise(data):
    return random.Random(1).randbytes(len(data))


def nothing(_):
    return b""


def infinite(data):
    return b"\x00\x00\x80\x7f" * (len(data) // 4)


DAMAGE = [
    ("segments/*/payload_storage/page_0.dat", noise),
    ("segments/*/payload_storage/page_0.dat", nothing),
    ("segments/*/vector_storage/vectors/chunk_0.mmap", infinite),
    ("segments/*/vector_storage/vectors/chunk_0.mmap", nothing),
    ("segments/*/mutable_id_tracker.mappings", noise),
    ("segments/*/payload_index/*partitio-map/tracker.dat", noise),
    ("wal/open-1", noise),
]


@pytest.mark.parametrize(("files", "how"), DAMAGE, ids=[f"{how.__name__} in {files.split('/')[-1]}" for files, how in DAMAGE])
async def test_a_damaged_file_does_not_keep_the_store_off(stores, files, how, caplog):
    """Found when it is opened or when it is read, however late: the folder is set aside once, and the store goes on, empty."""
    store = await filled(stores)
    await store.close()
    for path in home(stores).glob(files):
        path.write_bytes(how(path.read_bytes()))
    again = stores.made()
    with contextlib.suppress(StoreAway):
        await again.open()
    known = await works(again)
    assert await used(again) == known
    assert again.status == "ok"
    (aside,) = broken(stores)
    assert known == 0
    assert again.renewals == 1
    told = [record.getMessage() for record in caplog.records if "begins anew" in record.getMessage()]
    assert len(told) == 1
    assert str(aside) in told[0]


async def test_damage_that_is_met_while_it_serves_is_set_aside_too(stores, caplog):
    """A page that goes bad under a running engine: one failed search, then a new beginning; the gateway is never stopped."""
    store = await filled(stores)
    (page,) = home(stores).glob("segments/*/payload_storage/page_0.dat")
    with page.open("r+b") as file:
        file.write(noise(bytes(200_000)))
    with pytest.raises(StoreAway, match="failed"):
        await store.search("aa", vector(1.0))
    await store.tend()
    assert await used(store) == 0
    assert len(broken(stores)) == 1
    assert [record.levelno for record in caplog.records if "begins anew" in record.getMessage()] == [logging.WARNING]


async def test_damage_is_noticed_also_when_its_asker_has_left(stores):
    """A search that is answered too late finds the page damaged all the same."""
    store = await filled(stores)
    (page,) = home(stores).glob("segments/*/payload_storage/page_0.dat")
    with page.open("r+b") as file:
        file.write(noise(bytes(200_000)))
    asker = asyncio.create_task(store.search("aa", vector(1.0)))
    await asyncio.sleep(0)
    asker.cancel()
    await asyncio.wait([asker])
    async with asyncio.timeout(20):
        while store._backend.alive:
            await asyncio.sleep(0.005)
    await store.tend()
    assert await used(store) == 0
    assert len(broken(stores)) == 1


async def test_only_the_last_damaged_folder_is_kept(stores):
    """So that damage, if it comes again and again, fills no disk."""
    for _ in range(2):
        store = await filled(stores, 5)
        await store.close()
        (home(stores) / "edge_config.json").write_text("{ not json")
        again = await stores.open()
        assert await used(again) == 0
        await again.close()
    assert len(broken(stores)) == 1


async def test_what_is_told_of_damage_quotes_nobody(stores, caplog):
    """The engine's complaint may quote what it read: that is somebody's question."""
    from caches.vectors.engine import _said

    assert "secret" not in _said(Exception('Failed to deserialize payload: invalid type: string "my secret, expected a map'))
    assert "secret" not in _said(Exception('invalid type: string "my secret", expected a map'))


REFUSING = """
import os, qdrant_edge
healthy = qdrant_edge.EdgeShard
MARK = {mark!r}
def refused():
    return open(MARK).read() if os.path.exists(MARK) else ""
class Shard:
    def __init__(self, inner):
        self._inner = inner
    def __getattr__(self, name):
        if name in ("update", "flush") and refused():
            raise Exception("Service runtime error: IO Error: " + refused())
        return getattr(self._inner, name)
def opened(make):
    def open_(*given):
        if refused() and os.path.exists(MARK + "-all"):
            raise Exception("Service runtime error: failed to load segment: " + refused())
        return Shard(make(*given))
    return open_
class Edge:
    create = staticmethod(opened(healthy.create))
    load = staticmethod(opened(healthy.load))
qdrant_edge.EdgeShard = Edge
"""

REFUSALS = {
    "full": "No space left on device (os error 28)",
    "full by quota": 'Os {{ code: 122, kind: FilesystemQuotaExceeded, message: "Quota exceeded" }}',
    "read-only": "Read-only file system (os error 30)",
    "no right": "Permission denied (os error 13)",
    "too many files": "Too many open files (os error 24)",
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_what_the_system_refuses_is_no_damage(stores, refusal, monkeypatch, caplog):
    """Writes are declined with the reason, it is read from as before, no breaker opens, and a restart loses nothing either."""
    caplog.set_level(logging.INFO, logger="tiergate.caches")
    reason = refusal.removesuffix(" by quota")
    tricks, mark = stores.folder / "tricks", stores.folder / "mark"
    tricks.mkdir()
    (tricks / "sitecustomize.py").write_text(REFUSING.format(mark=str(mark)))
    monkeypatch.setenv("PYTHONPATH", str(tricks), prepend=os.pathsep)
    store = await filled(stores)
    caplog.clear()
    mark.write_text(REFUSALS[refusal])
    for _ in range(5):
        with pytest.raises(StoreAway, match=reason):
            await store.put([made(100)])
    assert len(await store.search("aa", vector(1.0))) == 5
    assert store.status == f"keeps nothing new: {reason}"
    assert len(caplog.records) == 1
    await store.close()
    again = await stores.open()
    assert again.status == f"keeps nothing new: {reason}"
    assert len(await again.search("aa", vector(1.0), 60)) == 40
    await again.close()
    mark.with_name("mark-all").touch()
    again = stores.made()
    with pytest.raises(StoreAway):
        await again.open()
    assert broken(stores) == []
    mark.unlink()
    await again.tend()
    assert await used(again) == 40
    assert again.status == "ok"
    assert broken(stores) == []


@pytest.fixture
def small_disk(folder):
    """A disk of its own, with 140 MiB. One in memory gives room to the holes of files that an engine opens."""
    place = folder / "edge"
    place.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=140m", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no right to mount a disk of its own")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place, leave):
    """Somebody else's file."""
    with (place / "filler").open("wb") as file:
        while (left := shutil.disk_usage(place).free - leave) > 0:
            file.write(b"1" * min(left, 2**20))
            file.flush()


async def test_a_full_disk_takes_nothing_away(small_disk, stores, caplog):
    """Nothing new is kept, what was is read, after a restart too, deleting goes on, and with room again so does keeping."""
    caplog.set_level(logging.INFO, logger="tiergate.caches")
    await (await filled(stores)).close()
    store = await stores.open()
    (engine,) = [child for child in psutil.Process().children() if "caches.vectors.engine" in child.cmdline()]
    fill(small_disk, ROOM - 2**20)
    for number in range(5):
        with pytest.raises(StoreAway, match="full"):
            await store.put([made(number + 100, answer=os.urandom(10_000))])
    await store.delete([made(0).id])
    await store.tidy()
    assert len(await store.search("aa", vector(1.0), 60)) == 39
    assert engine.is_running()
    await store.close()
    caplog.clear()
    again = await stores.open()
    assert again.status == "keeps nothing new: full"
    assert len(await again.search("aa", vector(1.0), 60)) == 39
    with pytest.raises(StoreAway, match="full"):
        await again.put([made(100)])
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING]
    (small_disk / "filler").unlink()
    await again.put([made(100)])
    assert again.status == "ok"
    assert len(await again.search("aa", vector(1.0), 60)) == 40
    assert broken(stores) == []


async def test_a_disk_without_a_byte_takes_nothing_away(small_disk, stores):
    """Whatever becomes of the engine there, its folder is as it was, and is read again once there is room."""
    store = await filled(stores)
    fill(small_disk, 0)
    for _ in range(4):
        with contextlib.suppress(StoreAway):
            await store.put([made(100)])
    await store.close()
    again = stores.made()
    for _ in range(4):
        with contextlib.suppress(StoreAway):
            await again.tend()
    (small_disk / "filler").unlink()
    await again.tend()
    assert await used(again) == 40
    assert broken(stores) == []


async def test_nobody_else_may_read_what_is_kept(stores):
    """Whatever the umask: its folder is for this user alone, also one that an engine has made for everybody, and so are notes."""
    before = os.umask(0o000)
    try:
        store = await filled(stores)
        await store.keep_note("learned", b"something")
        await store.close()
        home(stores).chmod(0o755)
        await (await stores.open(times=patient())).close()
    finally:
        os.umask(before)
    notes = home(stores).with_name(f"{home(stores).name}.notes")
    for folder in (home(stores), notes):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for path in folder.rglob("*"):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
