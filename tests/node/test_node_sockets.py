"""Listening sockets that are made before there is an event loop."""

import errno
import socket

import pytest

from gateway.node.sockets import listen


@pytest.fixture
def closing():
    """Sockets put here are closed at the end."""
    sockets = []
    yield sockets
    for sock in sockets:
        sock.close()


def test_one_that_listens(closing):
    """Port 0 takes a free port; the socket is there to accept, and never blocks."""
    closing += listen("127.0.0.1", 0)
    (sock,) = closing
    assert sock.getsockname()[1]
    with pytest.raises(BlockingIOError):
        sock.accept()
    with socket.create_connection(sock.getsockname()):
        pass


def test_all_addresses_have_one_port(closing):
    """No host means every address: IPv4 and IPv6, each with its socket, at the same free port."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    closing += listen("", 0)
    assert len({sock.getsockname()[1] for sock in closing}) == 1
    families = [sock.family for sock in closing]
    assert len(families) == len(set(families))
    for sock in closing:
        if sock.family == socket.AF_INET6:
            assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_taken_address_is_told(closing, host):
    """Errno, asyncio's words, and the address as filename; nothing stays open."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError) as error:
            closing += listen(host, port)
    assert error.value.errno == errno.EADDRINUSE
    assert error.value.filename == f"{host}:{port}"
    assert "error while attempting to bind on address ('127.0.0.1'" in error.value.strerror


def test_a_name_that_is_none(closing):
    """A host that does not resolve is an OSError with the address, too."""
    with pytest.raises(OSError) as error:
        closing += listen("no host", 1)
    assert error.value.filename == "no host:1"
    assert error.value.strerror


def test_a_port_can_be_used_again_at_once(closing):
    """Connections that linger from the last process do not keep the next one from starting."""
    (sock,) = listen("127.0.0.1", 0)
    name = sock.getsockname()
    with sock, socket.create_connection(name):
        sock.setblocking(True)
        sock.accept()[0].close()  # we close first: it is our side that lingers
    closing += listen(*name)
