"""Sources that ask the DNS, against a real name server on a port of its own."""

import asyncio
import socket

import pytest

pytest.importorskip("dns", reason="dnspython is not installed")

import dns.rcode
from name_server import NameServer

from gateway.config.schema import Discover
from gateway.discovery.make import make_source
from gateway.discovery.records import AddressRecords
from gateway.discovery.system import SystemLookup
from gateway.discovery.types import Addresses, LookFailed, name_of

NAME, SERVICE = "vllm.test", "_http._tcp.vllm.test"


@pytest.fixture
async def server():
    async with NameServer() as running:
        yield running


def source(server, kind="dns", **keys):
    keys = {"port": 8000, **keys} if kind == "dns" else keys
    return make_source(Discover(kind=kind, name=NAME if kind == "dns" else SERVICE, servers=(server.address,), **keys), None)


def urls(found):
    return {replica.name: replica.url for replica in found.replicas}


async def test_addresses_of_both_families(server):
    """A and AAAA records become replicas with stable, safe names, in their order."""
    server.zone = {(NAME, "A"): ["10.0.0.12", "10.0.0.11"], (NAME, "AAAA"): ["fd00::1"]}
    found = await source(server).look()
    assert list(urls(found).items()) == [
        ("10-0-0-11-8000", "http://10.0.0.11:8000/v1"),
        ("10-0-0-12-8000", "http://10.0.0.12:8000/v1"),
        ("fd00-0000-0000-0000-0000-0000-0000-0001-8000", "http://[fd00::1]:8000/v1"),
    ]
    assert found.ttl == 1.0


async def test_what_the_config_adds_is_there(server):
    """Scheme, path and the name that the certificate must be for come from the entry."""
    server.zone = {(NAME, "A"): ["10.0.0.11"]}
    (replica,) = (await source(server, scheme="https", path="/engine/v1").look()).replicas
    assert replica.url == "https://10.0.0.11:8000/engine/v1"
    assert replica.tls.server_name == NAME


async def test_services_of_the_lowest_priority(server):
    """SRV records bring target and port; those of a higher priority number are left out, and the TTL is told."""
    server.ttl = 42
    server.zone = {(SERVICE, "SRV"): ["10 5 8000 b.vllm.test.", "10 5 8001 a.vllm.test.", "20 5 8000 spare.vllm.test."]}
    found = await source(server, "srv").look()
    assert urls(found) == {
        "a-vllm-test-8001": "http://a.vllm.test:8001/v1",
        "b-vllm-test-8000": "http://b.vllm.test:8000/v1",
    }
    assert found.ttl == 42.0


@pytest.mark.parametrize("target", [".", r"evil\032host.test.", r"a\010b.test.", r"\"quoted\".test."])
async def test_targets_that_are_no_hosts_are_left_out(server, target):
    """A hostile or absent target spoils nothing but itself."""
    server.zone = {(SERVICE, "SRV"): [f"1 1 8000 {target}", "1 1 8000 good.test."]}
    assert urls(await source(server, "srv").look()) == {"good-test-8000": "http://good.test:8000/v1"}


async def test_port_zero_is_no_service(server):
    """An SRV record without a port alone is no answer."""
    server.zone = {(SERVICE, "SRV"): ["1 1 0 good.test."]}
    with pytest.raises(LookFailed, match="holds no address"):
        await source(server, "srv").look()


@pytest.mark.parametrize("kind", ["dns", "srv"])
@pytest.mark.parametrize(
    ("rcode", "message"),
    [(None, "no such name"), (dns.rcode.SERVFAIL, "the lookup failed"), (dns.rcode.REFUSED, "the lookup failed")],
)
async def test_errors_of_the_server_are_failures(server, kind, rcode, message):
    """NXDOMAIN, SERVFAIL and REFUSED are no answers."""
    server.rcode = rcode
    with pytest.raises(LookFailed, match=message):
        await source(server, kind).look()


