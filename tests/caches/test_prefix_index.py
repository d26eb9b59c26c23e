import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from caches.chain import Chain, chain, chain_key
from caches.prefix import PrefixIndex

KEY = chain_key("m")
BLOCK = 10


def prompt(*blocks, tail=0, **options):
    """A prompt of ten tokens a block: the same blocks from the start are the same digests."""
    digests = [hash(blocks[: depth + 1]) & (2**64 - 1) for depth in range(len(blocks))]
    return Chain(digests, len(blocks) * BLOCK + tail, BLOCK, **options)


def match(index, one):
    return index.match(one, one.size)


def add(index, name, one):
    index.add(name, one, one.size)


class TestMatch:
    def test_each_replica_has_what_was_sent_to_it(self):
        """As far as a prompt agrees with what a replica was sent, from the start on, and in tokens."""
        index = PrefixIndex()
        add(index, "a", prompt("s", "1", "2"))
        add(index, "b", prompt("s", "1", "3", "4"))
        assert match(index, prompt("s", "1", "3", "4", "5", tail=7)) == {"a": 20, "b": 40}
        assert match(index, prompt("s")) == {"a": 10, "b": 10}
        assert match(index, prompt("x", "1", "2")) == {}
        assert match(index, prompt()) == {}

    def test_tokens_are_the_share_of_the_prompt(self):
        """What is matched counts in proportion to the tokens that the whole prompt is thought to have."""
        index = PrefixIndex()
        index.add("a", prompt("s", "1"), 1000)
        assert index.match(prompt("s", "1", "2", "3"), 2000) == {"a": 1000}
        assert index.match(prompt("s", "1"), 3) == {"a": 3}

    def test_looking_changes_nothing(self):
        """To match is not to touch: what was looked at is forgotten in its turn."""
        index = PrefixIndex(tokens=20)
        add(index, "a", prompt("1"))
        add(index, "a", prompt("2"))
        assert match(index, prompt("1"))
        add(index, "a", prompt("3"))
        assert not match(index, prompt("1"))


class TestRoom:
    def test_tails_are_forgotten_before_heads(self):
        """What two conversations share outlives the end of the older one."""
        index = PrefixIndex(tokens=50)
        add(index, "a", prompt("s", "1", "2", "3"))
        add(index, "a", prompt("s", "x", "y"))
        assert match(index, prompt("s", "1", "2", "3")) == {"a": 30}
        assert match(index, prompt("s", "x", "y")) == {"a": 30}

    def test_a_prompt_that_is_larger_than_the_room_keeps_its_beginning(self):
        """Its head is what a later prompt can find, and no more is held than there is room for."""
        index = PrefixIndex(tokens=30)
        add(index, "a", prompt(*"123456"))
        assert match(index, prompt(*"123456")) == {"a": 30}
        assert index.tokens("a") == 30

    def test_room_is_the_engines(self):
        """A smaller cache forgets at once, a larger one holds more, and one of nothing holds nothing."""
        index = PrefixIndex(tokens=30)
        add(index, "a", prompt(*"123"))
        index.resize("a", 20)
        assert match(index, prompt(*"123")) == {"a": 20}
        index.resize("a", 60)
        add(index, "a", prompt(*"123456"))
        assert match(index, prompt(*"123456")) == {"a": 60}
        index.resize("a", 0)
        add(index, "a", prompt(*"123"))
        assert match(index, prompt(*"123")) == {}

    def test_one_that_is_dropped_holds_nothing_and_begins_anew(self):
        """A replica that was restarted is asked for nothing that it had; the others keep what they have."""
        index = PrefixIndex()
        for name in ("a", "b"):
            add(index, name, prompt(*"12345"))
        index.drop("a")
        index.drop("nobody")
        assert match(index, prompt(*"123")) == {"b": 30}
        add(index, "a", prompt(*"12"))
        assert match(index, prompt(*"123")) == {"a": 20, "b": 30}

    def test_what_was_dropped_is_cleared_with_what_is_added(self):
        """The memory of replicas that come and go does not add up, and no call has to clear much."""
        index = PrefixIndex()
        for generation in range(200):
            for number in range(20):
                add(index, f"r{generation}", prompt(f"{generation}-{number}", *"abcdefghi"))
            index.drop(f"r{generation}")
        assert len(index) < 1000
        assert max(index._masks.values()).bit_length() < 10

    def test_there_are_never_more_entries_than_the_bound(self):
        """Past it the replica with the most gives way, whatever room the engines have."""
        index = PrefixIndex(tokens=10**9, most=1000)
        add(index, "small", prompt(*"123"))
        for number in range(3000):
            add(index, "large", prompt(str(number), "x"))
            assert len(index) <= 1000
        assert match(index, prompt(*"123")) == {"small": 30}


