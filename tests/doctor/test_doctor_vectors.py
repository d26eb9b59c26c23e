"""The semantic cache's store, embedded and on a server: real ones, with what goes wrong with them planted."""

import os
import shutil
import ssl
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
import yaml
from doctor_talk import config

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (the extra `semantic`)")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed (the extra `semantic`)")
pytest.importorskip("qdrant_client", reason="qdrant-client is not installed (the extra `qdrant`)")

sys.path.insert(0, str(Path(__file__).parents[1] / "vectors"))
import numpy as np
from vector_points import made
from vector_stores import patient, serving

from caches.embed import minilm
from caches.vectors.embedded import embedded_store
from caches.vectors.remote import client_of, remote_store
from gateway.build.semantic import collection_of
from gateway.config import examine, parse
from gateway.doctor import disk, vectors
from gateway.doctor.vectors import StoreFacts

QDRANT = "cache.semantic.qdrant"
MEMORY = Path("/dev/shm")
HOME = collection_of(minilm.folder().about)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory for stores, in memory where there is such a place: an engine writes through to the disk."""
    with tempfile.TemporaryDirectory(prefix="tiergate-", dir=MEMORY if MEMORY.is_dir() else tmp_path) as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


@pytest.fixture
def look(tmp_path):
    """`await look(key=value, …)`: what is found about the store of that `qdrant` section, as (severity, key, what and mend)."""

    async def ask(**qdrant):
        section = {"enabled": True, "qdrant": {"timeout": "10s", **qdrant}}
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(config("http://127.0.0.1:1/v1", cache={"secret": "x", "semantic": section})))
        tree = examine(path, {}).config
        found = [] if "url" in qdrant else vectors.folder(tree.cache.semantic.qdrant.path, minilm.folder().about)
        if not any(finding.severity == "fail" for finding in found):
            found += vectors.judge(tree, await vectors.ask(tree, minilm.folder().about, 3.0), time.time())
        return [(finding.severity, finding.key, f"{finding.what} | {finding.mend}") for finding in found]

    return ask


async def filled(place, many=3):
    """A store in which a gateway has kept so many answers, closed."""
    store = embedded_store(place, HOME, 384)
    await store.open()
    vector = np.eye(1, 384, dtype=np.float32)[0]
    await store.put([replace(made(number), vector=vector) for number in range(many)])
    await store.close()
    return place / HOME


def tree_of(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


async def test_a_store_that_is_still_to_be_made_is_tried_elsewhere(look, place):
    """The engine takes and gives a point back, and nothing is left at the place nor anywhere else."""
    ((severity, key, what),) = await look(path=str(place / "data" / "qdrant"))
    assert (severity, key) == ("ok", f"{QDRANT}.path")
    assert "no collection of this embedder yet" in what
    assert tree_of(place) == []


async def test_a_store_with_answers_is_opened_as_it_is(look, place):
    """What is in it is counted, and still there; the probe is not."""
    os.chmod(place, 0o700)
    await filled(place)
    for _ in range(2):
        ((severity, _, what),) = await look(path=str(place))
        assert severity == "ok"
        assert "has 3 answers" in what


async def test_a_store_that_a_gateway_has_is_left_alone(look, place):
    """It is said who has it, and nothing is wrong."""
    os.chmod(place, 0o700)
    store = embedded_store(place, HOME, 384)
    await store.open()
    try:
        ((severity, _, what),) = await look(path=str(place))
    finally:
        await store.close()
    assert severity == "ok"
    assert "a gateway is running" in what
    assert what.split()[1].isdigit()


@pytest.mark.parametrize("damage", ["config", "segments", "file"])
async def test_a_damaged_store_is_found_and_left_as_it_is(look, place, damage):
    """What cannot be opened is a failure; nothing is moved aside, which is the gateway's to do."""
    os.chmod(place, 0o700)
    home = await filled(place)
    if damage == "config":
        (home / "edge_config.json").write_text("{ not json")
    elif damage == "segments":
        for file in home.glob("segments/*/segment.json"):
            file.write_bytes(b"\x00" * 10)
    else:
        shutil.rmtree(home)
        home.write_bytes(b"a file where a directory should be")
    before = tree_of(place)
    ((severity, key, what),) = await look(path=str(place))
    assert (severity, key) == ("fail", f"{QDRANT}.path")
    assert "cannot be opened" in what
    assert tree_of(place) == before


