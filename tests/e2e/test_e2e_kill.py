"""A server that is killed under load, and comes back."""

import asyncio
import json
import time
from dataclasses import dataclass, field

import httpx
from e2e_fleet import headers_of
from e2e_programs import until

LOAD = 24  # twelve a server, eight of which run at once


@dataclass
class Seen:
    """What one client saw."""

    stream: bool
    status: int = 0
    replica: str = ""
    request_id: str = ""
    events: list = field(default_factory=list)

    @property
    def whole(self):
        if not self.stream:
            return self.status == 200 and self.events[0]["usage"]["completion_tokens"] == 96
        ends = [choice["finish_reason"] for event in self.events[:-1] for choice in event.get("choices", ())]
        return self.status == 200 and self.events[-1] == "[DONE]" and ends[-1] == "length"

    @property
    def told_so(self):
        """The stream ended with our error event, and no [DONE]."""
        return self.stream and isinstance(self.events[-1], dict) and "error" in self.events[-1] and "[DONE]" not in self.events


async def send(client, seen, at):
    text = f"Count {at}."
    body = {
        "model": "both",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 96,
        "ignore_eos": True,
        "stream": seen.stream,
    }
    async with client.stream("POST", "/v1/chat/completions", json=body, headers=headers_of("acme")) as answer:
        seen.status, seen.replica = answer.status_code, answer.headers.get("x-tiergate-replica", "")
        seen.request_id = answer.headers["x-request-id"]
        if not seen.stream:
            seen.events.append(json.loads(await answer.aread()))
            return
        async for line in answer.aiter_lines():
            if line:
                payload = line.removeprefix("data: ")
                seen.events.append(payload if payload == "[DONE]" else json.loads(payload))


async def under_load(fleet):
    """Kills `large` while streams of both servers have begun and others of both have not."""
    seen = [Seen(stream=at % 3 != 0) for at in range(LOAD)]
    async with httpx.AsyncClient(base_url=fleet.gateway.root, timeout=600, trust_env=False) as client:
        tasks = [asyncio.create_task(send(client, one, at)) for at, one in enumerate(seen)]

        def begun():
            return {one.replica for one in seen if one.events} == {"b1", "b2"} and fleet.large.waiting > 0

        await asyncio.to_thread(until, begun, "both servers have begun streams, and the one to be killed has more waiting")
        inflight = fleet.gauge("tiergate_inflight_requests", replica="b2")
        before = [one for one in seen if one.events]
        await asyncio.to_thread(fleet.large.kill)
        await asyncio.gather(*tasks)
    return seen, before, inflight


def test_a_killed_server_loses_nothing_unbegun(fleet, figures):
    """What had no byte yet is answered by the other replica, a begun stream ends with the error event; the server recovers."""
    fleet.settle()
    try:
        seen, before, inflight = asyncio.run(under_load(fleet))
        broken = [one for one in seen if not one.whole]
        assert all(one.status == 200 for one in seen), [(one.status, one.events) for one in seen if one.status != 200]
        assert broken, "the killed server had begun streams"
        assert all(one.replica == "b2" and one.told_so and len(one.events) > 1 for one in broken), broken
        assert all(one.whole for one in seen if one.replica == "b1")
        assert {one.events[-1]["error"]["code"] for one in broken} == {"stream_broken"}
        moved = [one for one in seen if one.whole and fleet.line(one.request_id)["attempts"] > 1]
        assert len(moved) == inflight - len(broken), "what ran on the killed server was either begun or answered elsewhere"
        assert all(one not in before for one in moved)
        figures["kill: requests, streams ended by the error event, moved"] = f"{LOAD}, {len(broken)}, {len(moved)}"
        until(lambda: fleet.gauge("tiergate_replica_up", replica="b2") == 0, "the killed replica is down")
        assert (
            fleet.post({"model": "both", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}).headers[
                "x-tiergate-replica"
            ]
            == "b1"
        )
    finally:
        started = time.monotonic()
        fleet.large.start()
        fleet.large.await_ready()
    figures["kill: server started again, until healthy, s"] = round(time.monotonic() - started, 1)
    figures["kill: healthy again, until it answers through the gateway, s"] = round(
        until(lambda: answers(fleet), "the killed replica answers"), 1
    )
    until(lambda: fleet.gauge("tiergate_replica_up") == fleet.replicas, "all replicas up")
    fleet.settle()


def answers(fleet):
    body = {"model": "both", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    return fleet.post(body).headers["x-tiergate-replica"] == "b2"
