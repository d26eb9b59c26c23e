"""One replica of three answers badly and at once: what its clients, its breaker and the operator see of that."""

import asyncio
from collections import Counter

import pytest

from gateway.lab.fake import Options

GOOD = Options(ttft=0.02, itl=0.0)
THREE = {"s1": GOOD, "s2": GOOD, "s3": GOOD, "l1": Options()}
SSE = {"content-type": "text/event-stream"}
REFUSALS = {
    "429": {"status": 429},
    "429 with retry-after": {"status": 429, "headers": {"retry-after": "1"}},
    "503 with retry-after": {"status": 503, "headers": {"retry-after": "1"}},
}
FAILURES = {
    **{str(status): {"status": status} for status in (500, 520, 529)},
    "502 with retry-after": {"status": 502, "headers": {"retry-after": "2"}},
    "an empty stream": {"status": 200, "body": "", "headers": SSE},
    "a stream of its end alone": {"status": 200, "body": "data: [DONE]\n\n", "headers": SSE},
    "a comment and the end": {"status": 200, "body": ": hi\n\ndata: [DONE]\n\n", "headers": SSE},
    "a page": {"status": 200, "body": "<html>hi</html>", "headers": {"content-type": "text/html"}},
    "402": {"status": 402},
}
SPOILED = {
    "an error after tokens, then the end": {"error_in_stream": 2},
    "an error in one piece with its tokens": {
        "status": 200, "headers": SSE, "body":
        'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\ndata: {"error":{"code":500}}\n\ndata: [DONE]\n\n',
    },
}  # fmt: skip


def asked(fake):
    return len([call for call in fake.calls if call.method == "POST"])


async def crowd(stack, each=10, clients=8, stream=True):
    """The statuses that so many clients get, who ask one request after the other."""
    statuses = Counter()

    async def one(number):
        for turn in range(each):
            answer = await stack.chat(f"{number} {turn} {'word ' * 40}", stream=stream, max_tokens=3)
            statuses[answer.status_code] += 1

    await asyncio.gather(*(one(number) for number in range(clients)))
    return statuses


def replica(stack, name="s1"):
    return next(stats for stats in stack.gateway.parts.lanes["small-model"].pool.stats() if stats.name == name)


@pytest.mark.parametrize("kind", ["work_cost", "least_requests"])
@pytest.mark.parametrize("case", REFUSALS)
async def test_one_that_refuses_is_left_alone_and_comes_back(start, case, kind):
    """All requests are served, most of them at the first attempt, its breaker stays closed; when it accepts it has its share."""
    stack = await start({"models": {0: {"balance": {"kind": kind}}}}, fakes=dict(THREE))
    stack.small.faults.add(**REFUSALS[case])
    assert await crowd(stack) == {200: 80}
    assert asked(stack.small) < 40
    seen = replica(stack)
    assert (seen.breaker, seen.ready, seen.refusals) == ("closed", True, asked(stack.small))
    metrics = (await stack.client.get("/metrics")).text
    assert f'tiergate_replica_refusals_total{{model="small-model",replica="s1"}} {seen.refusals}' in metrics
    stack.small.faults.clear()
    before = asked(stack.small)
    await stack.until(lambda: not replica(stack).held_for)
    assert await crowd(stack, each=4) == {200: 32}
    assert asked(stack.small) > before + 4
    await stack.at_rest()


@pytest.mark.parametrize(("case", "stream"), [*((case, True) for case in FAILURES), ("520", False), ("a page", False)])
async def test_what_no_request_can_cause_opens_the_breaker(start, case, stream):
    """Whatever the failure is, clients lose little or nothing, and its replica is taken out like any that fails."""
    stack = await start(fakes=dict(THREE))
    stack.small.faults.add(**FAILURES[case])
    statuses = await crowd(stack, each=4, stream=stream)
    assert statuses[200] >= 32 - (14 if case == "402" else 0)
    assert replica(stack).breaker == "open"
    assert replica(stack).latency is None or replica(stack).latency >= 0.02
    assert asked(stack.small) < 16
    await stack.at_rest()