@pytest.mark.parametrize(("mode", "who"), [(0o700, ""), (0o755, "every user"), (0o750, "its group"), (0o711, "")])
async def test_a_folder_that_others_may_read_is_a_warning(look, place, mode, who):
    """Questions and answers lie there in plain text; the bits of the directories above it count as well."""
    home = await filled(place, 1)
    os.chmod(place, 0o755)
    os.chmod(home, mode)
    found = [line for line in await look(path=str(place)) if line[0] == "warn"]
    assert home.stat().st_mode & 0o777 == mode
    assert [key for _, key, _ in found] == [f"{QDRANT}.path"] * bool(who)
    assert all(who in what and "plain text" in what and "chmod" in what for _, _, what in found)
    os.chmod(place, 0o700)
    assert disk.open_to(home) == ""


async def test_a_place_that_is_a_file_is_found(look, place):
    """There can be no directory below it, so no store is tried."""
    (place / "data").write_text("")
    ((severity, key, what),) = await look(path=str(place / "data" / "qdrant"))
    assert (severity, key) == ("fail", f"{QDRANT}.path")
    assert "is a file" in what


@pytest.mark.parametrize(("took", "found"), [(0.024, ["ok"]), (0.026, ["ok", "warn"])])
def test_a_search_that_takes_longer_than_it_may_is_a_warning(took, found):
    """From half of what it may take on, for a busier hour will come."""
    tree = parse(yaml.safe_dump(config("http://127.0.0.1:1/v1")), "config.yaml")
    told = vectors.judge(tree, StoreFacts(search=took), 0.0)
    assert sorted(finding.severity for finding in told) == found
    assert all("may take 50 ms" in finding.what for finding in told if finding.severity == "warn")


# -- a server


@pytest.fixture
async def server(place):
    async with serving(place) as standin:
        yield standin


def url(server):
    return f"http://127.0.0.1:{server.port}"


async def test_a_server_is_probed_in_a_collection_that_is_deleted_again(look, server):
    """Written, found, read and deleted; its version is told; no collection is left where there was none."""
    ((severity, key, what),) = await look(url=url(server))
    assert (severity, key) == ("ok", f"{QDRANT}.url")
    assert "Qdrant 1.17.0" in what
    assert "no collection of this embedder yet" in what
    assert server.shards == {}


async def test_the_gateways_own_collection_is_probed_where_there_is_one(look, server):
    """It keeps its collection, and no point more."""
    store = remote_store(lambda: client_of(url(server)), HOME, 384, times=patient())
    await store.open()
    await store.close()
    ((severity, _, what),) = await look(url=url(server))
    assert severity == "ok"
    assert "has 0 answers" in what
    assert set(server.shards) == {HOME, f"{HOME}-notes"}


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        (None, f"{QDRANT}.url", "refuses requests without an API key (401)"),
        ("wr0ng-key", f"{QDRANT}.api_key", "refuses this API key (401)"),
        ("s3cr3t", None, ""),
    ],
)
async def test_an_api_key_that_is_refused_is_found(look, server, given, key, said):
    """None, or another one, which is not repeated; the right one is well."""
    server.key = "s3cr3t"
    found = [line for line in await look(url=url(server), **({"api_key": given} if given else {})) if line[0] != "ok"]
    assert [where for _, where, _ in found] == ([key] if key else [])
    assert all(said in what and "wr0ng" not in what and "s3cr3t" not in what for _, _, what in found)


@pytest.mark.parametrize(("fault", "said"), [(500, "500"), ("garbage", "cannot be used"), ("forgets", "is not found")])
async def test_a_server_that_does_not_keep_what_it_is_given_is_found(look, server, fault, said):
    """It answers, and yet is of no use."""
    server.fault = fault
    ((severity, key, what),) = await look(url=url(server))
    assert (severity, key) == ("fail", f"{QDRANT}.url")
    assert said in what


async def test_nobody_there_is_found(look, place, free_port):
    """The connection is refused: the port that Qdrant usually has is named."""
    ((severity, key, what),) = await look(url=f"http://127.0.0.1:{free_port}")
    assert (severity, key) == ("fail", f"{QDRANT}.url")
    assert f"127.0.0.1:{free_port}" in what
    assert "6333" in what


async def test_a_certificate_that_the_client_does_not_trust_is_found(look, place, serve):
    """For the reason that it has, as of a replica."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    engine = await serve(context=context)
    ((severity, key, what),) = await look(url=f"https://127.0.0.1:{engine.port}")
    assert (severity, key) == ("fail", f"{QDRANT}.url")
    assert "CA that this machine does not know" in what


async def test_a_key_that_goes_over_plain_http_is_a_warning(look, place):
    """Beyond this machine anybody on the way may read it, and every question."""
    found = await look(url="http://qdrant.invalid:6333", api_key="s3cr3t")
    assert ("warn", f"{QDRANT}.url") in [(severity, key) for severity, key, _ in found]
    assert "s3cr3t" not in str(found)
