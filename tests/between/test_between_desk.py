"""What gateways know of each other: after any loss, in any order, and no longer than a second after the last word."""

import pytest
from desks import SEAL, Gateway, replica_at
from hypothesis import given
from hypothesis import strategies as st

from backends.types import Ask
from caches.chain import Chain, chain, chain_key
from gateway.between.desk import TICK
from gateway.between.peers import MOST, SILENCE, Peers
from gateway.between.words import ANSWERED, PLACED, VERSION, Event, News
from gateway.dispatch.types import WorkAsk
from limits.waiting import Priority, Spent

PROMPT = chain(chain_key("m"), [b"some words " * 1500])
TOKENS = 4000


def work(packed=PROMPT):
    return WorkAsk("m", 10, False, None, Priority.STANDARD, "acme", 1, 1, 0.0, None, TOKENS, form="chat", prefix=packed)


def send(gateway, number, answer=0):
    """A prompt goes to that replica; and its answer comes."""
    placed = gateway.placing.place(work())
    placed.ask(Ask(None, TOKENS))
    placed.sent(gateway.replicas[number])
    if answer:
        placed.ended(Spent(TOKENS, answer, whole=True, cached=None))


def cached(gateway, packed=PROMPT):
    return gateway.placing.index.match(Chain.unpack(packed), TOKENS)


@pytest.fixture
def pair():
    """The second calls the same engines by other names."""
    return Gateway(1), Gateway(2, renamed=True)


def test_what_one_has_in_flight_the_other_counts(pair):
    """By the engine's address; beside its own, which no message touches."""
    one, two = pair
    one.load(1, 3, 900)
    two.load(1, 1, 50)
    two.desk.heard(one.desk.news(0.0), 0.0)
    assert two.others == [(0, 0), (3, 900), (0, 0)]
    assert (two.replicas[1].inflight, two.replicas[1].pending) == (1, 50)
    one.load(1, 0, 0)
    one.load(2, 1, 0)
    two.desk.heard(one.desk.news(TICK), TICK)
    assert two.others == [(0, 0), (0, 0), (1, 0)]


def test_what_comes_to_one_is_a_crowd_for_the_other(pair):
    """Prompts that begin alike count wherever they came in, so that a beginning spreads as soon as before one gateway."""
    one, two = pair
    for _ in range(3):
        send(one, 0)
    send(two, 1)
    two.desk.heard(one.desk.news(0.0), 0.0)
    assert [came for _, came in two.placing.look(PROMPT, None, TOKENS).crowd] == [4.0]
    assert [came for _, came in one.placing.look(PROMPT, None, TOKENS).crowd] == [3.0]


def test_nothing_new_is_not_said_but_for_a_sign_of_life():
    """One message a change, and one in a quarter of a second."""
    one = Gateway(1)
    said = [one.desk.news(number * TICK) is not None for number in range(41)]
    assert [number for number, each in enumerate(said) if each] == [0, 10, 20, 30, 40]
    one.load(0, 1, 0)
    assert one.desk.news(41 * TICK) is not None
    assert one.desk.news(42 * TICK) is None


def test_a_message_tells_how_it_is_when_it_is_made(pair):
    """So what others know is as old as one look and the way, and no older."""
    one, two = pair
    for count in range(1, 40):
        one.load(0, count, 10 * count)
        two.desk.heard(one.desk.news(count * TICK), count * TICK)
        assert two.others[0] == (count, 10 * count)


def test_who_is_silent_has_nothing_in_flight(pair):
    """A second after its last word, whatever it said; and it is heard again when it speaks again."""
    one, two = pair
    one.load(0, 5, 5000)
    two.desk.heard(one.desk.news(0.0), 0.0)
    two.desk.expire(SILENCE)
    assert two.others[0] == (5, 5000)
    two.desk.expire(SILENCE + TICK)
    assert two.others[0] == (0, 0)
    assert len(two.desk.peers) == 0
    two.desk.heard(one.desk.news(2.0), 2.0)
    assert two.others[0] == (5, 5000)