@pytest.mark.parametrize("case", SPOILED)
async def test_an_error_of_the_engine_in_a_stream_counts_for_the_breaker(start, case):
    """Its clients get what it sent, to the end; after the first few of them it is asked no more."""
    stack = await start(fakes=dict(THREE))
    stack.small.faults.add(**SPOILED[case])
    answer = await stack.chat("hi", stream=True)
    while answer.headers["x-tiergate-replica"] != "s1":
        answer = await stack.chat("hi", stream=True)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert '"error"' in answer.text
    assert await crowd(stack, each=4) == {200: 32}
    assert replica(stack).breaker == "open"
    assert asked(stack.small) < 16


async def test_an_error_in_a_stream_that_is_the_clients_counts_for_nobody(start):
    """An engine that finds fault with the request in mid-stream is well."""
    stack = await start()
    stack.small.faults.add(error_in_stream={"after": 2, "error": {"message": "no", "code": 400}})
    for _ in range(8):
        assert (await stack.chat("hi", stream=True)).status_code == 200
    assert replica(stack).breaker == "closed"


@pytest.mark.parametrize(("status", "stream"), [(400, True), (400, False), (413, False), (418, False), (501, True)])
async def test_one_that_finds_fault_with_everything_is_found_out(start, status, stream, caplog):
    """Its first answers pass on as they are; then another one is asked, serves, and the bad one gets little from there on."""
    stack = await start(fakes=dict(THREE))
    stack.small.faults.add(status=status)
    statuses = await crowd(stack, each=8, stream=stream)
    assert statuses[200] >= 64 - (14 if status != 501 else 0)
    assert asked(stack.small) < 32
    assert replica(stack).refusals > 0
    assert replica(stack).breaker == "closed"
    assert len([record for record in caplog.records if "finds fault" in record.getMessage()]) == 1
    await stack.at_rest()


@pytest.mark.parametrize(("status", "most"), [(400, 2), (418, 2), (501, 3)])
async def test_bad_requests_take_no_replica_out(start, status, most):
    """What all replicas find fault with passes on as it is, and costs one further attempt a second at most; a 501 fails over."""
    stack = await start(fakes=dict(THREE))
    body = {"error": {"message": "no such thing", "type": "BadRequestError", "param": None, "code": status}}
    for name in ("s1", "s2", "s3"):
        stack.fakes[name].faults.add(status=status, body=body)
    answers = [await stack.chat("hi") for _ in range(40)]
    assert {answer.status_code for answer in answers} == {502 if status == 418 else status}
    assert status != 400 or all(answer.json() == body for answer in answers)
    lines = [await stack.line(), *stack.log.lines]
    assert {line["attempts"] for line in lines} <= {1, most}
    assert max(line["attempts"] for line in lines) == most
    assert sum(line["charged_tokens"] for line in lines) == 0
    for name in ("s1", "s2", "s3"):
        seen = replica(stack, name)
        assert (seen.breaker, seen.refusals, seen.ready) == ("closed", 0, True)
    await stack.at_rest()


async def test_where_another_opinion_fails_the_first_one_stands(start):
    """A replica that finds fault many times in a row, and others that fail: its answer is told, not theirs."""
    stack = await start({"models": {0: {"balance": {"kind": "consistent_hash"}}}}, fakes={"s1": GOOD, "s2": GOOD, "l1": GOOD})
    for name, status in (("s1", 400), ("s2", 400)):
        stack.fakes[name].faults.add(status=status)
    home = (await stack.chat("hi", headers={"x-tiergate-session": "a"})).headers["x-tiergate-replica"]
    other = "s2" if home == "s1" else "s1"
    stack.fakes[other].faults.clear()
    stack.fakes[other].faults.add(status=500)
    for _ in range(6):
        assert (await stack.chat("hi", headers={"x-tiergate-session": "a"})).status_code == 400
    assert asked(stack.fakes[other]) == 2


async def test_all_refuse_and_the_last_429_is_kept(start):
    """A pool of which all refuse is asked for every request, and says what the replicas say."""
    stack = await start(fakes=dict(THREE))
    for name in ("s1", "s2", "s3"):
        stack.fakes[name].faults.add(status=429, headers={"retry-after": "7"})
    answers = [await stack.chat("hi") for _ in range(6)]
    assert {(answer.status_code, answer.headers["retry-after"]) for answer in answers} == {(429, "7")}
    assert [asked(stack.fakes[name]) for name in ("s1", "s2", "s3")] == [6, 6, 6]
    stack.fakes["s2"].faults.clear()
    assert {(await stack.chat("hi")).status_code for _ in range(6)} == {200}
