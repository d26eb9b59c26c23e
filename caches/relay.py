"""One stream of pieces, pushed to many readers: the pure core of single flight, without tasks or waiting.

- A piece is handed to every reader that is *live* (at the end of the record, its sink writable) inside `write`, and joins
  the record. A reader whose sink is full *lags*: it has a place in the record, and goes on from there in `catch_up`.
- A reader is settled exactly once: when it has had everything and the stream ended, when the stream failed, when it was
  dropped, or when its own sink raised. A laggard hears of the end, good or bad, after it has had what came before.
- A reader for the whole counts as live: it is not in anybody's way.
- While one reader is all there are, and live, the producer may write chunks past `write`, to that reader's own `line`, and put
  their events on the `run`: whatever looks at the record settles that first.
- When nobody is live and even the fastest reader is more than `max_ahead` bytes behind, the producer is paused, and resumed
  once somebody is live or half of that behind. So one slow client does not hold up another, and a slow client alone still
  lets a normal answer be finished, and its slot be given back, ahead of its own reading.
- A stream's record holds at most `max_record` bytes. Then the relay has *outgrown* it: it takes no more readers, forgets what
  every reader has had, and drops readers for the whole. If that does not do, it drops laggards that are more than half a
  record behind: at once if somebody is live, else when the record reaches twice its bound, which only a producer that
  cannot be paused can do. An answer that is no stream is never cut: its producer bounded it when reading it.
"""

from __future__ import annotations

from itertools import repeat

from caches.reader import COMPLETE, Outcome, Reader, RecordBounds
from caches.types import Flow, Line, Sink