def test_who_leaves_says_so(pair):
    """Its counts go with its last word."""
    one, two = pair
    one.load(0, 5, 5000)
    two.desk.heard(one.desk.news(0.0), 0.0)
    two.desk.heard(one.desk.farewell(0.1), 0.1)
    assert two.others[0] == (0, 0)


def test_who_hears_himself_hears_everybody():
    """Its own messages that come back say how old its knowledge is; without them it is alone, and its placing knows."""
    one = Gateway(1)
    assert one.desk.alone
    assert one.placing.alone
    first, second = one.desk.news(1.0), one.desk.news(2.0)
    one.desk.heard(first, 1.01)
    assert not one.desk.alone
    assert not one.placing.alone
    assert one.desk.age(1.5) == 0.5
    one.desk.expire(2.1)
    assert one.placing.alone
    one.desk.heard(second, 2.2)
    assert not one.placing.alone
    assert one.others == [(0, 0)] * 3


def test_alone_it_takes_from_engines_what_others_have_there(pair):
    """Requests beyond its own, and those that wait as prompts of its own usual length; until others are heard, or it is old."""
    one, _ = pair
    for _ in range(200):
        send(one, 0)
    one.load(1, 2, 0)
    one.desk.glimpse(one.replicas[1], 6.0, 1.0, 5.0)
    inflight, pending = one.others[1]
    assert inflight == 5
    assert 0.9 * TOKENS < pending <= TOKENS
    one.desk.glimpse(one.replicas[2], 0.0, 0.0, 5.0)
    assert one.others[2] == (0, 0)
    one.desk.expire(14.0)
    assert one.others[1] == (inflight, pending)
    one.desk.expire(16.0)
    assert one.others[1] == (0, 0)


def test_who_hears_others_does_not_believe_engines_of_them(pair):
    """What engines told stands no longer than until the first word comes back, and is not read after that."""
    one, two = pair
    one.desk.glimpse(one.replicas[0], 6.0, 1.0, 0.0)
    two.load(0, 1, 10)
    one.desk.heard(one.desk.news(0.0), 0.0)
    assert one.others[0] == (0, 0)
    one.desk.heard(two.desk.news(0.0), 0.0)
    one.desk.glimpse(one.replicas[0], 6.0, 1.0, 0.1)
    assert one.others[0] == (1, 10)


def test_a_replica_that_nobody_lists_is_not_looked_at(pair):
    """Its engine's numbers change nothing here, also when it has left."""
    one, _ = pair
    gone = one.replicas[0]
    one.pool.remove(gone)
    one.desk.news(0.0)
    for replica in (gone, replica_at("stranger", "http://10.1.1.1/v1")):
        one.desk.glimpse(replica, 5.0, 5.0, 0.0)
        assert (replica.others_inflight, replica.others_pending) == (0, 0)


def test_what_was_placed_is_known_to_all(pair):
    """The prompt, under the name that its replica has there, and that it was answered."""
    one, two = pair
    send(one, 1, answer=30)
    two.desk.heard(one.desk.news(0.0), 0.0)
    assert cached(one).keys() == {"r1"}
    assert cached(two) == {"x1": cached(one)["r1"]}
    assert two.placing.index.tokens("x1") == one.placing.index.tokens("r1")
    assert two.desk.news(0.0) is not None
    assert SEAL.open(two.desk.news(1.0)).events == []


def test_what_has_forgotten_is_empty_for_all(pair):
    """Two answers that had nothing cached: one gateway finds out, both begin anew with the prompt that showed it."""
    one, two = pair
    for placed in range(4):
        ask = one.placing.place(work())
        ask.ask(Ask(None, TOKENS))
        ask.sent(one.replicas[0])
        ask.ended(Spent(TOKENS, 1, whole=True, cached=4000 if placed == 1 else 0))
    two.placing.index.add("x0", Chain.unpack(chain(chain_key("m"), [b"other words " * 1500])), TOKENS)
    two.desk.heard(one.desk.news(0.0), 0.0)
    assert two.placing.index.tokens("x0") == one.placing.index.tokens("r0")
    assert cached(two).keys() == {"x0"}


