"""The end of a node, and the change of its workers: nobody loses an answer, nothing is left."""

import asyncio
import os
import signal

import pytest
from gateway_talk import CHAT, KEY, OTHER_KEY, chat, dial, hold, posts, tenant, total, wire

from gateway.lab.fake import Options
from gateway.serving import AGAIN

STREAM = {"stream": True, "max_tokens": 20}
TENANTS = {"tenants": [tenant("acme", KEY), tenant("globex", OTHER_KEY)]}


async def streams(one, each=2):
    """Connections of both workers on which streams run, held by the fake."""
    fake = one.fakes["s1"]
    wake = hold(fake)
    found = [connection for ours in await one.dial_both(each) for connection in ours]
    for number, connection in enumerate(found):
        connection.send(chat(f"stream {number}", **STREAM))
    await one.until(lambda: len(posts(fake)) == len(found))
    return found, wake


async def whole(connections):
    answers = await asyncio.gather(*(connection.answer() for connection in connections))
    assert all(answer.status_code == 200 and answer.clean for answer in answers)
    assert all(answer.content.endswith(b"data: [DONE]\n\n") for answer in answers)


async def test_a_drain_loses_no_stream(node):
    """SIGTERM: new requests and /ready are told 503, what runs completes, the exit code is 0 and no process is left."""
    one = await node(TENANTS)
    running, wake = await streams(one)
    idle = [ours[0] for ours in await one.dial_both()]
    one.signal(signal.SIGTERM)
    await one.until(lambda: "draining: 2 requests" in one.said)
    answer = await one.get(CHAT, method="POST", body=chat(), key=KEY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "draining")
    assert "retry-after" in answer.headers
    ready = await one.get("/ready", key=None)
    assert (ready.status_code, ready.json()["draining"]) == (503, True)
    assert await asyncio.gather(*(connection.reader.read() for connection in idle)) == [b"", b""]
    wake()
    await whole(running)
    assert await one.ended() == 0
    assert not one.alive()
    assert [line["outcome"] for line in one.lines() if line["stream"]] == ["ok"] * 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_what_goes_to_the_whole_group_is_one_signal(node, number):
    """As a terminal sends it, or `timeout`, which tells the supervisor twice: a drain, not an end at once."""
    one = await node(TENANTS)
    running, wake = await streams(one)
    before = one.pids()
    one.signal(number)
    os.killpg(one.process.pid, number)
    await one.until(lambda: one.said.count("draining: 2 requests") == 2)
    wake()
    await whole(running)
    assert await one.ended() == 0
    assert not one.alive()
    assert one.pids() == before
    assert [line["outcome"] for line in one.lines() if line["stream"]] == ["ok"] * 4


async def test_a_second_signal_tells_the_streams_and_ends(node):
    """Each gets its error event and a proper end; no process is left."""
    one = await node(
        TENANTS | {"server": {"port": 0, "drain_timeout": "60s"}}, fakes={"s1": Options(itl=0.05, tokens=1000), "l1": Options()}
    )
    running = [ours[0] for ours in await one.dial_both()]
    for connection in running:
        connection.send(chat("[[tokens: 1000]]", stream=True, max_tokens=1000))
        await connection.head()
        await connection.piece()
    one.signal(signal.SIGTERM)
    await one.until(lambda: one.said.count("draining: 1 requests") == 2)
    await asyncio.sleep(2 * AGAIN)
    one.signal(signal.SIGTERM)
    for connection in running:
        pieces = await connection.pieces()
        assert b'"shutting_down"' in pieces[-1]
        assert b"[DONE]" not in b"".join(pieces)
    assert await one.ended() == 0
    assert not one.alive()


async def test_children_of_a_killed_supervisor_finish_their_streams_and_end(node):
    """Nobody would ever end them: they drain and end, the dispatcher last."""
    one = await node(TENANTS)
    running, wake = await streams(one)
    os.kill(one.process.pid, signal.SIGKILL)
    await one.until(lambda: one.said.count("draining: 2 requests") == 2)
    wake()
    await whole(running)
    await one.until(lambda: not one.alive())
    assert [line["outcome"] for line in one.lines() if line["stream"]] == ["ok"] * 4


async def test_a_supervisor_that_is_killed_amid_a_reload_cuts_no_stream(node):
    """Workers that had been replaced finish what they have, as those that replaced them do; all end."""
    one = await node(TENANTS)
    running, wake = await streams(one)
    one.signal(signal.SIGHUP)
    await one.until(lambda: "INFO tiergate.node: reloaded" in one.said)
    assert len(one.alive()) == 6
    os.kill(one.process.pid, signal.SIGKILL)
    await one.until(lambda: one.said.count("draining: 0 requests") == 2)
    wake()
    await whole(running)
    await one.until(lambda: not one.alive())


async def keep_asking(port, stop, counts):
    """Requests one after the other on a kept connection, as a client with a pool sends them."""
    one = await dial(port)
    while not stop.is_set():
        try:
            one.send(chat(model="large-model"))
            answer = await one.answer()
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            counts.append(repr(error))
            one.leave()
            return
        counts.append(answer.status_code)
        if answer.headers.get("connection") == "close":
            one.leave()
            one = await dial(port)
    one.leave()


async def open_anew(port, stop, counts):
    """Each request on a connection of its own."""
    while not stop.is_set():
        try:
            async with wire(port) as one:
                one.send(chat(model="large-model"), key=OTHER_KEY)
                counts.append((await one.answer()).status_code)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            counts.append(repr(error))


async def test_a_reload_under_load_fails_no_request(node, figures):
    """SIGHUP, twice: all workers are others, streams that ran complete, every request was answered and is counted."""
    one = await node(TENANTS)
    running, wake = await streams(one)
    before, stop = one.pids(), asyncio.Event()
    kept: list[object] = []
    new: list[object] = []
    async with asyncio.TaskGroup() as group:
        clients = [group.create_task(keep_asking(one.port, stop, kept)) for _ in range(8)]
        clients += [group.create_task(open_anew(one.port, stop, new)) for _ in range(4)]
        await one.until(lambda: len(kept) > 100 and len(new) > 100)
        for times in (1, 2):
            one.signal(signal.SIGHUP)
            await one.until(lambda times=times: one.said.count("INFO tiergate.node: reloaded") == times)
            served = len(kept) + len(new)
            await one.until(lambda served=served: len(kept) + len(new) > served + 200)
        wake()
        await whole(running)
        stop.set()
    figures["two reloads under load: requests on kept, on new connections"] = f"{len(kept)}, {len(new)}"
    assert ({one for one in kept if one != 200}, {one for one in new if one != 200}) == (set(), set())
    after = one.pids()
    assert after["dispatcher"] == before["dispatcher"]
    assert not {after["worker 1"], after["worker 2"]} & {before["worker 1"], before["worker 2"]}
    await one.until(lambda: all(pid in after.values() for pid in one.alive() if pid != one.process.pid))
    await one.idle()
    found = await one.metrics()
    assert total(found, "tiergate_requests_total", tenant="acme", outcome="ok") == len(kept) + 4
    assert total(found, "tiergate_requests_total", tenant="globex", outcome="ok") == len(new)
