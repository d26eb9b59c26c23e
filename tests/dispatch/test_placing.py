"""An index that is kept true: what engines tell of themselves, and what their answers give away."""

import random

import pytest

from backends.balance import make_balance
from backends.breaker import Breaker
from backends.client import Client, Origin
from backends.replica import Replica
from backends.types import Ask
from caches.chain import chain, chain_key
from gateway.dispatch.placing import Placing, placing_of
from gateway.dispatch.types import WorkAsk
from limits.waiting import Priority, Spent

KEY = chain_key("m")
TOKENS = 4000


def work(text="some words " * 1500, tokens=TOKENS, packed=None):
    prefix = chain(KEY, [text.encode()]) if packed is None else packed
    return WorkAsk("m", 10, False, None, Priority.STANDARD, "acme", 1, 1, 0.0, None, tokens, form="chat+stream", prefix=prefix)


@pytest.fixture
def placing():
    return placing_of("m", make_balance("work_cost"), None)


@pytest.fixture
def replica():
    return Replica("a", Client(Origin.parse("http://10.0.0.1/v1")), breaker=Breaker(random.Random(1)))


def send(placing, replica, ask, spent=None):
    """One request, from the choice to its end; what the balance was told of the replica."""
    placed = placing.place(ask)
    told = placed.ask(Ask(None, ask.prompt_tokens))
    placed.sent(replica)
    if spent is not None:
        placed.ended(spent)
    return told.cached.get(replica.name, 0)


def page(start=1e9, counted=0, awake=1.0, blocks=4096):
    cache = f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{blocks}"}} 1'
    sleep = f'vllm:engine_sleep_state{{sleep_state="awake"}} {awake}'
    told = ["vllm:num_requests_running 0", "vllm:num_requests_waiting 0", cache, f"vllm:prompt_tokens_total {counted}", sleep]
    return "\n".join([*told, f"process_start_time_seconds {start}", ""]).encode()


def test_only_who_looks_at_prompts_has_an_index():
    """For every other balance nothing is kept."""
    assert placing_of("m", make_balance("least_requests"), None) is None
    assert isinstance(placing_of("m", make_balance("sticky"), 100), Placing)


def test_what_was_sent_is_cached_there_from_then_on(placing, replica):
    """The second request with the same beginning is told of it before the first one has ended."""
    assert send(placing, replica, work()) == 0
    assert send(placing, replica, work()) > 0.95 * TOKENS


@pytest.mark.parametrize("packed", [b"", b"no chain", b"\0" * 32, b"x" * 33])
def test_a_beginning_that_cannot_be_read_is_none(placing, replica, packed):
    """A worker's fault costs a request its place, and nothing more."""
    assert send(placing, replica, work(packed=packed), Spent(4000, 10, whole=True, cached=0)) == 0
    assert placing.entries == 0


@pytest.mark.parametrize(
    "later",
    [
        page(start=1e9 + 5),
        page(counted=10),
        page(awake=0.0),
        page(blocks=0).replace(b'num_gpu_blocks="0"', b'enable_prefix_caching="False"'),
    ],
    ids=["another start", "counters that fell", "asleep", "no prefixes"],
)
def test_an_engine_that_lost_its_cache_is_believed_to_have_nothing(placing, replica, later):
    """By what it tells of itself; and one that tells the same as before keeps everything."""
    placing.scraped(replica, page(counted=500))
    send(placing, replica, work())
    placing.scraped(replica, page(counted=600))
    assert placing.index.tokens("a") > 0
    placing.scraped(replica, later)
    assert placing.index.tokens("a") == 0


def test_room_is_what_was_scraped_and_else_what_was_configured(replica):
    """The config's figure holds until the engine tells its own."""
    placing = placing_of("m", make_balance("work_cost"), 1000)
    send(placing, replica, work())
    assert 900 < placing.index.tokens("a") <= 1000
    placing.scraped(replica, page(blocks=32))
    assert 400 < placing.index.tokens("a") <= 512


def test_two_answers_without_what_was_expected_give_a_reset_away(placing, replica, caplog):
    """One may be bad luck; the second in a row empties the index of that replica, and is logged once for the model."""
    other = "another text " * 1500
    full, none = Spent(100, 50, whole=True, cached=3900), Spent(4000, 50, whole=True)
    for spent in (full, none, full, none, full):
        send(placing, replica, work(), spent)
    send(placing, replica, work(other), full)
    for _ in range(2):
        assert placing.look(work(other).prefix, None, TOKENS).cached
        for _ in range(2):
            send(placing, replica, work(), none)
        assert placing.look(work().prefix, None, TOKENS).cached
        assert not placing.look(work(other).prefix, None, TOKENS).cached
        send(placing, replica, work(other), full)
    assert len([line for line in caplog.messages if "thought to be cached" in line]) == 1
    assert "some words" not in caplog.text