def test_a_replica_that_joins_has_what_is_known_of_it(pair):
    """Also where the others had it first; what its gateway cannot place is not kept."""
    one, two = pair
    one.pool.add(replica_at("late", "http://10.0.0.9:8000/v1"))
    one.desk.news(0.0)
    one.load(3, 2, 200)
    two.desk.heard(one.desk.news(TICK), TICK)
    two.pool.add(replica_at("other", "http://10.0.0.9:8000/v1"))
    two.desk.news(TICK)
    assert two.others[3] == (2, 200)
    two.pool.remove(two.replicas[0])
    one.load(0, 1, 1)
    two.desk.heard(one.desk.news(2 * TICK), 2 * TICK)
    assert two.others == [(0, 0), (0, 0), (2, 200)]


def test_what_nobody_takes_is_bounded():
    """While nothing can be said what is newest is kept, and is told piece by piece."""
    one = Gateway(1)
    prompt = chain(chain_key("m"), [b"x" * 400_000])
    for _ in range(300):
        one.placing.heat.placed("r0", prompt, 100_000)
    assert one.desk._waiting <= 2 * 1024 * 1024
    sizes = []
    while one.desk._events:
        sizes.append(len(one.desk.news(0.0)))
    assert one.desk._waiting == 0
    assert max(sizes) < 100_000
    assert len(sizes) > 5


@pytest.mark.parametrize("what", [b"", b"no chain", b"\xff" * 32, PROMPT[:-3]])
def test_events_that_make_no_sense_do_nothing(pair, what):
    """A chain that is none, an answer to nothing, a replica that nobody knows."""
    one, two = pair
    engine = one.desk._models[0].engines["r0"]
    events = [Event(PLACED, engine, 10, what), Event(ANSWERED, engine, 10, what[:3]), Event(PLACED, 12345, 10, PROMPT)]
    two.desk.heard(SEAL.close(News(VERSION, one.node, 1, [(77, 5, 5)], events)), 0.0)
    assert two.others == [(0, 0)] * 3
    assert cached(two) == {}


def test_no_more_gateways_are_heard_than_there_can_be():
    """Names are free to make up, memory is not; who is known is heard on."""
    peers = Peers()
    for number in range(MOST + 50):
        peers.hear(News(VERSION, number.to_bytes(8), 1, [(1, 1, 1)], []), 0.0)
    assert len(peers) == MOST
    assert peers.totals == {1: (MOST, MOST)}
    peers.hear(News(VERSION, (0).to_bytes(8), 2, [], []), 0.5)
    assert peers.totals == {1: (MOST - 1, MOST - 1)}


LOADS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9), st.integers(0, 9)), max_size=3)


@given(
    st.lists(st.tuples(st.integers(0, 2), LOADS), max_size=25),
    st.lists(st.integers(0, 1000), max_size=60),
    st.booleans(),
)
def test_loss_repetition_and_disorder_heal(changes, deliveries, renamed):
    """Whatever becomes of all messages but each gateway's last, all know the same afterwards, and never less than nothing."""
    speakers, hearer, messages, now = [Gateway(number) for number in range(3)], Gateway(9, renamed=renamed), [], 0.0
    for who, loads in changes:
        now += TICK
        for number, inflight, pending in loads:
            speakers[who].load(number, inflight, pending)
        messages.append(speakers[who].desk.news(now))
    sent = [message for message in messages if message is not None]
    for delivery in deliveries if sent else ():
        hearer.desk.heard(sent[delivery % len(sent)], now)
        assert all(inflight >= 0 and pending >= 0 for inflight, pending in hearer.others)
    for speaker in speakers:
        hearer.desk.heard(speaker.desk.news(now + 1.0), now)
    assert hearer.others == [
        tuple(sum(getattr(speaker.replicas[number], name) for speaker in speakers) for name in ("inflight", "pending"))
        for number in range(3)
    ]
    hearer.desk.expire(now + 5.0)
    assert hearer.others == [(0, 0)] * 3
    assert hearer.desk.peers.totals == {}
