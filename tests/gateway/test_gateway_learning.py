"""Learning on own traffic, through the whole gateway: what is asked of the other tier, and what is written down."""

import asyncio
import json
import os
import stat

import pytest
from gateway_talk import KEY, OTHER_KEY

from gateway.lab.fake import Options
from gateway.learning.line import decode

EASY, HARD = "What is the capital of France?", "Prove step by step that the square root of two is irrational."
ALL = {"routing": {"learning": {"enabled": True, "share": 1.0, "per_minute": 100_000, "path": "own"}}}


@pytest.fixture
def scripted(tmp_path):
    """A fake that says what is written beforehand: `match`, `content` and so on of each reply."""

    def make(*replies):
        path = tmp_path / f"script-{len(list(tmp_path.glob('script-*')))}.json"
        path.write_text(json.dumps(replies))
        return Options(script=str(path))

    return make


@pytest.fixture
def pair(scripted):
    """The two tiers' answers to an easy question; both say the same of a hard one."""

    def make(small="Paris", large="Paris.", hard="B"):
        return {
            "s1": scripted({"match": "France", "content": small}, {"match": "Prove", "content": hard}),
            "l1": scripted(
                {"match": "[", "content": "A"}, {"match": "France", "content": large}, {"match": "Prove", "content": "(b)"}
            ),
        }

    return make


def lines(tmp_path):
    found = []
    for path in sorted((tmp_path / "own" / "log").glob("*.jsonl")):
        found += [decode(line) for line in path.read_bytes().splitlines()]
    return found


async def written(stack, tmp_path, count=1):
    await stack.until(lambda: len(lines(tmp_path)) >= count)
    await stack.at_rest()
    assert len(lines(tmp_path)) == count
    return lines(tmp_path)


def says(tmp_path, reply):
    """A fake that says this, whatever it is asked."""
    path = tmp_path / "says.json"
    path.write_text(json.dumps([{"content": reply}]))
    return Options(script=str(path))


async def counted(stack, result, count):
    line = f'tiergate_route_shadows_total{{result="{result}"}} {count}.0'
    for _ in range(200):
        if line in (await stack.client.get("/metrics")).text:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(line)


def asked(fake):
    return [entry for entry in fake.log if "chat" in entry.path]


def changed(changes):
    """`ALL` with other settings of learning."""
    return {"routing": {"learning": {**ALL["routing"]["learning"], **changes}}}


@pytest.mark.parametrize("workers", [0, 1], ids=["one process", "dispatcher apart"])
async def test_two_answers_say_whether_the_small_tier_is_good_enough(start, tmp_path, scripted, workers):
    """Easy requests are answered by the small tier, asked of the large one as well, and the agreement is written down."""
    places = {"France": ("Paris", "paris.", 1.0), "Peru": ("Cusco", "Lima", 0.0), "Chad": ("#### 7", "The answer is 8.", 0.0)}
    small, large = (scripted(*({"match": name, "content": said[at]} for name, said in places.items())) for at in (0, 1))
    stack = await start(ALL, fakes={"s1": small, "l1": large}, workers=workers)
    for count, (name, (said, _, good)) in enumerate(places.items(), 1):
        answer = await stack.chat(f"What is the capital of {name}?", model="auto")
        assert answer.json()["choices"][0]["message"]["content"] == said
        line = (await written(stack, tmp_path, count))[-1]
        assert (line.answered, line.small, line.large, line.source) == ("small", good, 1.0, "agreement")
        assert (line.text, line.tenant) == (f"What is the capital of {name}?", "acme")
        assert (line.model, line.other, line.id) == ("small-model", "large-model", answer.headers["x-request-id"])
        assert line.score == pytest.approx(float(answer.headers["x-tiergate-score"]), abs=1e-3)