class Relay:
    """The producer calls `begin`, `write` and `finish`; the subscribers' side the rest."""

    __slots__ = (
        *("_bounds", "_flow", "_let_go", "_let_go_bytes", "_paused", "_record"),
        *("begun", "ended", "error", "head", "line", "outgrown", "readers", "run", "size", "stream"),
    )

    def __init__(self, bounds: RecordBounds, *, stream: bool) -> None:
        self.stream = stream
        self.head: object = None
        self.begun = False
        self.ended = False
        self.error: BaseException | None = None
        self.outgrown = False
        self.size = 0  # bytes written
        self.readers: dict[Reader, None] = {}  # in the order of their coming
        self._bounds = bounds
        self._record: list[tuple[bytes, bool]] = []
        self._let_go = 0  # pieces that are no longer in the record, from its start
        self._let_go_bytes = 0
        self._flow: Flow | None = None
        self._paused = False
        self.line: Line | None = None
        self.run: list[bytes] = []

    @property
    def flow(self) -> Flow | None:
        """The producer's brake, if it has one. A new one is taken to be running."""
        return self._flow

    @flow.setter
    def flow(self, flow: Flow | None) -> None:
        self._flow, self._paused = flow, False

    @property
    def pieces(self) -> list[bytes] | None:
        """Everything written so far; None once some of it is no longer kept."""
        self.settle()
        return None if self._let_go else [data for data, _ in self._record]

    def begin(self, head: object) -> None:
        if self.begun or self.ended:
            raise RuntimeError("a stream begins once")
        self.begun = True
        self.head = head
        for reader in self.readers:
            if reader.sink is not None and reader.outcome is None:
                self._introduce(reader, reader.sink)

    def write(self, data: bytes, usage_only: bool = False) -> None:
        """`usage_only` goes with the piece, so that each sink decides whether its client sees the usage chunk."""
        if not self.begun or self.ended:
            raise RuntimeError("a piece belongs between the beginning and the end of a stream")
        if self.run:
            self.settle()
        self._record.append((data, usage_only))
        self.size += len(data)
        somebody_live, line = False, None
        for reader in self.readers:
            if reader.live:
                sink = reader.sink
                assert sink is not None
                if not sink.writable:  # a chunk that went past here was one too many
                    self._stand(reader, behind=data)
                    continue
                try:
                    sink.write(data, usage_only)
                    if sink.writable:
                        somebody_live, line = True, sink.line
                        continue
                except Exception as error:  # noqa: BLE001 - one client's sink must not end the stream of the others
                    reader.settle(Outcome.REFUSED, error)
                self._stand(reader)
            elif reader.whole and reader.outcome is None:
                somebody_live = True
        if not somebody_live:
            self._hold_back()
        self.line = line if len(self.readers) == 1 else None
        if self.size - self._let_go_bytes > self._bounds.max_record:
            self._outgrow()

    def settle(self) -> None:
        """Record what was written past `write`; from here on there is no such thing, until a piece is."""
        run, self.line = self.run, None
        if run:
            self._record.extend(zip(run, repeat(False)))
            self.size += sum(map(len, run))
            run.clear()
            if self.size - self._let_go_bytes > self._bounds.max_record:
                self._outgrow()

    def finish(self, error: BaseException | None = None) -> None:
        """The stream is over; those who lag have the rest still to come."""
        if self.ended:
            return
        self.settle()
        if error is None and not self.begun:
            raise RuntimeError("a stream that ends well has begun")
        self.ended = True
        self.error = error
        for reader in list(self.readers):
            self._part(reader)

    def follow(self, reader: Reader, sink: Sink) -> None:
        """Push what is there, and from now on every piece, into a sink."""
        self.settle()
        reader.sink = sink
        if reader.outcome is not None:
            return
        if not self.begun:
            reader.live = sink.writable
            return
        self._introduce(reader, sink)
        self.catch_up(reader)

    def await_whole(self, reader: Reader) -> None:
        """Be told of the end alone; a reader that has not asked for anything yet keeps the record from being cut."""
        self.settle()
        reader.whole = True
        if self.ended:
            self._part(reader)
        self._release()

    def catch_up(self, reader: Reader) -> None:
        """Go on from the reader's place for as long as its sink takes more."""
        self.settle()
        sink = reader.sink
        if sink is None or not self.begun or reader.live or reader.outcome is not None:
            return
        try:
            while reader.place - self._let_go < len(self._record):
                if not sink.writable:
                    break
                data, usage_only = self._record[reader.place - self._let_go]
                reader.place += 1
                reader.sent += len(data)
                sink.write(data, usage_only)
            reader.live = self._had_all(reader) and sink.writable
        except Exception as error:  # noqa: BLE001 - see write
            reader.settle(Outcome.REFUSED, error)
        if self.ended:
            self._part(reader)
        self._release()

    def leave(self, reader: Reader) -> None:
        self.settle()
        self.readers.pop(reader, None)
        reader.live, reader.sink = False, None

    def _introduce(self, reader: Reader, sink: Sink) -> None:
        reader.given = True
        try:
            sink.begin(self.head)
        except Exception as error:  # noqa: BLE001 - see write
            reader.settle(Outcome.REFUSED, error)

    def _stand(self, reader: Reader, behind: bytes = b"") -> None:
        """A live reader stays behind here, at the end of the record, or one piece before it."""
        reader.live = False
        reader.place = self._let_go + len(self._record) - bool(behind)
        reader.sent = self.size - len(behind)

    def _had_all(self, reader: Reader) -> bool:
        return reader.live or reader.place == self._let_go + len(self._record)

    def _part(self, reader: Reader) -> None:
        """Settle a reader of an ended stream, unless something is still to come for it."""
        error = self.error
        if error is not None and not reader.given:
            reader.settle(Outcome.SPOILED, error)
        elif reader.whole or (reader.given and self._had_all(reader)):
            reader.settle(COMPLETE if error is None else Outcome.BROKEN, error)

    def _waiting(self) -> list[Reader]:
        return [reader for reader in self.readers if reader.outcome is None]

    def _somebody_live(self) -> bool:
        return any(reader.live or (reader.whole and reader.outcome is None) for reader in self.readers)

    def _lead(self) -> int:
        """How many bytes the producer is ahead of the fastest reader, when nobody is live."""
        return self.size - max((reader.sent for reader in self._waiting()), default=self.size)

    def _hold_back(self) -> None:
        if self._flow is not None and not self._paused and self._lead() > self._bounds.max_ahead:
            self._paused = True
            self._flow.pause()

    def _release(self) -> None:
        if not self._paused or self._flow is None or self.ended:
            return
        if self._somebody_live() or self._lead() <= self._bounds.max_ahead // 2:
            self._paused = False
            self._flow.resume()

    def _outgrow(self) -> None:
        self.outgrown = True
        if not self.stream:
            return
        bound = self._bounds.max_record
        for reader in self._waiting():
            if reader.whole:
                reader.settle(Outcome.DROPPED)
        self._forget()
        kept = self.size - self._let_go_bytes
        if kept > bound * 3 // 4 and (kept > 2 * bound or self._somebody_live()):
            for reader in self._waiting():
                if not reader.live and self.size - reader.sent > bound // 2:
                    reader.settle(Outcome.DROPPED)
            self._forget()

    def _forget(self) -> None:
        """Let go of what every reader has had."""
        end = self._let_go + len(self._record)
        count = min((reader.place for reader in self._waiting() if not reader.live), default=end) - self._let_go
        self._let_go_bytes += sum(len(data) for data, _ in self._record[:count])
        self._let_go += count
        del self._record[:count]
