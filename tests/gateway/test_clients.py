"""The client's address: what is believed of `x-forwarded-for`, and of whom."""

import pytest
from gateway_talk import KEY, chat
from hypothesis import given
from hypothesis import strategies as st
from raw_client import Wire

from gateway.clients import Proxies, peer_of

TRUSTED = Proxies(["10.0.0.0/8", "fd00::/8", "192.0.2.7"])


def client(*lines, peer="10.0.0.1"):
    return TRUSTED.client(peer, [(b"host", b"h"), *((b"x-forwarded-for", line) for line in lines)])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], "10.0.0.1"),
        ([b""], "10.0.0.1"),
        ([b"203.0.113.9"], "203.0.113.9"),
        ([b"1.1.1.1, 203.0.113.9"], "203.0.113.9"),
        ([b"1.1.1.1, 203.0.113.9, 10.0.0.2,10.3.3.3"], "203.0.113.9"),
        ([b"1.1.1.1", b"203.0.113.9", b"10.0.0.2"], "203.0.113.9"),
        ([b"10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ([b"203.0.113.9:4711, 192.0.2.7"], "203.0.113.9"),
        ([b"2001:db8::1"], "2001:db8::1"),
        ([b"[2001:DB8::1]:443, fd00::5"], "2001:db8::1"),
        ([b"[2001:db8::1], ::ffff:10.0.0.9"], "2001:db8::1"),
        ([b"fe80::1%eth0"], "fe80::1"),
        ([b"203.0.113.9, unknown, 10.0.0.2"], "10.0.0.2"),
        ([b"203.0.113.9, 10.0.0.2, "], "10.0.0.1"),
        ([b"203.0.113.9, _hidden"], "10.0.0.1"),
        ([b"\xff\xfe"], "10.0.0.1"),
        ([b"9" * 60_000], "10.0.0.1"),
        ([b"203.0.113.9," + b"10.0.0.2," * 5000 + b"10.0.0.4"], "10.0.0.2"),
    ],
)
def test_the_right_most_that_is_not_trusted(lines, expected):
    """Read from the right, through trusted proxies only, to the first stranger; rubbish ends the list."""
    assert client(*lines) == expected


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_no_header_breaks_it(lines):
    """Whatever is in the header, an address comes out."""
    assert peer_of((client(*lines), 1)) == client(*lines)


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("10.255.0.1", True),
        ("::ffff:10.0.0.1", True),
        ("fd12::1", True),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("fe80::1%eth0", False),
        ("::1", False),
        ("", False),
    ],
)
def test_who_is_trusted(peer, trusted):
    """By network, in both families, mapped addresses included; a socket without an address is not."""
    assert TRUSTED.trusts(peer) is trusted
    assert not Proxies().trusts(peer)


@pytest.mark.parametrize(
    ("name", "peer"),
    [(("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"), (("fe80::1%2", 5, 0, 2), "fe80::1"), ("/run/x.sock", ""), (None, ""), ((), "")],
)
def test_the_peer_of_a_socket(name, peer):
    """The plain form of its address, or nothing."""
    assert peer_of(name) == peer


async def logged(stack, forwarded):
    answer = await stack.client.post(
        "/v1/chat/completions", json=chat(), headers={"authorization": f"Bearer {KEY}", "x-forwarded-for": forwarded}
    )
    assert answer.status_code == 200
    return (await stack.line())["client"]


async def test_the_log_names_the_client(start):
    """Behind a trusted proxy the one it speaks for; rubbish leaves the proxy."""
    stack = await start({"server": {"port": 0, "trusted_proxies": ["127.0.0.0/8", "10.0.0.0/8"]}})
    assert await logged(stack, "6.6.6.6, 203.0.113.9, 10.0.0.1") == "203.0.113.9"


async def test_a_stranger_is_not_believed(start):
    """Without trusted proxies the header is not looked at, in requests and in what is no request."""
    stack = await start({"server": {"port": 0, "trusted_proxies": ["10.0.0.0/8"]}})
    assert await logged(stack, "203.0.113.9") == "127.0.0.1"
    stack.log.lines.clear()
    async with Wire(stack.gateway.port) as wire:
        wire.send(b"\0\r\n\r\n")
        await wire.answer()
    line = await stack.line()
    assert (line["endpoint"], line["client"]) == ("wire", "127.0.0.1")
