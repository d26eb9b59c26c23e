"""Random traffic over failing replicas, with clients that leave whenever they like; then every account is added up.

Nothing here expects a particular answer. What must hold in the end, whatever happened:
every request has one line in the log and one count; nothing is leased; each tenant was charged what its lines say;
no half answer was kept or passed off as a whole one.
"""

import asyncio
import contextlib
import json
import random
import socket
from collections import Counter, defaultdict

import msgspec
import pytest
from apart import Apart
from broken import FAULTS
from gateway_talk import (
    KEY,
    OTHER_KEY,
    Answer,
    chat,
    encoded,
    freeze_limits,
    raw_request,
    said,
    scrape,
    tenant,
    tokens_told,
    total,
    wire,
)

from caches.assemble import assemble
from caches.replay import as_events
from caches.worth import worth_keeping
from gateway.lab.fake import Options
from limits.bucket import UNIT

POOR_KEY = "a-key-with-few-tokens"
K2 = "a-second-key-of-acme"
PLENTY = 10**9
WORKERS = 40
REFUNDED = {
    "rate_limit_exceeded", "concurrency_limit_exceeded", "request_too_large", "queue_full", "queue_share_full", "queue_timeout",
    "wait_too_long", "no_replica_ready", "not_cached", "preempted",
}  # fmt: skip
MODEL_CALLS = {"chat", "completions", "embeddings"}
SURE = [  # ends that are so rare in the draw that some have none
    (KEY, {"model": "thrifty"}),  # the small tier refuses what it is asked first
    (KEY, {"model": "large-model"}),  # upstream_error
    (POOR_KEY, {"model": "large-model", "max_tokens": 25_000}),  # limited
]


def config():
    rich = {"rpm": PLENTY, "tpm": PLENTY}
    acme = tenant("acme", KEY, **rich)
    acme["keys"].append({"id": "k2", "sha256": tenant("x", K2)["keys"][0]["sha256"], "max_parallel": 4})
    return {
        "timeouts": {"connect": "1s", "first_token": "2s", "between_tokens": "2s", "total": "5s"},
        "models": {0: {"concurrency": {"max": 6}}, 1: {"concurrency": {"max": 5}, "scheduling_policy": "priority"}},
        "queue": {
            "max_requests": 16,
            "max_wait": {"realtime": "300ms", "standard": "300ms", "batch": "100ms"},
            "preempt": {"kind": "requeue", "within": "5s"},
        },
        "routing": {  # at this price a cascade stays on while it answers one in ten
            "fallback": {"small": "large", "large": "small"},
            "routes": {"thrifty": {"cascade": {"price": 1000.0, "floor": 0.0}}},
        },
        "cache": {"secret": "s", "prefix": {"isolate": "tenant"}, "exact": {"max_bytes": "200KiB", "max_entry": "64KiB"}},
        "tenants": [
            acme,
            tenant("globex", OTHER_KEY, max_parallel=9, **rich),
            tenant("initech", POOR_KEY, rpm=PLENTY, tpm=20_000),
        ],
    }


