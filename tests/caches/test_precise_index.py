"""What engines say that they have cached: read, put in order, and looked up."""

import contextlib
import random
import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kv_engine import Engine, chain_of, roots

from caches.kvevents import MOST_EVENTS, Cleared, Garbage, Removed, Stored, read_batch
from caches.precise import PreciseIndex
from caches.sequence import MOST_EARLY, Heard, Sequence
from caches.tokens import MOST_STEPS, STEP, token_chain


def prompt(*blocks, size=32):
    """So many tokens for each letter."""
    return [ord(letter) for letter in blocks for _ in range(size)]


def match(index, tokens, salt=None):
    return index.match(chain_of(tokens, salt), len(tokens))


class Wire:
    """An engine, and one who listens to it."""

    def __init__(self, *, replays=True, most=1 << 20, block=32, keep=10_000):
        self.index = PreciseIndex(roots, most=most)
        self.heard = Heard()
        self.engine = Engine(block, keep=keep)
        self.keep = keep
        self.asked = None
        self.sequence = Sequence("a", self.index, self.heard, self.ask if replays else None)
        self.sent = 0

    def ask(self, number):
        self.asked = number

    def deliver(self, lost=()):
        """All that was published since, but for some; then the replay, if one was asked for."""
        for number in range(self.sent, len(self.engine.out)):
            if number not in lost:
                self.sequence.came(number, self.engine.out[number])
                self.catch_up()
        self.sent = len(self.engine.out)
        self.replay()

    def replay(self):
        while self.asked is not None:
            start, self.asked = self.asked, None
            for number, batch in self.engine.replay(start):
                if self.asked is None:
                    self.sequence.replayed(number, batch)
                    self.catch_up()
            if self.asked is None:
                self.sequence.replay_over(complete=True)
                self.catch_up()

    def catch_up(self):
        while self.sequence.behind:
            self.sequence.catch_up()

    def restart(self):
        self.engine = Engine(self.engine.block, self.engine.clock + 10, self.keep)
        self.sent = 0


class TestLookUp:
    @pytest.mark.parametrize("block", [16, 32, 128])
    def test_as_far_as_the_engine_has_it(self, block):
        """Whatever the size of its blocks, a prompt matches as many of its whole blocks as the engine has."""
        wire = Wire(block=block)
        wire.engine.compute([*prompt("a", "b", "c", size=block), 1, 2, 3])
        wire.deliver()
        assert match(wire.index, prompt("a", "b", "x", size=block)) == {"a": 2 * block}
        assert match(wire.index, prompt("x", "b", size=block)) == {}
        assert match(wire.index, prompt("a", "b", "c", size=block)) == {"a": 3 * block}

    def test_salts_and_adapters_share_nothing(self):
        """The same words with another cache_salt are another prompt."""
        wire = Wire()
        wire.engine.compute(prompt("a", "b"), salt="one")
        wire.deliver()
        assert match(wire.index, prompt("a", "b"), "one") == {"a": 64}
        assert match(wire.index, prompt("a", "b"), "two") == match(wire.index, prompt("a", "b")) == {}

    def test_what_was_sent_counts_until_the_engine_says_so(self):
        """A prompt that is on its way is held there already, and gone with the engine's own word."""
        wire = Wire()
        tokens = prompt("a", "b")
        wire.index.sent("a", chain_of(tokens))
        assert match(wire.index, tokens) == {"a": 64}
        wire.engine.compute(tokens)
        wire.engine.evict(1)
        wire.deliver()
        assert match(wire.index, tokens) == {"a": 32}

    def test_images_are_never_taken_for_their_placeholders(self):
        """A block that depends on something besides its tokens matches no prompt of tokens alone, nor does what follows it."""
        index = PreciseIndex(roots)
        event = {
            "type": "BlockStored", "block_hashes": [1, 2, 3], "parent_block_hash": None, "token_ids": prompt("a", "b", "c"),
            "block_size": 32, "lora_id": None, "medium": "GPU", "lora_name": None, "extra_keys": [None, [["image", 3]], None],
        }  # fmt: skip
        for one in read_batch(msgspec.msgpack.encode([0.0, [event]]))[1]:
            index.heard("a", one)
        assert match(index, prompt("a", "b", "c")) == {"a": 32}

    def test_a_long_prompt_is_none(self):
        """Past what is looked at there is no chain, and a prompt of just that length has one."""
        assert token_chain(b"r" * 8, [1] * (MOST_STEPS * STEP))
        assert token_chain(b"r" * 8, [1] * ((MOST_STEPS + 1) * STEP)) == b""


