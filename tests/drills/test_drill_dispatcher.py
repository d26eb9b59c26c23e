"""The dispatcher is killed, or stands still: streams run on, requests wait for it, and what it had decided stays decided."""

import asyncio
import signal
import time

import pytest
from gateway_talk import CHAT, KEY, OTHER_KEY, chat, hold, posts, tenant, total, wire

from gateway.lab.fake import Options

POOR_KEY = "a-key-of-initech"
STREAM = {"stream": True, "max_tokens": 20}


async def answer(port, body, *, key=KEY, path=CHAT):
    async with wire(port) as one:
        one.send(body, key=key, path=path)
        async with asyncio.timeout(60):
            return await one.answer()


def counters(found):
    ends = "_total", "_count", "_bucket"  # a runtime's own begin anew with its process
    return {key: value for key, value in found.items() if key[0].startswith("tiergate_") and key[0].endswith(ends)}


async def test_what_a_killed_dispatcher_knew_is_known(node, figures):
    """Streams run on, the queue goes on, new requests wait; what is held, spent, drained, added and counted is as before."""
    one = await node(
        {
            "models": {0: {"concurrency": {"max": 3}}},
            "fleet": {"slow_start": "1ms"},
            "tenants": [
                tenant("acme", KEY, max_parallel=9, tpm=600_000),
                tenant("globex", OTHER_KEY),
                tenant("initech", POOR_KEY, rpm=2),
            ],
        },
        fakes={"s1": Options(tokens=20), "s2": Options(), "l1": Options(), "x1": Options(tokens=20)},
    )
    s1, x1 = one.fakes["s1"], one.fakes["x1"]
    added = await one.get("/admin/models/small-model/replicas", method="POST", body={"name": "s3", "url": x1.url})
    assert added.status_code == 201
    await one.until(lambda: any(call.body["max_tokens"] == 1 for call in posts(x1)))
    await one.all_up()
    assert (await one.get("/admin/models/small-model/replicas/s2/drain", method="POST")).status_code == 200
    made = (await one.get("/admin/keys", method="POST", body={"tenant": "globex"})).json()["secret"]
    codes = [(await answer(one.port, chat(model="large-model"), key=POOR_KEY)).status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    wakes = [hold(fake) for fake in (s1, x1)]
    async with asyncio.TaskGroup() as group:
        streams = [group.create_task(answer(one.port, chat(f"held {number}", **STREAM))) for number in range(9)]
        status = (await one.reached(lambda found: found["small-model"]["queue"]["depth"]["realtime"] == 3))["small-model"]
        assert [replica["inflight"] for replica in status["replicas"]] == [3, 0, 3]
        assert (await answer(one.port, chat())).json()["error"]["code"] == "concurrency_limit_exceeded"
        before, left, moment = counters(await one.metrics()), (await one.tenants())["acme"], time.monotonic()
        killed = one.kill("dispatcher")
        waiting = [
            group.create_task(answer(one.port, chat(f"new {number}", model="large-model"), key=OTHER_KEY)) for number in range(8)
        ]
        await one.replaced("dispatcher", killed)
        figures["dispatcher killed: until the next one is ready, ms"] = f"{(time.monotonic() - moment) * 1000:.0f}"
        assert [(await task).status_code for task in waiting] == [200] * 8
        figures["dispatcher killed: until requests that came meanwhile are answered, ms"] = (
            f"{(time.monotonic() - moment) * 1000:.0f}"
        )
        status = (await one.reached(lambda found: found["small-model"]["queue"]["depth"]["realtime"] == 3))["small-model"]
        assert [(replica["name"], replica["inflight"], replica["draining"]) for replica in status["replicas"]] == [
            ("s1", 3, False),
            ("s2", 0, True),
            ("s3", 3, False),
        ]
        assert status["slots"]["inflight"] == 6
        assert (await answer(one.port, chat())).json()["error"]["code"] == "concurrency_limit_exceeded"
        refilled = 10_000 * (time.monotonic() - moment) + 1
        assert (await one.tenants())["acme"]["tokens_remaining"] <= left["tokens_remaining"] + refilled
        assert (await answer(one.port, chat(model="large-model"), key=POOR_KEY)).json()["error"]["code"] == "rate_limit_exceeded"
        assert (await answer(one.port, chat(model="large-model"), key=made)).status_code == 200
        for wake in wakes:
            wake()
    assert [(stream.result().status_code, stream.result().clean) for stream in streams] == [(200, True)] * 9
    assert all(stream.result().content.endswith(b"data: [DONE]\n\n") for stream in streams)
    assert not posts(one.fakes["s2"])
    await one.idle()
    after = await one.metrics()
    fell = {key: (value, after.get(key)) for key, value in before.items() if after.get(key, -1) < value}
    assert not fell
    assert total(after, "tiergate_restarts_total", process="dispatcher") == 1
    assert total(after, "tiergate_requests_total", tenant="acme", outcome="ok") == 9


async def test_a_dispatcher_that_stands_still_is_not_waited_for_for_ever(node, figures):
    """Nor when nobody ends it, as the supervisor stands still, too: 503 `dispatcher_away`, whatever was asked; once it goes on
    all is well, and no token was given back twice.
    """
    await stands_still(node, figures, 0.0)


@pytest.mark.drill
async def test_a_dispatcher_that_stands_still_for_ten_seconds(node, figures):
    """The same, and three connections of each worker that were given up meanwhile."""
    await stands_still(node, figures, 10.0)


async def test_a_node_whose_dispatcher_cannot_start_refuses_and_lives(node):
    """503 for every request, the workers stay and finish their streams; when the dispatcher can start again, all is well."""
    one = await node()
    wake = hold(one.fakes["s1"])
    before = one.pids()
    async with asyncio.TaskGroup() as group:
        stream = group.create_task(answer(one.port, chat(**STREAM)))
        await one.until(lambda: len(posts(one.fakes["s1"])) == 1)
        keys = one.folder / "keys.json"
        keys.write_text("this is no key file")
        one.kill("dispatcher")
        await one.until(lambda: "dispatcher is started again" in one.said)
        refused = await asyncio.gather(*(answer(one.port, chat()) for _ in range(3)))
        assert {(one.status_code, one.json()["error"]["code"]) for one in refused} == {(503, "dispatcher_away")}
        assert (await one.get("/ready")).status_code == 503
        assert (await one.get("/health")).status_code == 200
        wake()
        assert (await stream).content.endswith(b"data: [DONE]\n\n")
        keys.unlink()
        await one.replaced("dispatcher", before["dispatcher"])
        assert (await answer(one.port, chat())).status_code == 200
    assert one.pids() | {"dispatcher": 0} == before | {"dispatcher": 0}
    await one.idle()


async def stands_still(node, figures, seconds):
    one = await node(
        {"tenants": [tenant("acme", KEY, tpm=1200, max_parallel=40), tenant("globex", OTHER_KEY, max_parallel=40)]},
        fakes={"s1": Options(), "l1": Options()},
    )
    fake = one.fakes["s1"]
    assert (await answer(one.port, chat("[[tokens: 900]]", max_tokens=900))).status_code == 200
    wake = hold(fake)
    left, moment = (await one.tenants())["acme"]["tokens_remaining"], time.monotonic()
    async with asyncio.TaskGroup() as group:
        streams = [
            group.create_task(answer(one.port, chat(f"[[tokens: 5]] {number}", stream=True, max_tokens=100)))
            for number in range(2)
        ]
        await one.until(lambda: len(posts(fake)) == 3)
        one.signal(signal.SIGSTOP)
        one.kill("dispatcher", signal.SIGSTOP)
        stopped = time.monotonic()
        leaving = []
        for number in range(6):
            leaving.append(await one.dial())
            leaving[-1].send(chat(f"leaving {number}"), key=OTHER_KEY)
        others = [group.create_task(answer(one.port, chat(f"away {number}"), key=OTHER_KEY)) for number in range(6)]
        calls = [group.create_task(one.get(path)) for path in ("/ready", "/metrics", "/admin/status")]
        wrong = group.create_task(answer(one.port, b"{", key=OTHER_KEY))
        await asyncio.sleep(0.3)
        for connection in leaving:
            connection.leave()
        refused = [await task for task in others]
        figures["dispatcher stopped: until a request that has waited for it is refused, s"] = f"{time.monotonic() - stopped:.1f}"
        refused += [await task for task in calls]
        figures["dispatcher stopped: until an admin call is refused, s"] = f"{time.monotonic() - stopped:.1f}"
        refused.append(await wrong)
        again = time.monotonic()
        refused.append(await answer(one.port, chat("later"), key=OTHER_KEY))
        figures["dispatcher stopped: until a request that comes later is refused, s"] = f"{time.monotonic() - again:.1f}"
        assert {(one.status_code, one.json()["error"]["code"]) for one in refused} == {(503, "dispatcher_away")}
        assert all("retry-after" in one.headers for one in refused)
        await asyncio.sleep(max(0.0, stopped + seconds - time.monotonic()))
        one.kill("dispatcher", signal.SIGCONT)
        going = time.monotonic()
        status = await one.reached(lambda found: found["small-model"]["slots"]["inflight"] == 2)
        figures["dispatcher goes on: until it is ready, s"] = f"{time.monotonic() - going:.1f}"
        status = (await one.status())["small-model"]
        assert status["slots"]["inflight"] == status["replicas"][0]["inflight"] == 2
        one.signal(signal.SIGCONT)
        wake()
        used = sum([usage(await task) for task in streams])
    await one.idle()
    expected = left - used + 20 * (time.monotonic() - moment)
    found = (await one.tenants())["acme"]["tokens_remaining"]
    assert expected - 40 <= found <= expected + 2
    assert (await answer(one.port, chat(), key=OTHER_KEY)).status_code == 200
    assert "Traceback" not in one.said
    assert "it is killed" not in one.said


def usage(answer):
    """Of the fake: 5 tokens, and the prompt."""
    assert answer.status_code == 200
    assert answer.content.endswith(b"data: [DONE]\n\n")
    return 5


async def test_an_admin_call_is_not_made_twice(node):
    """The dispatcher that was asked for a key has gone: whether there is one now, nobody can tell, and no second one is made."""
    one = await node()
    stopped = one.kill("dispatcher", signal.SIGSTOP)
    making = asyncio.create_task(one.get("/admin/keys", method="POST", body={"tenant": "acme"}))
    await one.replaced("dispatcher", stopped)
    answer = await making
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "dispatcher_away")
    assert (await one.get("/admin/keys", method="POST", body={"tenant": "acme"})).status_code == 201
    assert len((await one.get("/admin/keys")).json()["keys"]) == 1
