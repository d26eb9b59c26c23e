"""What engines publish of their caches decides where requests go: the model `told` has both engines, and hears them."""

import time
import uuid

import httpx
from e2e_programs import BACKEND_KEY, until

LINES = "The quick brown fox jumps over the lazy dog. " * 25


def asked(model, text):
    return {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 4, "ignore_eos": True}


def cached(answer):
    assert answer.status_code == 200, answer.text
    return (answer.json()["usage"]["prompt_tokens_details"] or {"cached_tokens": 0})["cached_tokens"]


def count(fleet, name, **labels):
    return fleet.gauge(name, model="told", **labels)


def test_requests_go_where_an_engine_says_it_has_them(fleet, figures):
    """Prompts that either engine has read for another model go to just that engine, and find there what was expected."""
    until(lambda: count(fleet, "tiergate_kv_events_live") == 2, "both engines heard", 60)
    fleet.settle()
    before = count(fleet, "tiergate_prefix_expected_tokens_total"), count(fleet, "tiergate_prefix_tokens_total", result="hit")
    spent = []
    for turn in range(6):
        model, replica = (("small", "t1"), ("large", "t2"))[turn % 2]
        text = f"{uuid.uuid4()} {LINES}"
        heard = count(fleet, "tiergate_kv_events_total", what="batches")
        assert cached(fleet.post(asked(model, text))) == 0
        until(lambda heard=heard: count(fleet, "tiergate_kv_events_total", what="batches") > heard, "its blocks are told", 30)
        time.sleep(0.5)  # and those of its answer
        began = time.monotonic()
        answer = fleet.post(asked("told", text))
        spent.append(time.monotonic() - began)
        assert answer.headers["x-tiergate-replica"] == replica, turn
        assert cached(answer) >= 200
    assert count(fleet, "tiergate_prefix_choices_total", by="precise") >= 6
    assert count(fleet, "tiergate_prompt_tokenizations_total", result="known") >= 6
    expected = count(fleet, "tiergate_prefix_expected_tokens_total") - before[0]
    delivered = count(fleet, "tiergate_prefix_tokens_total", result="hit") - before[1]
    figures["KV events: expected, delivered cached tokens"] = f"{expected:.0f}, {delivered:.0f}"
    assert abs(expected - delivered) <= 0.1 * delivered
    assert count(fleet, "tiergate_kv_events_total", what="garbage") == 0


def test_a_cache_that_was_reset_is_known_to_be_empty(fleet):
    """After a reset nobody is sent there for what it had: the other engine, which has it still, gets the request."""
    fleet.settle()
    text = f"{uuid.uuid4()} {LINES}"
    for model in ("large", "small"):
        fleet.post(asked(model, text))
    fleet.settle()
    key = {"authorization": f"Bearer {BACKEND_KEY}"}
    reset = httpx.post(fleet.large.root + "/reset_prefix_cache", headers=key, timeout=60, trust_env=False)
    assert reset.status_code == 200, reset.text
    fleet.post(asked("large", f"{uuid.uuid4()} another"))  # its next step tells of it
    time.sleep(1.0)
    answer = fleet.post(asked("told", text))
    assert answer.headers["x-tiergate-replica"] == "t1"
    assert cached(answer) >= 200


def test_an_engine_that_was_started_anew_is_heard_from_its_beginning(fleet):
    """What the one before it had is forgotten, and what the new one reads is known."""
    fleet.settle()
    text = f"{uuid.uuid4()} {LINES}"
    fleet.post(asked("large", text))
    fleet.large.kill()
    until(lambda: count(fleet, "tiergate_kv_events_live") == 1, "the silence is noticed", 60)
    fleet.large.start()
    fleet.large.await_ready()
    until(lambda: fleet.gauge("tiergate_replica_up") == fleet.replicas, "all replicas up", 60)
    fleet.post(asked("large", f"{uuid.uuid4()} {LINES}"))
    until(lambda: count(fleet, "tiergate_kv_events_live") == 2, "it is heard again", 60)
    fleet.post(asked("small", text))
    time.sleep(1.0)
    answer = fleet.post(asked("told", text))
    assert answer.headers["x-tiergate-replica"] == "t1"
    fleet.settle()