class TestReading:
    def test_both_spellings(self):
        """Events come as maps, or from older engines as arrays; unknown kinds and other media are passed over."""
        fields = [[5], None, list(range(16)), 16, None, "GPU", None]
        events = [
            ["BlockStored", *fields],
            ["BlockRemoved", [5], "CPU"],
            ["BlockRemoved", [b"x"]],
            ["Later", 1],
            ["AllBlocksCleared"],
        ]
        read = read_batch(msgspec.msgpack.encode([1.5, events]))
        assert read[0] == 1.5
        assert [type(event) for event in read[1]] == [Stored, Removed, Cleared]

    @settings(max_examples=150, deadline=None)
    @given(st.one_of(st.binary(max_size=200), st.recursive(
        st.none() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5) | st.binary(max_size=5) | st.sampled_from(
            ["BlockStored", "BlockRemoved", "AllBlocksCleared", "type", "block_hashes", "token_ids", "block_size", "extra_keys"]),
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(
            ["type", "block_hashes", "token_ids", "block_size", "parent_block_hash", "extra_keys", "group_idx"]), inner),
        max_leaves=30,
    ).map(msgspec.msgpack.encode)))  # fmt: skip
    def test_garbage_is_garbage(self, payload):
        """Whatever comes is read, or is Garbage; and what was read can be taken in."""
        wire = Wire(replays=False)
        with contextlib.suppress(Garbage):
            read_batch(payload)
        wire.sequence.came(0, payload)
        wire.sequence.came(1, Engine().out[0] if Engine().out else msgspec.msgpack.encode([2.0, []]))
        assert wire.sequence.live

    def test_a_garbled_batch_costs_what_was_known(self):
        """It may have said that blocks are gone, so none is believed in until the engine names it again."""
        wire = Wire()
        wire.engine.compute(prompt("a"))
        wire.deliver()
        wire.sequence.came(1, b"\xc1")
        assert match(wire.index, prompt("a")) == {}
        assert wire.heard.garbage == 1
        assert not wire.index.whole("a")

    def test_a_batch_of_more_than_a_step_can_do(self):
        """So many events would hold up everything else: it is Garbage, and the engine's cache is unknown from then on."""
        with pytest.raises(Garbage):
            read_batch(msgspec.msgpack.encode([1.0, [["AllBlocksCleared"]] * (MOST_EVENTS + 1)]))
        assert read_batch(msgspec.msgpack.encode([1.0, [["AllBlocksCleared"]] * 3]))[1] == [Cleared()] * 3