async def test_a_hard_request_is_asked_of_the_small_tier_in_class_batch(start, tmp_path, pair):
    """What the large tier answered is asked of the small one: streams, too, and their bytes are what they would be without."""
    stack = await start(ALL, fakes=pair())
    plain = await stack.chat(HARD, model="large-model", stream=True)
    watched = await stack.chat(HARD, model="auto", stream=True)
    assert watched.headers["x-tiergate-tier"] == "large"
    assert watched.text.count("data:") == plain.text.count("data:")
    assert watched.text.endswith("data: [DONE]\n\n")
    [line] = await written(stack, tmp_path)
    assert (line.answered, line.small, line.large) == ("large", 1.0, 1.0)


async def test_the_tenant_is_not_charged_and_the_decision_is_counted_once(start, tmp_path, pair):
    """What is asked behind a request takes nothing of its tenant's limits, and is no decision of the router."""
    stack = await start(ALL | {"plans": {"pro": {"rpm": 2, "tpm": 1000}}}, fakes=pair())
    for _ in range(2):
        answer = await stack.chat(EASY, model="auto", max_tokens=50, headers={"x-tiergate-cache": "no-cache"})
        assert answer.status_code == 200
    await written(stack, tmp_path, 2)
    page = (await stack.client.get("/metrics")).text
    assert 'tiergate_route_decisions_total{reason="score",tier="small"} 2.0' in page
    assert 'tiergate_route_shadows_total{result="good"} 2.0' in page
    assert 'reason="override"' not in page


async def test_what_is_not_looked_at(start, tmp_path, scripted):
    """Nothing is asked of the other tier, or written, of what the classifier did not decide, or may not be learned from."""
    france = {"match": "France", "content": "Paris"}
    cut = {"match": "Peru", "content": "Lima is", "finish_reason": "length"}
    stack = await start(changed({"tenants": ["acme"]}), fakes={"s1": scripted(france, cut), "l1": scripted(france)})
    others = {
        "pinned": {"model": "small-model"},
        "override": {"headers": {"x-tiergate-tier": "large"}},
        "no-store": {"headers": {"x-tiergate-cache": "no-store"}},
        "several answers": {"n": 2},
        "the backend's own tools": {"tools": [{"type": "web_search"}]},
        "cut short": {"content": "What is the capital of Peru?"},
        "another tenant": {"key": OTHER_KEY},
    }
    for name, request in others.items():
        before = len(asked(stack.small)) + len(asked(stack.large))
        await stack.chat(**{"content": EASY, "model": "auto", **request})
        await stack.until(lambda: not stack.gateway.parts.behind._tasks)
        await stack.at_rest()
        assert len(asked(stack.small)) + len(asked(stack.large)) <= before + 1, name
    assert not (tmp_path / "own").exists()


async def test_a_hit_is_not_asked_again(start, tmp_path, pair):
    """An answer from the cache teaches nothing, and costs nothing."""
    stack = await start(ALL, fakes=pair())
    for _ in range(3):
        answer = await stack.chat(EASY, model="auto", temperature=0)
    assert answer.headers["x-tiergate-cache"] == "exact"
    await written(stack, tmp_path, 1)
    assert (len(asked(stack.small)), len(asked(stack.large))) == (1, 1)


async def test_nothing_is_asked_of_a_pool_that_has_no_free_slot(start, tmp_path, pair):
    """While the other tier is full a request is not shadowed: nobody ever waits behind it."""
    changes = ALL | {"models": {1: {"concurrency": {"kind": "fixed", "max": 1}}}}
    stack = await start(changes, fakes=pair() | {"l1": Options(ttft=30.0)})
    slow = asyncio.create_task(stack.chat("x", model="large-model"))
    await stack.until(lambda: bool(asked(stack.large)))
    assert (await stack.chat(EASY, model="auto")).status_code == 200
    await stack.until(lambda: not stack.gateway.parts.behind._tasks)
    assert len(asked(stack.large)) == 1
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    await stack.until(stack.idle)
    assert 'tiergate_route_shadows_total{result="unanswered"} 1.0' in (await stack.client.get("/metrics")).text


