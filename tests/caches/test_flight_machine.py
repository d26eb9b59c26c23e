"""The relay of single flight under any order of events."""

from cache_sinks import Brake, Collect
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from caches.reader import Outcome, Reader, RecordBounds
from caches.relay import Relay

BOUNDS = RecordBounds(max_record=60, max_ahead=20)


class Down(Exception):
    """The producer failed."""


class RelayMachine(RuleBasedStateMachine):
    """A producer that obeys its brake if it has one, and readers of every kind."""

    @initialize(brake=st.booleans(), stream=st.booleans())
    def begin_scene(self, brake, stream):
        self.relay = Relay(BOUNDS, stream=stream)
        self.brake = Brake() if brake else None
        self.relay.flow = self.brake
        self.written = []
        self.readers = []
        self.woken = {}

    def add(self, reader):
        self.relay.readers[reader] = None
        self.woken[reader] = 0

        def wake():
            self.woken[reader] += 1

        reader.wake = wake
        self.readers.append(reader)

    @precondition(lambda self: not self.relay.outgrown)
    @rule(room=st.none() | st.integers(0, 3))
    def follow(self, room):
        reader = Reader()
        self.add(reader)
        self.relay.follow(reader, Collect(room))

    @precondition(lambda self: not self.relay.outgrown)
    @rule()
    def await_whole(self):
        reader = Reader()
        self.add(reader)
        self.relay.await_whole(reader)

    @precondition(lambda self: not self.relay.begun and not self.relay.ended)
    @rule()
    def begin(self):
        self.relay.begin("head")

    @precondition(lambda self: self.relay.begun and not self.relay.ended)
    @rule(sizes=st.lists(st.integers(1, 15), max_size=4), usage=st.booleans())
    def write(self, sizes, usage):
        for size in sizes:
            if self.brake is None or not self.brake.paused:
                data = bytes([len(self.written) % 256]) * size
                self.written.append((data, usage))
                self.relay.write(data, usage)

    @rule(n=st.integers(0, 9), room=st.integers(0, 4))
    def drain(self, n, room):
        reader = self.readers[n % len(self.readers)] if self.readers else None
        if reader is not None and reader.sink is not None and reader.sink.room is not None:
            reader.sink.room = room
            self.relay.catch_up(reader)

    @rule(n=st.integers(0, 9))
    def leave(self, n):
        if self.readers:
            self.relay.leave(self.readers.pop(n % len(self.readers)))

    @precondition(lambda self: not self.relay.ended and len(self.written) > 5)
    @rule(fail=st.booleans())
    def finish(self, fail):
        self.relay.finish(Down() if fail else None)

    def missing(self, reader):
        return len(self.written) - len(reader.sink.pieces)

    @invariant()
    def what_was_given_is_the_beginning_of_what_was_written(self):
        for reader in self.readers:
            if reader.sink is not None:
                given = list(zip(reader.sink.pieces, reader.sink.usage_flags, strict=True))
                assert given == self.written[: len(given)]
                assert (reader.sink.head is not None) == (self.relay.begun and (reader.given or reader.outcome is None))

    @invariant()
    def who_has_room_has_everything(self):
        for reader in self.readers:
            if reader.outcome is None and reader.sink is not None and reader.sink.room is None and self.relay.begun:
                assert self.missing(reader) == 0
                assert not self.relay.ended

    @invariant()
    def everybody_is_settled_once_and_rightly(self):
        for reader in self.readers:
            assert self.woken[reader] == (reader.outcome is not None)
            if reader.outcome is Outcome.COMPLETE:
                assert self.relay.ended
                assert self.relay.error is None
                assert reader.whole or self.missing(reader) == 0
                assert not reader.whole or self.relay.pieces == [data for data, _ in self.written]
            if reader.outcome is Outcome.BROKEN:
                assert isinstance(reader.error, Down)
                assert self.missing(reader) == 0
            if reader.outcome is Outcome.SPOILED:
                assert not reader.given
            if reader.outcome is Outcome.DROPPED:
                assert self.relay.outgrown
                assert self.relay.stream
            if self.relay.ended and reader.outcome is None:
                assert self.missing(reader) > 0

    @invariant()
    def the_record_is_bounded(self):
        relay = self.relay
        kept = sum(len(data) for data, _ in relay._record)
        assert relay.size - relay._let_go_bytes == kept
        if relay.stream:
            live = any(reader.live for reader in relay.readers)
            assert kept <= BOUNDS.max_record * (1 if live or self.brake else 2) + (60 if self.brake else 0)

    @invariant()
    def the_brake_is_on_only_when_everybody_is_slow(self):
        if self.brake is not None and self.brake.paused and not self.relay.ended:
            waiting = [reader for reader in self.relay.readers if reader.outcome is None]
            assert not any(reader.live or reader.whole for reader in waiting)

    @invariant()
    def a_paused_producer_is_resumed_in_the_end(self):
        if self.brake is None or not self.brake.paused or self.relay.ended:
            return
        waiting = [reader for reader in self.relay.readers if reader.outcome is None]
        assert not waiting or all(self.relay.size - reader.sent > BOUNDS.max_ahead // 2 for reader in waiting)


TestRelayMachine = RelayMachine.TestCase
TestRelayMachine.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