class TestOrder:
    def test_a_gap_is_filled(self):
        """What was missed is asked for, and until it has come the replica's events count for nothing."""
        wire = Wire()
        for letters in ("ab", "abc", "abcd"):
            wire.engine.compute(prompt(*letters))
        wire.sequence.came(0, wire.engine.out[0])
        wire.sequence.came(2, wire.engine.out[2])
        assert not wire.sequence.live
        assert wire.asked == 1
        wire.replay()
        assert wire.sequence.live
        assert wire.index.whole("a")
        assert match(wire.index, prompt("a", "b", "c", "d")) == {"a": 128}

    def test_a_gap_that_cannot_be_filled(self):
        """What was known is dropped; what follows is believed, but is not taken for all there is."""
        wire = Wire(replays=False)
        wire.engine.compute(prompt("a", "b"))
        wire.engine.compute(prompt("c"))
        wire.engine.compute(prompt("d"))
        wire.deliver(lost=[1])
        assert wire.sequence.live
        assert match(wire.index, prompt("a", "b")) == {}
        assert match(wire.index, prompt("d")) == {"a": 32}
        assert not wire.index.whole("a")

    def test_an_engine_that_is_another(self):
        """Numbers that begin again are another engine's: nothing of the last one's is believed in any more."""
        wire = Wire()
        for letter in "abcd":
            wire.engine.compute(prompt(letter))
        wire.deliver()
        wire.restart()
        wire.engine.compute(prompt("x"))
        wire.engine.compute(prompt("y"))
        wire.deliver(lost=[0])
        assert match(wire.index, prompt("a")) == {}
        assert match(wire.index, prompt("x")) == match(wire.index, prompt("y")) == {"a": 32}
        assert wire.heard.restarts == 1

    @pytest.mark.parametrize("replays", [True, False])
    def test_an_engine_that_is_another_and_says_nothing(self, replays):
        """After a break, who has not got the last batch any more is another engine: nothing is believed until it has spoken."""
        wire = Wire(replays=replays)
        wire.engine.compute(prompt("a"))
        wire.engine.compute(prompt("b"))
        wire.deliver()
        wire.sequence.silent()
        wire.restart()
        wire.engine.compute(prompt("x"))
        wire.engine.compute(prompt("y"))
        wire.sequence.begin()
        wire.replay()
        assert match(wire.index, prompt("a")) == {}
        assert match(wire.index, prompt("x")) == ({"a": 32} if replays else {})

    def test_a_break_that_costs_nothing(self):
        """The same engine goes on where it was, and what it said meanwhile is replayed."""
        wire = Wire()
        wire.engine.compute(prompt("a"))
        wire.deliver()
        wire.sequence.silent()
        wire.engine.compute(prompt("b"))
        wire.sequence.begin()
        wire.replay()
        assert match(wire.index, prompt("a")) == match(wire.index, prompt("b")) == {"a": 32}
        assert wire.sequence.live
        assert wire.heard.restarts == wire.heard.dropped == 0

    def test_what_comes_twice(self):
        """Batches that were replayed, and then come by themselves, are no other engine's."""
        wire = Wire()
        for letter in "abcd":
            wire.engine.compute(prompt(letter))
        wire.sequence.begin()
        wire.replay()
        wire.sequence.came(2, wire.engine.out[2])
        wire.sequence.came(3, wire.engine.out[3])
        assert wire.heard.restarts == 0
        assert wire.index.whole("a")
        assert match(wire.index, prompt("d")) == {"a": 32}

    def test_a_replay_with_holes(self):
        """What is dropped of a replay, its end included, is asked for once more; it counts for nothing until all has come."""
        wire = Wire()
        for letter in "abcdefgh":
            wire.engine.compute(prompt(letter))
        wire.sequence.begin()
        for lost in ({2, 3}, {5}, set()):
            start, wire.asked = wire.asked, None
            for number, batch in wire.engine.replay(start):
                if number not in lost:
                    wire.sequence.replayed(number, batch)
            assert not wire.sequence.live
            wire.sequence.replay_over(complete=bool(lost != {5}))
        assert wire.asked is None
        assert wire.sequence.live
        assert wire.index.whole("a")
        assert match(wire.index, prompt("e")) == {"a": 32}

    def test_an_engine_that_has_said_nothing_yet(self):
        """Once it says that there is nothing to replay, it is known to hold nothing; without an answer nothing is known."""
        wire = Wire()
        wire.sequence.begin()
        wire.sequence.replay_over(complete=False)
        assert not wire.sequence.live
        wire.sequence.begin()
        wire.replay()
        assert wire.sequence.live
        assert wire.index.whole("a")

    def test_a_replay_that_never_comes(self):
        """Batches that wait for earlier ones are bounded; then those are given up."""
        wire = Wire()
        wire.engine.compute(prompt("a"))
        wire.sequence.came(0, wire.engine.out[0])
        empty = msgspec.msgpack.encode([99.0, []])
        for number in range(2, MOST_EARLY + 3):
            wire.sequence.came(number, empty)
        assert wire.heard.dropped == 1
        assert wire.heard.batches < 20  # the others between other work
        assert not wire.sequence.live
        wire.catch_up()
        assert wire.heard.batches == MOST_EARLY + 2
        assert wire.sequence.live