async def test_the_client_has_its_answer_before_the_other_tier_does(start, tmp_path, pair):
    """However slow the other tier is, the client does not wait for it; a gateway that stops does not, either."""
    stack = await start(ALL, fakes=pair() | {"l1": Options(ttft=30.0)})
    assert (await stack.chat(EASY, model="auto")).status_code == 200
    await stack.until(lambda: bool(asked(stack.large)))
    assert stack.gateway.parts.behind._tasks
    assert not (tmp_path / "own").exists()
    await stack.gateway.stop()
    assert not stack.gateway.parts.behind._tasks


async def test_a_budget_bounds_what_is_asked(start, tmp_path, pair):
    """Of five requests in the first seconds of a process one is shadowed: no reload saves up another minute's worth."""
    stack = await start(changed({"per_minute": 2}), fakes=pair())
    for number in range(5):
        await stack.chat(f"{EASY} {number}", model="auto")
    await written(stack, tmp_path, 1)


async def test_tokens_bound_what_is_asked(start, tmp_path, pair):
    """A request whose answer may be longer than the budget of tokens is not shadowed."""
    stack = await start(changed({"tokens_per_minute": 100}), fakes=pair())
    await stack.chat(EASY, model="auto", max_tokens=500)
    await stack.chat(EASY, model="auto", max_tokens=20)
    await written(stack, tmp_path, 1)


async def test_a_judge_is_asked_in_both_orders(start, tmp_path, pair):
    """What cannot be compared goes to the judge twice; one that prefers a place finds a draw: small is good enough."""
    long = "It depends on many things, of which I will tell you some at length, in my own words. " * 3
    stack = await start(changed({"judge": "large-model"}), fakes=pair("First of all, " + long, "Well then, " + long))
    await stack.chat(EASY, model="auto")
    [line] = await written(stack, tmp_path)
    assert (line.source, line.small, line.large) == ("judge", 1.0, 1.0)
    assert len(asked(stack.large)) == 3


@pytest.mark.parametrize("small", ["Paris", "It depends on many things, of which I will tell you some at length. " * 3])
async def test_a_judge_that_answers_with_no_letter_makes_no_label(start, tmp_path, pair, caplog, small):
    """Neither one of agreement: what differs is left alone, counted, and told once."""
    fakes = pair(small) | {"l1": says(tmp_path, "Rome")}
    stack = await start(changed({"judge": "large-model"}), fakes=fakes)
    for number in range(3):
        await stack.chat(f"{EASY} {number}", model="auto")
    await counted(stack, "unjudged", 3)
    assert not lines(tmp_path)
    assert [record.getMessage() for record in caplog.records if "no letter" in record.getMessage()] == [
        "the judge of routing.learning does not answer, or with no letter: what it is asked about has no label"
    ]


@pytest.mark.parametrize("workers", [0, 2], ids=["one process", "dispatcher apart"])
async def test_feedback_is_told_whether_it_is_a_label(start, tmp_path, pair, workers):
    """Of a request that `auto` decided, three times, whichever worker hears of it; not of others, nor of nobody's."""
    stack = await start(changed({"share": 0.0}), fakes=pair(), workers=workers)
    decided = (await stack.chat(EASY, model="auto")).headers["x-request-id"]
    pinned = (await stack.chat(EASY, model="small-model")).headers["x-request-id"]

    async def rate(request_id, key=KEY):
        said = await stack.client.post(
            "/v1/feedback", json={"request_id": request_id, "score": 1}, headers={"authorization": f"Bearer {key}"}
        )
        return said.json()["labelled"]

    assert [await rate(pinned), await rate("req-nobody"), await rate(decided, OTHER_KEY)] == [False] * 3
    assert [await rate(decided) for _ in range(5)] == [True] * 3 + [False] * 2
    await written(stack, tmp_path, 3)


