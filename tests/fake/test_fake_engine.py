"""Places, order, cache, sleep: what the engine does with requests."""

import asyncio

import httpx
from fake_talk import Wire, talk

from gateway.lab.fake import FakeVLLM, Options
from gateway.lab.fake.kvcache import PrefixCache, block_keys

LONG = "The quick brown fox jumps over the lazy dog. " * 20


async def cached(fake: FakeVLLM, client: httpx.AsyncClient, text: str, **fields: object) -> int:
    body = (await client.post(f"{fake.url}/chat/completions", json=talk(text, **fields))).json()
    return int(body["usage"]["prompt_tokens_details"]["cached_tokens"])


async def test_a_prefix_is_cached_in_whole_blocks(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """The second request finds the blocks of the first one's prompt, whole ones and never all of the prompt."""
    assert await cached(fake, client, LONG) == 0
    again = await cached(fake, client, LONG)
    assert again > 0
    assert again % 16 == 0
    longer = await cached(fake, client, LONG + "And more of it, which nobody has seen.")
    assert 0 < longer <= again
    assert await cached(fake, client, "X" + LONG) == 0


async def test_a_salt_splits_the_cache(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Another cache_salt finds nothing; the same one finds everything."""
    assert await cached(fake, client, LONG, cache_salt="one") == 0
    assert await cached(fake, client, LONG, cache_salt="one") > 0
    assert await cached(fake, client, LONG, cache_salt="two") == 0
    assert await cached(fake, client, LONG) == 0


async def test_a_later_turn_finds_the_answer_cached(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """What the model said is in the cache as well: the next turn of the conversation shares it."""
    asked = talk(LONG, ignore_eos=True, max_tokens=200)
    body = (await client.post(f"{fake.url}/chat/completions", json=asked)).json()
    said = body["choices"][0]["message"]["content"]
    turns = [*asked["messages"], {"role": "assistant", "content": said}, {"role": "user", "content": "Go on."}]
    answer = await client.post(f"{fake.url}/chat/completions", json=asked | {"messages": turns})
    usage = answer.json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > body["usage"]["prompt_tokens"]


async def test_the_cache_forgets_when_it_is_full(client: httpx.AsyncClient) -> None:
    """With few blocks the least recently used prefix goes first."""
    async with FakeVLLM(Options(kv_blocks=40, max_model_len=512, enable_prompt_tokens_details=True)) as fake:
        assert await cached(fake, client, LONG) == 0
        assert await cached(fake, client, LONG) > 0
        for letter in "abcd":
            await cached(fake, client, letter + LONG)
        assert await cached(fake, client, LONG) == 0


async def test_reset_prefix_cache(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """After a reset nothing is found; the reset fails while a request holds blocks."""
    await cached(fake, client, LONG)
    assert (await client.post(f"{fake.root}/reset_prefix_cache")).json() == {"success": True}
    assert await cached(fake, client, LONG) == 0
    fake.faults.add(hang_before_first_token=True, path="chat")
    async with Wire(fake) as wire:
        wire.post(talk(LONG))
        await fake.until(lambda: fake.engine.running == 1)
        assert (await client.post(f"{fake.root}/reset_prefix_cache")).json() == {"success": False}


async def test_no_more_run_than_there_are_places(client: httpx.AsyncClient) -> None:
    """Beyond max_num_seqs requests wait, and start when a place is given back."""
    async with FakeVLLM(Options(max_num_seqs=2)) as fake:
        fake.faults.add(hang_before_first_token=True, path="chat")
        async with Wire(fake) as one, Wire(fake) as two, Wire(fake) as three:
            for wire in (one, two, three):
                wire.post(talk(stream=True))
            await fake.until(lambda: (fake.engine.running, fake.engine.waiting) == (2, 1))
            assert (await client.get(f"{fake.root}/load")).json() == {"server_load": 3}
            assert "200 OK" in await three.head()  # a queued stream has its head already
            one.writer.close()
            await fake.until(lambda: (fake.engine.running, fake.engine.waiting) == (2, 0))
        await fake.until(lambda: fake.engine.running == 0)


async def order(fake: FakeVLLM, priorities: list[int]) -> list[int]:
    """The priorities in the order in which requests were served while one place is there."""
    hold = fake.faults.add(hang_before_first_token=True, times=1, path="chat")
    async with Wire(fake) as first:
        first.post(talk(stream=True))
        await fake.until(lambda: fake.engine.running == 1)
        assert hold.times == 0
        wires = [Wire(fake) for _ in priorities]
        for at, (wire, priority) in enumerate(zip(wires, priorities, strict=True)):
            await wire.__aenter__()
            # the header wins over the body
            wire.post(talk(priority=priority if at % 2 else 99), more="" if at % 2 else f"x-vllm-priority: {priority}\r\n")
            await fake.until(lambda at=at: fake.engine.waiting == at + 1)
        first.writer.close()
        for wire in wires:
            await wire.head()
            wire.writer.close()
    served = sorted((entry for entry in fake.calls if not entry.aborted), key=lambda entry: entry.first_token_at or 0.0)
    return [int(entry.headers.get("x-vllm-priority", entry.body["priority"])) for entry in served]


async def test_first_come_first_served() -> None:
    """Under fcfs the priority does not matter."""
    async with FakeVLLM(Options(max_num_seqs=1)) as fake:
        assert await order(fake, [5, 0, 3]) == [5, 0, 3]


async def test_lower_priority_values_run_sooner() -> None:
    """Under the priority policy lower values pass higher ones; equal ones keep their order."""
    async with FakeVLLM(Options(max_num_seqs=1, scheduling_policy="priority")) as fake:
        assert await order(fake, [5, 0, 3, -1]) == [-1, 0, 3, 5]


async def test_the_queue_has_an_end(client: httpx.AsyncClient) -> None:
    """--max-num-queued-reqs counts what runs and waits, n = 2 as two, and refuses with a 503 that names no time."""
    async with FakeVLLM(Options(max_num_queued_reqs=2)) as fake:
        answer = await client.post(f"{fake.url}/chat/completions", json=talk(n=3))
        assert answer.status_code == 503
        fake.faults.add(hang_before_first_token=True, times=2)
        async with Wire(fake) as one, Wire(fake) as two:
            one.post(talk())
            two.post(talk())
            await fake.until(lambda: fake.engine.running == 2)
            answer = await client.post(f"{fake.url}/chat/completions", json=talk())
        assert answer.status_code == 503
        assert "retry-after" not in answer.headers
        assert answer.json()["error"]["type"] == "Service Unavailable"
        assert (
            'admission_rejections_total{model_name="fake",reason="max_num_queued_reqs"} 2.0'
            in (await client.get(f"{fake.root}/metrics")).text
        )


async def test_a_request_that_left_the_queue_takes_no_place() -> None:
    """Clients that leave while they wait are forgotten, and so are those that leave in the turn they are served."""
    async with FakeVLLM(Options(max_num_seqs=1)) as fake:
        fake.faults.add(hang_before_first_token=True, times=1)
        async with Wire(fake) as first:
            first.post(talk())
            await fake.until(lambda: fake.engine.running == 1)
            waiting = [Wire(fake) for _ in range(20)]
            for wire in waiting:
                await wire.__aenter__()
                wire.post(talk())
            await fake.until(lambda: fake.engine.waiting == 20)
            for wire in waiting[::2]:
                wire.writer.transport.abort()
            first.writer.close()
            for wire in waiting[1::2]:
                assert "200 OK" in await wire.head()
                wire.writer.close()
        await fake.until(lambda: (fake.engine.running, fake.engine.waiting) == (0, 0))
        assert sum(entry.aborted for entry in fake.calls) == 11


async def test_asleep_it_is_healthy_and_hangs(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Asleep /health is 200 and requests hang until it wakes up."""
    assert (await client.post(f"{fake.root}/sleep?level=1")).json() == {"status": "sleeping", "level": 1}
    assert (await client.get(f"{fake.root}/is_sleeping")).json() == {"is_sleeping": True}
    assert (await client.get(f"{fake.root}/health")).status_code == 200
    hanging = asyncio.create_task(client.post(f"{fake.url}/chat/completions", json=talk()))
    await fake.until(lambda: fake.engine.waiting == 1)
    assert not hanging.done()
    assert (await client.post(f"{fake.root}/wake_up")).json() == {"status": "awake", "tags": None}
    assert (await hanging).status_code == 200


async def test_sleep_ends_what_runs(client: httpx.AsyncClient) -> None:
    """Going to sleep ends running streams with the reason `abort`."""
    async with FakeVLLM(Options(itl=0.005, tokens=1000)) as fake, Wire(fake) as wire:
        wire.post(talk(stream=True), more="connection: close\r\n")
        await wire.head()
        await wire.chunk()
        await client.post(f"{fake.root}/sleep")
        assert b'"finish_reason":"abort"' in await wire.rest()
        assert fake.engine.running == 0


async def test_blocks_limit_what_runs_together(client: httpx.AsyncClient) -> None:
    """A request whose blocks are not free waits although there are places."""
    async with FakeVLLM(Options(kv_blocks=40, max_model_len=640)) as fake:
        fake.faults.add(hang_before_first_token=True, times=1)
        async with Wire(fake) as wire:
            wire.post(talk("a" * 2000, max_tokens=20))
            await fake.until(lambda: fake.engine.running == 1)
            assert fake.engine.cache.used > 20
            second = asyncio.create_task(client.post(f"{fake.url}/chat/completions", json=talk("b" * 1000)))
            await fake.until(lambda: fake.engine.waiting == 1)
        assert (await second).status_code == 200
        await fake.until(lambda: fake.engine.cache.used == 0)


def test_the_cache_pins_shares_and_evicts() -> None:
    """Blocks are shared while pinned, refused when all are pinned, and evicted from the oldest when room is needed."""
    cache = PrefixCache(4)
    keys = block_keys(b"x" * 64 * 3, 16, 0)
    assert len(keys) == 3
    assert cache.take(keys, 0)
    assert cache.take(keys, 1)
    assert cache.used == 4
    assert not cache.take([], 1)
    cache.release(keys, 0, [])
    cache.release(keys, 1, [])
    assert (cache.used, cache.match(keys)) == (0, 3)
    assert cache.take([], 2)
    assert cache.match(keys) == 2  # the last block of the chain went first
    cache.release([], 2, [])
    assert cache.reset()
    assert cache.match(keys) == 0