class TestAnswers:
    """A conversation: a prompt, an answer to it, the next prompt with both in it."""

    FIRST = prompt("s", "q1", tail=4, end=77)

    def later(self, stop=64):
        return prompt("s", "q1", "q1a", "a", "b", "b2", "q2", tail=3, asked=77, start=24, stop=stop)

    def test_an_answer_is_part_of_what_its_replica_holds(self):
        """The next turn finds the prompt and the answer where it was given, and elsewhere only what was sent there."""
        index = PrefixIndex()
        add(index, "a", self.FIRST)
        add(index, "b", self.FIRST)
        index.answered("a", self.FIRST, 40)
        assert match(index, self.later()) == {"a": 64, "b": 20}

    def test_before_it_has_ended_there_is_none(self):
        """A client that asks on before the answer is over is credited with the prompt alone."""
        index = PrefixIndex()
        add(index, "a", self.FIRST)
        assert match(index, self.later()) == {"a": 20}

    @pytest.mark.parametrize(("made", "held"), [(40, 64), (80, 64), (81, 20), (1000, 20), (1, 64)])
    def test_thoughts_that_are_not_told_are_not_credited(self, made, held):
        """An answer of 40 tokens for which many more were made stands behind what the next prompt leaves out."""
        index = PrefixIndex()
        add(index, "a", self.FIRST)
        index.answered("a", self.FIRST, made)
        assert match(index, self.later()) == {"a": held}

    def test_a_message_that_is_much_longer_than_the_answer_is_another_one(self):
        """Who puts a book where the answer was is not credited with it."""
        index = PrefixIndex()
        add(index, "a", self.FIRST)
        index.answered("a", self.FIRST, 10)
        book = Chain(self.FIRST.blocks, 5000, BLOCK, asked=77, start=24, stop=4000)
        assert match(index, book) == {"a": 20}

    def test_an_answer_takes_room_until_its_text_has_blocks(self):
        """The tokens that were made count as held, once: the next turn's own blocks take their place."""
        index = PrefixIndex()
        add(index, "a", self.FIRST)
        index.answered("a", self.FIRST, 40)
        assert index.tokens("a") == 60
        add(index, "a", self.later())
        assert index.tokens("a") == 70
        index.resize("a", 30)
        index.answered("a", prompt("s", end=5), 500)
        assert index.tokens("a") <= 30

    def test_without_its_prompt_an_answer_is_nothing(self):
        """Where the prompt was forgotten, or the replica restarted, the answer is not found either."""
        index = PrefixIndex()
        add(index, "a", self.FIRST)
        index.answered("a", self.FIRST, 40)
        for number in range(3):
            index.resize("a", 40 if number else 45)
        assert match(index, self.later()) == {}
        index.drop("a")
        index.answered("a", self.FIRST, 40)
        assert match(index, self.later()) == {}

    def test_a_real_conversation_finds_its_history(self):
        """Chains made of text: the second turn finds the first and its answer to the last byte, and so does a third."""
        index = PrefixIndex()
        turns = [b"system " * 100, b"question one " * 50, b"the answer " * 200, b"why? " * 30, b"because " * 150, b"so " * 40]
        first = Chain.unpack(chain(KEY, turns[:2]))
        index.add("a", first, first.size // 4)
        index.answered("a", first, len(turns[2]) // 4)
        second = Chain.unpack(chain(KEY, turns[:4], answer=(2, 3)))
        known = sum(map(len, turns[:3]))
        assert index.match(second, second.size // 4) == {"a": known * (second.size // 4) // second.size}
        index.add("a", second, second.size // 4)
        index.answered("a", second, len(turns[4]) // 4)
        third = Chain.unpack(chain(KEY, turns, answer=(4, 5)))
        assert index.match(third, third.size // 4) == {"a": sum(map(len, turns[:5])) * (third.size // 4) // third.size}


class Replay(RuleBasedStateMachine):
    """The index against a plain list of blocks for each replica, oldest first."""

    ROOM = 60
    paths = st.lists(st.sampled_from("ab"), max_size=7).map(tuple)
    names = st.sampled_from(["x", "y", "z"])

    def __init__(self):
        super().__init__()
        self.index = PrefixIndex(tokens=self.ROOM, most=10**6)
        self.held = {}
        self.room = {}

    @rule(name=names, path=paths)
    def send(self, name, path):
        add(self.index, name, prompt(*path))
        blocks = [path[: depth + 1] for depth in range(len(path))]
        held = [block for block in self.held.get(name, []) if block not in blocks] + blocks[::-1]
        self.room.setdefault(name, self.ROOM)
        self.held[name] = held
        self.trim(name)

    @rule(name=names, room=st.integers(0, 12).map(lambda blocks: blocks * BLOCK))
    def resize(self, name, room):
        self.index.resize(name, room)
        self.room[name] = room
        self.trim(name)

    @rule(name=names)
    def drop(self, name):
        self.index.drop(name)
        self.held.pop(name, None)
        self.room.pop(name, None)

    def trim(self, name):
        held = self.held.get(name, [])
        self.held[name] = held[max(0, len(held) - self.room[name] // BLOCK) :]

    @rule(path=paths)
    def look(self, path):
        found = {}
        for name, held in self.held.items():
            depth = 0
            while depth < len(path) and path[: depth + 1] in held:
                depth += 1
            if depth:
                found[name] = depth * BLOCK
        assert match(self.index, prompt(*path)) == found

    @invariant()
    def who_holds_a_block_holds_what_stands_before_it(self):
        for held in self.held.values():
            assert all(block[:-1] in held for block in held if len(block) > 1)

    @invariant()
    def the_sums_are_right(self):
        for name, held in self.held.items():
            assert self.index.tokens(name) == len(held) * BLOCK
        assert self.index.held == sum(map(len, self.held.values()))
        assert len(self.index) == self.index.held + sum(len(gone.entries) for gone in self.index._dropped)
        assert set(self.index._masks) == {
            digest for held in (*self.index._held.values(), *self.index._dropped) for digest in held.entries
        }


TestReplay = Replay.TestCase
TestReplay.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32))
def test_the_memory_is_bounded_under_prompts_that_nobody_repeats(seed):
    """However many different prompts and answers come, for however many replicas, entries and tokens stay under their bounds."""
    rng = random.Random(seed)
    index = PrefixIndex(tokens=2000, most=rng.choice([50, 500]))
    for number in range(300):
        one = prompt(number, *range(rng.randrange(12)), end=number + 1)
        name = f"r{rng.randrange(20)}"
        add(index, name, one)
        if rng.random() < 0.5:
            index.answered(name, one, rng.randrange(400))
        if rng.random() < 0.05:
            index.drop(name)
        assert len(index) <= index._most
        assert len(index._masks) <= len(index)
    for held in (*index._held.values(), *index._dropped):
        assert held.tokens == sum(held.entries.values())
    assert all(held.tokens <= 2000 for held in index._held.values())
    assert len(index) == sum(len(held.entries) for held in (*index._held.values(), *index._dropped))


def test_a_million_tokens_take_a_few_megabytes():
    """Bytes as stated in the documentation, and none more after ten times as many prompts as there is room for."""
    index = PrefixIndex(tokens=200_000)
    tracemalloc.start()
    try:
        sizes = []
        for number in range(2000):
            one = Chain.unpack(chain(KEY, [number.to_bytes(4, "big") * 1000]))
            index.add("a", one, one.size // 4)
            if number in (500, 1999):
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[0] / 200_000 * 1_000_000 < 6_000_000
    assert sizes[1] < sizes[0] * 1.1
