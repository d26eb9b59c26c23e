"""Compressed request bodies: bounded while they are made, off the loop where they are large, plain on the way upstream."""

import asyncio
import gzip
import json
import os
import threading
import zlib

import pytest
from gateway_talk import CHAT, KEY, chat, raw_request, wire
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ApiError
from gateway.inflate import AT_ONCE, encoding_of, inflate

BOUND = 2 * 1024 * 1024


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def read(body, encoding=b"gzip", bound=BOUND):
    return asyncio.run(inflate(body, encoding, bound))


def refused(body, encoding=b"gzip", bound=BOUND):
    with pytest.raises(ApiError) as caught:
        read(body, encoding, bound)
    return caught.value.status, caught.value.code


@pytest.mark.parametrize("value", [b"", b"identity", b" Identity "])
def test_no_encoding(value):
    """`identity` is no encoding."""
    assert encoding_of(value) is None


@pytest.mark.parametrize("value", [b"br", b"zstd", b"compress", b"gzip, gzip", b"gzip,deflate", b"*"])
def test_an_encoding_that_is_not_read(value):
    """Others, and several in a row, are a 415 that names what is read."""
    with pytest.raises(ApiError) as caught:
        encoding_of(value)
    assert (caught.value.status, caught.value.headers) == (415, {"accept-encoding": "gzip, deflate"})


@pytest.mark.parametrize("size", [0, 1, 1000, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, BOUND])
@pytest.mark.parametrize("noise", [True, False])
def test_what_was_packed_comes_back(size, noise):
    """gzip, zlib and bare deflate, of text and of noise, up to the bound itself."""
    data = os.urandom(size) if noise else b"a" * size
    assert read(gzip.compress(data)) == data
    assert read(gzip.compress(data), encoding_of(b"X-GZIP")) == data
    assert read(zlib.compress(data), b"deflate") == data
    assert read(raw_deflate(data), b"deflate") == data


def test_several_members_are_one_body():
    """A gzip file may be several, some of them empty; a hostile number of them is refused."""
    assert read(gzip.compress(b"a") + gzip.compress(b"") + gzip.compress(b"b")) == b"ab"
    assert refused(gzip.compress(b"") * 10_000) == (400, "invalid_encoding")


@pytest.mark.parametrize("size", [10, AT_ONCE, AT_ONCE * 3])
def test_what_is_no_gzip(size):
    """Cut short, damaged, followed by something, or not packed at all: a 400, at once or in the thread."""
    packed = gzip.compress(os.urandom(size))
    for body in (b"", packed[:-1], packed[: len(packed) // 2], packed + b"x", packed + b"\x1f\x8b", b"{}", b"\xff" * 50):
        assert refused(body) == (400, "invalid_encoding")
    damaged = bytearray(packed)
    damaged[-5] ^= 255  # the checksum
    assert refused(bytes(damaged)) == (400, "invalid_encoding")
    assert refused(zlib.compress(b"x") + b"x", b"deflate") == (400, "invalid_encoding")


@pytest.mark.parametrize("bound", [10, AT_ONCE, AT_ONCE * 5])
def test_a_bomb_stops_at_the_bound(bound):
    """A hundred megabytes in a hundred kilobytes are a 413 as soon as the bound is passed."""
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([packer.compress(bytes(1 << 24)) for _ in range(8)]) + packer.flush()
    assert refused(bomb, bound=bound) == (413, "body_too_large")


def test_large_bodies_are_made_in_a_thread():
    """The loop is free while a large body is made; a small one never leaves it."""

    async def threads(size):
        seen = set()
        real = zlib.decompressobj

        class Watched:
            def __init__(self, window):
                self._real = real(window)

            def decompress(self, *given):
                seen.add(threading.get_ident())
                return self._real.decompress(*given)

            def __getattr__(self, name):
                return getattr(self._real, name)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gateway.inflate.zlib.decompressobj", Watched)
            await inflate(gzip.compress(bytes(size)), b"gzip", BOUND)
        return seen

    here = threading.get_ident()
    assert asyncio.run(threads(AT_ONCE - 1)) == {here}
    assert len(asyncio.run(threads(AT_ONCE * 2))) == 2


@given(st.binary(max_size=300), st.integers(1, 200))
def test_any_bytes_are_a_body_or_an_error(data, bound):
    """Noise, and whole packings of it, are a body within the bound or an ApiError."""
    for body, encoding in (
        (data, b"gzip"),
        (data, b"deflate"),
        (gzip.compress(data), b"gzip"),
        (zlib.compress(data), b"deflate"),
    ):
        try:
            made = read(body, encoding, bound)
        except ApiError as error:
            outcome = error.status
        else:
            outcome = 200
            assert len(made) <= bound
        assert outcome in (200, 400, 413)


# -- through the gateway


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("GZip", gzip.compress)])
async def test_the_backend_gets_it_plain(stack, encoding, pack):
    """A packed chat request is answered; upstream it is JSON of its own length, without the encoding."""
    body = json.dumps(chat("[[say: hi]]")).encode()
    headers = {"authorization": f"Bearer {KEY}", "content-encoding": encoding}
    answer = await stack.client.post(CHAT, content=pack(body), headers=headers)
    assert answer.json()["choices"][0]["message"]["content"] == "hi"
    sent = stack.small.calls[-1]
    assert sent.raw == body.replace(b"small-model", b"fake")
    assert "content-encoding" not in sent.headers


