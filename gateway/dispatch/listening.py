"""Ears for what engines publish of their caches: ZeroMQ sockets on the event loop of the process that owns the index.

Rules of this file
1. The loop is never blocked: libzmq reads in a thread of its own, up to `_WAITING` messages a socket; past that the publisher
   drops, which shows as a gap. They are taken from there for `_TURN` seconds at a time.
2. A replay may stand still for `_REPLAY` seconds, and there is one at a time. Whatever came of it, what follows is heard. All of
   it has room at once: who replays drops what does not fit.
3. A connection that breaks is told at once, and made again for ever, with growing pauses; where libzmq has given up, because it
   was sent what it cannot take, it is asked to begin anew. What an engine said until then counts for nothing until it has been
   heard again. Whether the other end is there is for TCP to find out: with heartbeats of its own libzmq ends the process when the
   connection of a slow reader is made anew (zeromq/libzmq#3937).
4. Whatever arrives, nothing is raised: one line in the log for each replica that speaks nonsense.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

import zmq
from zmq.utils.monitor import parse_monitor_message

from caches.sequence import Sequence
from gateway.dispatch.precise import PrecisePlacing
from gateway.fleet import Fleet

_log = logging.getLogger("tiergate.prefix")
_LOOK = 1.0  # seconds between two looks at who is there
_WAITING = 1000
_TURN = 0.001
_REPLAY = 1.0
_REPLAYED = 20_000  # vLLM keeps 10,000 batches
_LARGEST = 4 * 2**20  # bytes of a batch; a longer one ends the connection
_KEEPALIVE = (10, 5, 3)  # seconds of silence, seconds between probes, how many
_AGAIN = 2.0  # seconds that libzmq has to make a connection anew by itself
_BROKEN = 3  # connections in a row that broke before a batch had come
_NUMBER = 8  # bytes
_SOCKETS = 16_384  # three a replica
_OVER = b"\xff" * _NUMBER


class Listening:
    """Follows the members of the models whose placing is precise."""

    def __init__(self, placings: Mapping[str, PrecisePlacing], fleet: Fleet) -> None:
        self._placings = placings
        self._fleet = fleet
        self._ears: dict[tuple[str, str], Ear] = {}

    async def run(self) -> None:
        """For ever."""
        context = zmq.Context()
        context.set(zmq.MAX_SOCKETS, _SOCKETS)
        try:
            while True:
                self._look(context)
                await asyncio.sleep(_LOOK)
        finally:
            for ear in self._ears.values():
                ear.close()
            context.destroy(linger=0)

    def _look(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        there = {
            (model, name): (member.spec.events, member.spec.replay)
            for model in self._placings
            for name, member in self._fleet.members(model).items()
            if member.spec.events is not None and not member.leaving
        }
        for (model, name), ear in list(self._ears.items()):
            if there.get((model, name)) != ear.addresses:
                del self._ears[model, name]
                ear.close()
                self._placings[model].deafen(name)
        for (model, name), (events, replay) in there.items():
            if (model, name) not in self._ears and events is not None:
                ear = self._ears[model, name] = Ear(context, self._placings[model], name, events, replay)
                ear.open()


class Ear:
    """One replica's."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], placing: PrecisePlacing, name: str, events: str, replay: str | None
    ) -> None:
        self.addresses = events, replay
        self._loop = asyncio.get_running_loop()
        self._name = name
        self._placing = placing
        self._complained = False
        self._broken = 0
        self._again: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None  # while a replay is under way
        self._moving = False  # something of it has come
        self._wanted: int | None = None  # where the next one is to begin
        self._readers: list[tuple[zmq.Socket[bytes], Callable[[list[bytes]], None]]] = []
        self._scheduled = False
        self._closed = False
        self._events = context.socket(zmq.SUB)
        self._events.subscribe(b"")
        self._replay = None if replay is None else context.socket(zmq.DEALER)
        self.sequence = Sequence(name, placing.precise, placing.heard, None if replay is None else self._ask)
        placing.listen(name, self.sequence)

    def open(self) -> None:
        """A socket that cannot be had, for want of descriptors or because an address is none, leaves it deaf."""
        events, replay = self.addresses
        try:
            self._open(events, replay)
        except zmq.ZMQError as error:
            _log.warning("%s: its KV cache events cannot be followed: %s", self._name, error)

    def _open(self, events: str, replay: str | None) -> None:
        monitor = self._events.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._hear(monitor, self._connection)
        self._hear(self._events, self._came)
        self._connect(self._events, events, _WAITING)
        if self._replay is not None and replay is not None:
            self._hear(self._replay, self._replayed)
            self._connect(self._replay, replay, _REPLAYED)

    def close(self) -> None:
        self._closed = True
        for timer in (self._timer, self._again):
            if timer is not None:
                timer.cancel()
        for socket, _ in self._readers:
            self._loop.remove_reader(socket.FD)
        self._events.disable_monitor()
        for socket, _ in self._readers:
            socket.close(linger=0)

    def _connect(self, socket: zmq.Socket[bytes], address: str, waiting: int) -> None:
        socket.setsockopt(zmq.RCVHWM, waiting)
        socket.setsockopt(zmq.MAXMSGSIZE, _LARGEST)
        socket.setsockopt(zmq.RECONNECT_IVL, 100)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 5_000)
        idle, interval, count = _KEEPALIVE
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, idle)
        socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, interval)
        socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, count)
        socket.setsockopt(zmq.IPV6, 1)
        socket.connect(address)

    def _hear(self, socket: zmq.Socket[bytes], take: Callable[[list[bytes]], None]) -> None:
        self._readers.append((socket, take))
        self._loop.add_reader(socket.FD, self._ready)

    def _ready(self) -> None:
        """A descriptor of ZeroMQ tells only that something changed: all sockets are read until they are empty, and nothing of
        them before what waits is taken.
        """
        self._scheduled = False
        if self._closed:
            return
        until = self._loop.time() + _TURN
        for socket, take in self._readers:
            while True:
                while self.sequence.behind:
                    self.sequence.catch_up()
                    if self._loop.time() > until:
                        self._soon()
                        return
                try:
                    frames = socket.recv_multipart(zmq.NOBLOCK)
                except zmq.ZMQError:  # Again: it is empty
                    break
                take(frames)
                if self._loop.time() > until:
                    self._soon()
                    return

    def _soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._ready)

    # -- what comes

    def _connection(self, frames: list[bytes]) -> None:
        if parse_monitor_message(frames)["event"] == zmq.EVENT_DISCONNECTED:
            self.sequence.silent()
            self._connect_again()
            self._broken += 1
            if self._broken == _BROKEN:
                self._complain(f"what breaks the connection each time, such as a batch of more than {_LARGEST} bytes")
        else:
            if self._again is not None:
                self._again.cancel()
                self._again = None
            self.sequence.begin()

    def _connect_again(self) -> None:
        if self._again is None:
            self._again = self._loop.call_later(_AGAIN, self._anew)

    def _anew(self) -> None:
        self._again = None
        for socket, address in ((self._events, self.addresses[0]), (self._replay, self.addresses[1])):
            if socket is not None and address is not None:
                with contextlib.suppress(zmq.ZMQError):  # it is connected to nothing
                    socket.disconnect(address)
                socket.connect(address)
        self._soon()

    def _came(self, frames: list[bytes]) -> None:
        if len(frames) != 3 or len(frames[1]) != _NUMBER:
            self._complain("a message that is no batch of KV cache events")
            return
        self._broken = 0
        self._told(self.sequence.came, frames[1], frames[2])

    def _replayed(self, frames: list[bytes]) -> None:
        if len(frames) != 4 or len(frames[2]) != _NUMBER:
            self._complain("an answer that is no replay of KV cache events")
        elif frames[2] == _OVER:
            self._over(complete=True)
        elif self._wanted is None:
            self._moving = True
            self._told(self.sequence.replayed, frames[2], frames[3])

    def _told(self, take: Callable[[int, bytes], None], number: bytes, payload: bytes) -> None:
        before = self._placing.heard.garbage
        take(int.from_bytes(number, "big"), payload)
        if self._placing.heard.garbage > before:
            self._complain("a batch of KV cache events that is not understood")

    def _complain(self, what: str) -> None:
        if not self._complained:
            self._complained = True
            _log.warning("%s: its engine published %s; until it makes sense this replica is placed by load", self._name, what)

    # -- what is asked

    def _ask(self, number: int) -> None:
        self._wanted = number
        if self._timer is None:
            self._send()

    def _send(self) -> None:
        if self._closed:
            return
        number, self._wanted = self._wanted or 0, None
        self._timer = self._loop.call_later(_REPLAY, self._late)
        if self._replay is not None:
            with contextlib.suppress(zmq.ZMQError):  # it has its time all the same
                self._replay.send_multipart([b"", number.to_bytes(_NUMBER, "big")], zmq.NOBLOCK)
            self._soon()

    def _late(self) -> None:
        if self._moving:
            self._moving = False
            self._timer = self._loop.call_later(_REPLAY, self._late)
        else:
            self._over()

    def _over(self, *, complete: bool = False) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._wanted is not None:
            self._send()
        else:
            self.sequence.replay_over(complete=complete)
            self._soon()
