"""What of reading ahead is between workers and their dispatcher."""

import asyncio
import random

from gateway.lab.fake import Options
from gateway.warming import Report, Seen, Told

WARM = {"models": {0: {"context": None, "warm": {"learn": 4}}}, "cache": {"secret": "s", "exact": {"enabled": False}}}
FAKES = {"s1": Options(), "l1": Options()}


async def test_a_dispatcher_that_is_replaced_learns_anew(start):
    """The marks that it lacks it asks for; workers keep no prompts."""
    stack = await start(WARM, fakes=FAKES, workers=2)
    text = " ".join(random.Random(1).choices(("alpha", "beta", "gamma"), k=400))

    async def until_known():
        async with asyncio.timeout(15):
            while not stack.gateway.dispatcher.parts.owner.lanes["small-model"].pool.prewarm._prompts():
                assert (
                    await stack.chat(messages=[{"role": "system", "content": text}, {"role": "user", "content": "Who?"}])
                ).status_code == 200
                await asyncio.sleep(0.025)

    await until_known()
    await stack.gateway.replace_dispatcher()
    assert not stack.gateway.dispatcher.parts.owner.lanes["small-model"].pool.prewarm._prompts()
    await until_known()


async def test_what_a_worker_says_is_checked(start):
    """Unknown models, names and tenants, marks of another length, and fronts that are none are left out."""
    stack = await start(WARM, fakes=FAKES, workers=1)
    owner = stack.gateway.dispatcher.parts.owner
    mark, front = b"m" * 16, b'{"messages":[]}'
    bad = [
        Told("no-model", mark, "fake", "", front), Told("small-model", mark, "other", "", front),
        Told("small-model", mark, "fake", "nobody", front), Told("small-model", b"short", "fake", "", front),
        Told("small-model", mark, "fake", "", b"not JSON"), Told("small-model", mark, "fake", "", b'{"stream": true}'),
        Told("small-model", mark, "fake", "", b'{"messages": 7}'), Told("small-model", mark, "fake", "", b"[" * 100_000),
        Told("small-model", mark, "fake", "", b" " * 300_000),
    ]  # fmt: skip
    seen = [Seen("no-model", mark, 5), Seen("small-model", b"short", 5), Seen("small-model", mark, -3)]
    assert await owner.warmings.hear(Report(seen, bad)) == []
    assert owner.lanes["small-model"].pool.prewarm._prompts() == []