async def test_chunked_and_packed(stack):
    """Both at once, in pieces that split everything."""
    packed = gzip.compress(json.dumps(chat("[[say: hi]]")).encode())

    async def pieces():
        for at in range(0, len(packed), 7):
            yield packed[at : at + 7]

    headers = {"authorization": f"Bearer {KEY}", "content-encoding": "gzip"}
    answer = await stack.client.post(CHAT, content=pieces(), headers=headers)
    assert answer.status_code == 200


async def test_a_bomb_through_the_gateway(start):
    """max_body holds for what comes out: 413, the backend never sees it, and the next request is served."""
    stack = await start({"server": {"port": 0, "max_body": "64KiB"}})
    headers = {"authorization": f"Bearer {KEY}", "content-encoding": "gzip"}
    answer = await stack.client.post(CHAT, content=gzip.compress(bytes(1 << 25)), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
    broken = await stack.client.post(CHAT, content=b"no gzip", headers=headers)
    assert (broken.status_code, broken.json()["error"]["code"]) == (400, "invalid_encoding")
    assert not stack.small.calls
    assert (await stack.chat("hello")).status_code == 200
    await stack.at_rest()


async def test_limits_come_before_the_work_of_unpacking(start):
    """Broken bodies count as requests: whoever sends bombs is stopped by its own limit."""
    stack = await start({"tenants": {0: {"rpm": 2}}})
    headers = {"authorization": f"Bearer {KEY}", "content-encoding": "gzip"}
    told = [(await stack.client.post(CHAT, content=b"no gzip", headers=headers)).status_code for _ in range(3)]
    assert told == [400, 400, 429]


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"key": "wrong"}, 401),
        ({"headers": {"content-encoding": "br"}}, 415),
        ({"headers": {"x-tiergate-priority": "first"}}, 400),
        ({"path": "/v1/audio/transcriptions"}, 415),
        ({"path": "/v1/nothing"}, 404),
        ({"path": "/v1/models"}, 405),
    ],
)
async def test_a_client_that_expects_is_not_asked_for_a_body_in_vain(stack, how, status):
    """With `expect: 100-continue` the refusal comes at once, without a `100`, and the body was never sent."""
    headers = {"expect": "100-continue", **how.pop("headers", {})}
    async with wire(stack.gateway.port) as one:
        head, _, _ = raw_request(chat(), headers=headers, **how).partition(b"\r\n\r\n")
        one.writer.write(head + b"\r\n\r\n")
        assert await one.head() == status


async def test_a_body_that_is_announced_too_large_is_not_asked_for(start):
    """413 instead of 100, before a byte of it; one that fits is asked for and answered."""
    stack = await start({"server": {"port": 0, "max_body": "1KiB"}})
    for size, first in ((2000, 413), (None, 100)):
        async with wire(stack.gateway.port) as one:
            body = b"x" * size if size else json.dumps(chat()).encode()
            head, _, rest = raw_request(body, headers={"expect": "100-continue"}).partition(b"\r\n\r\n")
            one.writer.write(head + b"\r\n\r\n")
            assert await one.head() == first
            if first == 100:
                one.writer.write(rest)
                assert (await one.answer()).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/v1/models", "/v1/models/small-model"])
async def test_head_is_get_without_the_body(stack, path):
    """HEAD gives GET's status and headers, content-length too, and no body; the connection goes on."""
    headers = {"authorization": f"Bearer {KEY}"}
    whole = await stack.client.get(path, headers=headers)
    head = await stack.client.head(path, headers=headers)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    if path != "/metrics":
        assert head.headers["content-length"] == whole.headers["content-length"]