async def test_feedback_labels_the_tier_that_answered(start, tmp_path, pair):
    """A thumb on a request that was not shadowed is a label of one tier; a stranger's is none."""
    stack = await start(changed({"share": 0.0}), fakes=pair())
    answer = await stack.chat(EASY, model="auto", headers={"x-request-id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    for key, body in ((OTHER_KEY, {"thumb": "up"}), (KEY, {"thumb": "down"}), (KEY, {"score": 0.75})):
        said = await stack.client.post(
            "/v1/feedback", json={"request_id": "mine-1", **body}, headers={"authorization": f"Bearer {key}"}
        )
        assert said.status_code == 200
    found = await written(stack, tmp_path, 2)
    assert [(line.source, line.small, line.large) for line in found] == [("feedback", 0.0, None), ("feedback", 0.75, None)]
    assert len(asked(stack.large)) == 0


async def test_feedback_finds_the_worker_that_answered(start, tmp_path, pair):
    """With several workers it does not matter which of them hears of it."""
    stack = await start(changed({"share": 0.0}), fakes=pair(), workers=2)
    first, second = (worker.parts.own.learning for worker in stack.gateway.workers)
    answer = await stack.chat(EASY, model="auto")
    known = [learning for learning in (first, second) if learning._recent.find("acme", answer.headers["x-request-id"])]
    assert len(known) == 1
    other = second if known == [first] else first
    assert await other.rated("acme", answer.headers["x-request-id"], 1.0)
    assert not await other.rated("acme", "nobody-asked", 1.0)
    [line] = await written(stack, tmp_path)
    assert (line.small, line.large, line.text) == (1.0, None, EASY)


async def test_another_dispatcher_goes_on_writing(start, tmp_path, pair):
    """What is learned after the process that writes was replaced is written by its successor, in a file of its own."""
    stack = await start(ALL, fakes=pair(), workers=1)
    await stack.chat(EASY, model="auto")
    await written(stack, tmp_path)
    await stack.gateway.replace_dispatcher()
    await stack.until(lambda: all(r.up for s in stack.gateway.parts.lanes.values() for r in s.pool.replicas))
    await stack.chat(HARD, model="auto")
    found = await written(stack, tmp_path, 2)
    assert [line.text for line in found] == [EASY, HARD]
    assert len(list((tmp_path / "own" / "log").iterdir())) == 2


async def test_the_prompt_is_kept_only_where_that_is_wanted(start, tmp_path, pair):
    """With `keep: grams` no word of what was asked is on disk; the files are their owner's alone."""
    before = os.umask(0)
    try:
        stack = await start(changed({"keep": "grams"}), fakes=pair())
        await stack.chat(EASY, model="auto")
        [line] = await written(stack, tmp_path)
    finally:
        os.umask(before)
    assert line.text is None
    assert len(line.grams) > 5
    [path] = (tmp_path / "own" / "log").iterdir()
    assert b"France" not in path.read_bytes()
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)


async def test_a_folder_that_cannot_be_written_costs_no_request(start, tmp_path, pair, caplog):
    """Where there is a file in the way of the folder requests go on, and the log says so once, without a word of the prompt."""
    (tmp_path / "own").write_text("in the way")
    stack = await start(ALL, fakes=pair())
    for number in range(2):
        assert (await stack.chat(f"{EASY} {number}", model="auto")).status_code == 200
        await stack.until(lambda count=number + 1: stack.gateway.parts.journal.dropped == count)
    said = [record.getMessage() for record in caplog.records if record.name == "tiergate.learning"]
    assert len(said) == 1
    assert "France" not in said[0]


async def test_off_is_off(start, tmp_path, pair):
    """Without `enabled` nothing is asked of another tier and nothing is on disk."""
    stack = await start(fakes=pair())
    await stack.chat(EASY, model="auto")
    await stack.at_rest()
    assert len(asked(stack.large)) == 0
    assert not (tmp_path / "data").exists()
    assert json.loads((await stack.client.get("/ready")).content)["ready"]