@settings(max_examples=40, stateful_step_count=30, deadline=None)
class _Machine(RuleBasedStateMachine):
    """An engine that computes, evicts, resets and restarts; batches get lost; replays reach back a while, or not at all."""

    keep = 10_000

    def __init__(self):
        super().__init__()
        self.wire = Wire(keep=self.keep)
        self.prompts = set()

    @rule(letters=st.text("ab", min_size=1, max_size=5), salt=st.sampled_from([None, "s"]), lose=st.booleans())
    def compute(self, letters, salt, lose):
        self.prompts.add((letters, salt))
        self.wire.engine.compute(prompt(*letters), salt)
        self.tell(lose=lose)

    @rule(at=st.integers(0, 50), lose=st.booleans())
    def evict(self, at, lose):
        self.wire.engine.evict(at)
        self.tell(lose=lose)

    @rule()
    def clear(self):
        self.wire.engine.clear()
        self.tell(lose=False)

    @rule()
    def restart(self):
        self.wire.restart()
        self.wire.engine.publish()
        self.tell(lose=False)

    @precondition(lambda self: self.wire.engine.out)
    @rule()
    def connection_broke(self):
        self.wire.sequence.silent()
        self.wire.sequence.begin()
        self.wire.replay()

    def tell(self, *, lose):
        if lose:
            self.wire.sent = len(self.wire.engine.out)
        else:
            self.wire.deliver()

    @invariant()
    def agrees(self):
        wire = self.wire
        if not wire.engine.out:
            return
        if wire.sequence._next != len(wire.engine.out):
            wire.engine.publish()  # something follows what was lost
            wire.deliver()
        for letters, salt in self.prompts:
            held, known = wire.engine.held(prompt(*letters), salt), match(wire.index, prompt(*letters), salt).get("a", 0)
            assert known == held if wire.index.whole("a") else known <= held, (letters, salt)
        if self.keep > 1000:
            assert wire.index.whole("a")


class _Forgetful(_Machine):
    keep = 2


TestModel = _Machine.TestCase
TestModelWithLosses = _Forgetful.TestCase


class TestMemory:
    def test_bounded(self):
        """However much engines claim to hold, no more than `most` steps are kept, and dropped ones are cleared in time."""
        wire = Wire(most=100)
        rng = random.Random(1)
        for turn in range(200):
            wire.engine.compute([rng.randrange(1000) for _ in range(32 * 5)])
            if turn % 50 == 49:
                wire.index.drop("a")
            wire.deliver()
            wire.index.sent("b", chain_of([rng.randrange(1000) for _ in range(320)]))
        assert len(wire.index) <= 100
        assert not wire.index.whole("a")

    def test_a_million_tokens(self):
        """One replica's million tokens in blocks of 16 take less than 30 MB."""
        wire = Wire(block=16)
        rng = random.Random(1)
        batches = []
        for name in range(1000):
            event = ["BlockStored", [name * 63 + n for n in range(62)], None, [rng.randrange(100_000) for _ in range(992)], 16]
            batches.append(msgspec.msgpack.encode([0.0, [event]]))
        tracemalloc.start()
        for number, batch in enumerate(batches):
            wire.sequence.came(number, batch)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(wire.index) == 62_000
        assert size < 30_000_000