class Draw:
    """One client's request and how it will behave, all from one seeded generator."""

    def __init__(self, rng, number):
        self.number = number
        self.rng = rng
        self.path, self.body = self._body()
        self.key = rng.choices([KEY, K2, OTHER_KEY, POOR_KEY, "a-wrong-key"], [8, 4, 8, 4, 1])[0]
        self.leaves = rng.choices(["no", "at once", "soon", "after the head", "in mid-body"], [16, 1, 2, 1, 1])[0]
        self.headers = {"x-request-id": f"c-{number}"} | self._headers()

    def _body(self):
        rng = self.rng
        cacheable = rng.random() < 0.6
        content = f"prompt {rng.randrange(12)}" if cacheable else f"prompt {self.number}"
        fields = {"model": rng.choice(["small-model", "large-model", "auto", "thrifty"])}
        if fields["model"] == "thrifty" and self.number % 2:
            content += " [[say: 12]]"  # what the small tier agrees on
        fields |= {"temperature": 0} if cacheable else {}
        fields |= rng.choice([{}, {}, {"max_tokens": 40}, {"max_completion_tokens": 40}, {"max_tokens": 3}])
        fields |= rng.choice([{}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}])
        kind = rng.random()
        if kind < 0.03:
            wrong = [b"{", b"[]", b'{"model":"small-model","model":"x"}', b'{"model":"no-such"}']
            return "/v1/chat/completions", rng.choice(wrong)
        if kind < 0.13:
            return "/v1/completions", encoded({"prompt": content, **fields})
        if kind < 0.18:
            return "/v1/embeddings", encoded({"model": "small-model", "input": content})
        if kind < 0.22:
            return "/v1/chat/completions", encoded({**chat(content, **fields), "temperature": None, "seed": 5, "n": 2})
        return "/v1/chat/completions", encoded(chat(content, **fields))

    def _headers(self):
        rng, headers = self.rng, {}
        if rng.random() < 0.3:
            headers["x-tiergate-priority"] = rng.choice(["realtime", "standard", "batch"])
        if rng.random() < 0.1:
            headers["x-tiergate-deadline-ms"] = str(rng.choice([1, 10, 30, 200]))
        if rng.random() < 0.1:
            headers["cache-control"] = rng.choice(["no-cache", "no-store", "only-if-cached"])
        if rng.random() < 0.1:
            headers["x-tiergate-tier"] = rng.choice(["small", "large"])
        return headers

    @classmethod
    def patient(cls, number, key, fields):
        """Of a client that asks for just that, and stays."""
        one = cls(random.Random(number), number)
        one.path, one.body = "/v1/chat/completions", encoded(chat(f"prompt {number}", **fields))
        one.key, one.leaves, one.headers = key, "no", {"x-request-id": f"c-{number}"}
        return one

    @property
    def same(self):
        """Requests that must be answered with the same words, if they are answered in full."""
        try:
            body = json.loads(self.body)
            words = body.get("prompt") or body["messages"][0]["content"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        if self.path == "/v1/embeddings" or "seed" in body or body.get("temperature") != 0:
            return None
        return self.path, words, body.get("max_tokens"), body.get("max_completion_tokens")


async def play(port, draw):
    """Send it; the answer, or None when the client left."""
    request = raw_request(draw.body, key=draw.key, path=draw.path, headers=draw.headers)
    if draw.leaves in ("at once", "in mid-body"):
        with socket.socket() as sock:  # written by the kernel, so it is certain that it was sent
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
            sock.send(request if draw.leaves == "at once" else request[:-1])
        return None
    async with wire(port) as one:
        one.writer.write(request)
        await one.writer.drain()
        if draw.leaves == "no":
            return await one.answer()
        if draw.leaves == "soon":
            await asyncio.sleep(draw.rng.random() * 0.02)  # when it leaves does not matter, only that it may be at any moment
            return None
        with contextlib.suppress(asyncio.IncompleteReadError):
            await one.head()
        return None


async def play_all(port, draws):
    """All of them, WORKERS at a time; (draw, answer) of those who stayed."""
    pending, answered = iter(draws), []

    async def work():
        for draw in pending:
            answer = await play(port, draw)
            if answer is not None:
                answered.append((draw, answer))

    await asyncio.gather(*(work() for _ in range(WORKERS)))
    return answered


FAKES = {name: Options(ttft=0.001, itl=0.0005, tokens=8, seed=at) for at, name in enumerate(("s1", "s2", "l1", "l2"))}


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_random_traffic_adds_up(start, seed):
    """A thousand random requests over replicas that fail in every way: no lease, token, line or answer is lost or invented."""
    rng = random.Random(seed)
    stack = await start(config(), fakes=FAKES)
    freeze_limits(stack)
    sure = [Draw.patient(1000 + number, *wish) for number, wish in enumerate(SURE)]
    draws = [Draw(rng, number) for number in range(1000)]
    for name, fake in stack.fakes.items():
        fake.faults.add(status=400 if name.startswith("s") else 404, body={"error": {"message": "no"}})
    answered = await play_all(stack.gateway.port, sure)
    for fake in stack.fakes.values():
        fake.faults.clear()
        fake.faults.extend(FAULTS)
    answered += await play_all(stack.gateway.port, draws)
    draws += sure
    await stack.until(stack.idle)
    await stack.until(lambda: len(stack.log.lines) >= len(draws))
    log = stack.log.lines
    check_lines(log, draws)
    check_outcomes(log, await scrape(stack))
    check_limits(stack.gateway.parts.limiter.ledger, log, apart=isinstance(stack.gateway, Apart))
    check_answers(answered)
    await check_cache(stack.gateway.parts.exact)
    await stack.until(lambda: all(not f.app.engine.running and not f.app.engine.waiting for f in stack.fakes.values()))
    seen = Counter(line["outcome"] for line in log)
    assert len(seen) == 8, f"the draw reaches every outcome: {seen}"
    tried = Counter(line["cascade"] for line in log if "cascade" in line)
    assert {"answered", "unchecked", "failed"} <= set(tried), f"and every end of a cascade: {tried}"


def check_lines(log, draws):
    """One line for each request, told by the id that its client gave."""
    # a request whose client left in mid-head never was one; all of these had their head sent
    assert Counter(line["client_request_id"] for line in log) == Counter(f"c-{draw.number}" for draw in draws)
    assert len({line["request_id"] for line in log}) == len(draws)
    assert "internal_error" not in {line.get("error") for line in log}
    assert all(line["outcome"] for line in log)


def check_outcomes(log, found):
    """The counters say what the lines say."""
    by_outcome = Counter(line["outcome"] for line in log)
    assert {name: total(found, "tiergate_requests_total", outcome=name) for name in by_outcome} == by_outcome
    assert total(found, "tiergate_requests_total") == len(log)
    assert total(found, "tiergate_inflight_requests") == total(found, "tiergate_queue_depth") == 0
    counted, told = tokens_told(found, log)
    assert counted == told


def check_limits(ledger, log, *, apart):
    """No slot is held, and what each tenant has spent is what its lines were charged.

    Where the dispatcher is apart a client may leave before it has said whether the request is admitted: such a line may be
    of a request that was refused, or of one that was counted before it was looked at.
    """
    accounts = ledger._accounts
    assert not {name: account.parallel for name, account in accounts.items() if account.parallel}
    for name in ("acme", "globex", "initech"):
        mine = [line for line in log if line["tenant"] == name and line["endpoint"] in MODEL_CALLS]
        admitted = [
            line
            for line in mine
            if line.get("error") not in REFUNDED and not (line["outcome"] == "client_gone" and not line["requested"])
        ]
        gone = [line for line in mine if apart and line["outcome"] == "client_gone" and not line["attempts"]]
        sure = sum(line not in gone for line in admitted)
        assert sure <= accounts[f"tenant:{name}"].requests / UNIT <= sure + len(gone), name
        assert accounts[f"tenant:{name}"].tokens == sum(line["charged_tokens"] for line in mine) * UNIT, name


def check_answers(answered):
    """Every answer that was read to its end is proper HTTP, and is whole or says that it is not."""
    words = defaultdict(set)
    for draw, answer in answered:
        assert answer.clean, draw.number
        if not answer.headers["content-type"].startswith("text/event-stream"):
            body = answer.json()
            if answer.status_code != 200:
                assert "error" in body
                continue
        elif not whole(answer):
            continue
        if draw.same is not None:
            words[draw.same].add(json.dumps([(one["content"], one["finish"]) for one in said(answer)]))
    assert len(words) > 20
    assert {same: found for same, found in words.items() if len(found) > 1} == {}


def whole(answer):
    """A stream ends with [DONE], with an error event, or, where the backend drops [DONE], after its finish reason."""
    last = [part for part in answer.text.split("\n\n") if part][-1]
    if last == "data: [DONE]":
        return '"error"' not in answer.text and '"id":"broken"' not in answer.text
    payload = json.loads(last.removeprefix("data: "))
    assert "error" in payload or payload["choices"] == [] or payload["choices"][0]["finish_reason"], last
    return False


async def check_cache(exact):
    """What was kept is complete, and comes back from a replay as it went in."""
    entries = list(exact._shelf.of(None))
    assert entries
    for entry in entries:
        answer = msgspec.json.decode(entry.body)
        assert worth_keeping(answer)
        if entry.endpoint == "embeddings":
            continue
        assert {choice["finish_reason"] for choice in answer["choices"]} == {"stop"}
        again = Answer(
            200,
            {"content-type": "application/json"},
            assemble(entry.endpoint, as_events(entry.endpoint, answer, include_usage=True)),
        )
        assert said(again) == said(Answer(200, {"content-type": "application/json"}, entry.body))
    stats = await exact.stats()
    assert stats.bytes <= stats.max_bytes