@pytest.mark.parametrize("kind", ["dns", "srv"])
async def test_a_name_without_such_records_is_a_failure(server, kind):
    """The name is there, its records are not."""
    server.zone = {(NAME, "TXT"): ['"x"'], (SERVICE, "TXT"): ['"x"']}
    with pytest.raises(LookFailed, match="holds no address"):
        await source(server, kind).look()


@pytest.mark.parametrize("raw", [b"", b"\x81\x80", b"\xff" * 100])
async def test_rubbish_is_a_failure_in_bounded_time(server, raw, monkeypatch):
    """Bytes that are no DNS message, or no message at all, end the look as a failure."""
    monkeypatch.setattr("gateway.discovery.records._SECONDS", 0.2)
    server.raw = raw
    with pytest.raises(LookFailed):
        await source(server, "srv").look()
    server.raw, server.mute = None, True
    with pytest.raises(LookFailed, match="no answer within"):
        await source(server, "dns").look()


async def test_too_many_addresses_are_a_failure():
    """More than a model may have changes nothing, rather than some of them at random."""
    addresses = Addresses(Discover(kind="dns", name=NAME, port=1), None)
    places = [(f"10.0.{n // 256}.{n % 256}", 1) for n in range(1025)]
    assert len(addresses.replicas(places[:1024])) == 1024
    with pytest.raises(LookFailed, match="more than 1024"):
        addresses.replicas(places)


def test_names_that_would_be_the_same_are_told_apart():
    """Two hosts whose safe names agree have two names."""
    addresses = Addresses(Discover(kind="srv", name=SERVICE), None)
    names = [replica.name for replica in addresses.replicas([("a-b.test", 80), ("a.b-test", 80)])]
    assert names[0] == "a-b-test-80"
    assert names[1].startswith("a-b-test-80-")


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("10.0.0.11", "10-0-0-11-8000"),
        ("::1", "0000-0000-0000-0000-0000-0000-0000-0001-8000"),
        ("Vllm-0.SVC.local", "vllm-0-svc-local-8000"),
        ("x" * 250, "x" * 120 + "-8000"),
        ("___", "replica-8000"),
    ],
)
def test_names_are_safe(host, name):
    """Letters, digits and dashes, of bounded length, the same each time."""
    assert name_of(host, 8000) == name


async def test_the_system_resolver_finds_this_machine():
    """Without `servers` the system is asked: /etc/hosts counts."""
    found = await make_source(Discover(kind="dns", name="localhost", port=8000), None).look()
    assert "http://127.0.0.1:8000/v1" in urls(found).values()


async def test_a_name_that_the_system_does_not_know():
    """An error of the resolver is a failed look."""
    lookup = make_source(Discover(kind="dns", name="nobody.invalid", port=8000), None)
    with pytest.raises(LookFailed):
        await lookup.look()


async def test_a_resolver_that_hangs_holds_one_thread(monkeypatch):
    """A stuck lookup is a failure in time, is not joined by a second one, and its late answer is used."""
    asked, gate = [], asyncio.Event()

    async def getaddrinfo(host, port, **options):
        asked.append(host)
        await gate.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", port)), (0, 0, 0, "", ("fe80::1%eth0", port, 0, 2))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    lookup = SystemLookup(NAME, 8000, Addresses(Discover(kind="dns", name=NAME, port=8000), None), seconds=0.01)
    for _ in range(3):
        with pytest.raises(LookFailed, match="no answer within"):
            await lookup.look()
    assert asked == [NAME]
    gate.set()
    await asyncio.sleep(0)
    assert urls(await lookup.look()) == {"10-0-0-1-8000": "http://10.0.0.1:8000/v1"}


async def test_mapped_addresses_are_the_plain_ones(server):
    """::ffff:10.0.0.1 and 10.0.0.1 are one replica."""
    server.zone = {(NAME, "A"): ["10.0.0.1"], (NAME, "AAAA"): ["::ffff:10.0.0.1"]}
    assert isinstance(source(server), AddressRecords)
    assert urls(await source(server).look()) == {"10-0-0-1-8000": "http://10.0.0.1:8000/v1"}