def test_a_miss_behind_another_prompt_is_no_proof(placing, replica):
    """What is being read just now is not in the cache yet: who comes at the same time computes it again, and nothing is lost."""
    send(placing, replica, work(), Spent(100, 50, whole=True, cached=3900))
    replica.pending = 3000
    for _ in range(5):
        send(placing, replica, work(), Spent(4000, 50, whole=True))
    replica.pending = 0
    send(placing, replica, work("one more " * 100), Spent(300, 50, whole=True))
    assert placing._strikes == {}


def test_a_stream_that_was_cut_is_no_proof(placing, replica):
    """Its usage never came, so nobody knows what was cached."""
    send(placing, replica, work(), Spent(100, 50, whole=True, cached=3900))
    for _ in range(5):
        send(placing, replica, work(), Spent(4000, 50, whole=False))
    assert placing._strikes == {}


def test_an_engine_that_never_tells_is_not_judged(placing, replica):
    """Without cached tokens in its usage nothing can be compared, and nothing is counted."""
    for _ in range(5):
        send(placing, replica, work(), Spent(4000, 50, whole=True))
    assert placing.index.tokens("a") > 0
    assert placing.told.expected == 0


def test_what_failed_says_nothing(placing, replica):
    """An attempt that cost nothing is no answer, and no proof of a cache that was lost."""
    send(placing, replica, work(), Spent(100, 50, whole=True, cached=3900))
    for _ in range(4):
        send(placing, replica, work(), Spent(0, 0, whole=False))
    assert placing.index.tokens("a") > 0


def test_what_was_not_read_is_not_held(placing, replica):
    """A client that leaves before its answer begins leaves nothing behind but what was there before it, and proves nothing."""
    known, more = "some words " * 1500, "some words " * 1500 + "other words " * 1500
    before = send(placing, replica, work(known), Spent(4000, 50, whole=True, cached=0))
    assert before == 0
    for _ in range(4):
        assert send(placing, replica, work(more, 8000), Spent(0, 0, whole=False)) < 4100
    assert send(placing, replica, work(known), Spent(100, 50, whole=True, cached=3900)) > 3800
    assert placing._strikes == {}


def test_a_replica_that_did_not_answer_holds_nothing_of_it(placing, replica):
    """What moved on to another replica is held by that one."""
    other = Replica("b", Client(Origin.parse("http://10.0.0.2/v1")), breaker=Breaker(random.Random(1)))
    placed = placing.place(work())
    placed.ask(Ask(None, TOKENS))
    placed.sent(replica)
    placed.sent(other)
    placed.ended(Spent(4000, 50, whole=True, cached=0))
    assert placing.look(work().prefix, None, TOKENS).cached.keys() == {"b"}


def test_one_that_left_is_forgotten(placing, replica):
    """Its name may come back as another machine."""
    placing.scraped(replica, page())
    send(placing, replica, work(), Spent(100, 50, whole=True, cached=3900))
    placing.left(replica)
    assert send(placing, replica, work()) == 0


def test_to_look_is_not_to_send(placing, replica):
    """Who only asks what it would cost leaves no trace."""
    ask = work()
    assert placing.look(ask.prefix, None, TOKENS).cached == {}
    assert placing.entries == 0
    assert placing.look(b"", "s", TOKENS).session == "s"


def test_many_with_the_same_beginning_are_a_crowd(placing, replica):
    """The next one is told how many came before it; one that is tried again elsewhere has come once; looking is not coming."""
    for _ in range(3):
        placed = placing.place(work())
        placed.sent(replica)
        placed.sent(replica)
    packed = work().prefix
    assert [came for _, came in placing.look(packed, None, TOKENS).crowd] == [3.0]
    assert [came for _, came in placing.place(work()).ask(Ask(None, TOKENS)).crowd] == [3.0]
    assert placing.look(packed, None, TOKENS).crowd[0][0] > 0.95 * TOKENS


def test_a_crowd_is_counted_for_who_wants_to_know(replica):
    """Other kinds of balance are told of none."""
    sticky = placing_of("m", make_balance("sticky"), None)
    for _ in range(3):
        sticky.place(work()).sent(replica)
    assert not sticky.look(work().prefix, None, TOKENS).crowd
