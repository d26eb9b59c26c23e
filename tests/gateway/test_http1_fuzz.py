"""Requests that were damaged at random: an answer or an end, never silence and never a fault of ours."""

import asyncio
import random
import re

import pytest
from raw_client import HEADERS, Wire, staged

SEEDS = [
    b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 12\r\nconnection: keep-alive\r\n\r\n{'model':''}",
    b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nt: 1\r\n\r\n",
    b"POST /x HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 5\r\n\r\nhello",
    b"POST /x HTTP/1.0\r\nconnection: keep-alive\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\nhello",
]  # fmt: skip
STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) [A-Z]")
PIECES = [
    b"\r\n",
    b"\r\n\r\n",
    b"\x00",
    b":",
    b" ",
    b"\xff",
    b"chunked",
    b"content-length: 3\r\n",
    b"0\r\n\r\n",
    b"HTTP/1.1",
    b"upgrade: x\r\n",
]


def damaged(chance):
    """One to three requests on end, with a few bytes changed, lost, doubled or put in."""
    data = bytearray(b"".join(chance.choices(SEEDS, k=chance.randint(1, 3))))
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 9)]
            case 2:
                data[at:at] = data[at : at + chance.randint(1, 30)]
            case _:
                data[at:at] = chance.choice(PIECES)
        data = data or bytearray(b"G")
    return bytes(data)


@pytest.mark.parametrize("seed", range(8))
async def test_damaged_requests_are_answered_or_waited_for(seed, caplog):
    """Every status is a 200 or a 4xx, no handler and no callback fails, and what is incomplete ends with its time."""
    chance = random.Random(seed)

    async def handler(request, response):
        await request.body()
        response.send(200, HEADERS, b"")

    async with staged(handler, header_timeout=5.0, body_timeout=5.0, keep_alive=5.0) as stage:

        async def visit():
            data, size = damaged(chance), chance.choice([1, 7, 10_000])
            async with Wire(stage.server.port) as wire:
                for at in range(0, len(data), size):
                    wire.send(data[at : at + size])
                    await asyncio.sleep(0)
                sent.append(data)
                return await wire.ended()

        sent = []
        visits = [asyncio.create_task(visit()) for _ in range(60)]
        await stage.until(lambda: len(sent) == len(visits))
        while not all(each.done() for each in visits):
            await asyncio.sleep(0.01)
            stage.later(6)
        seen = {status for answers in await asyncio.gather(*visits) for status in STATUS.findall(answers)}
    assert {b"200", b"400"} <= seen <= {b"100", b"200", b"400", b"405", b"408", b"413", b"414", b"431"}
    assert not caplog.records
