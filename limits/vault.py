"""What was spent, in a buffer that outlives the process that decides: `limiter.commit()` writes, a successor reads.

Rules of this file
- The buffer is any writable one: made before the fork, it is still there when its writer was killed at any moment.
- Writing goes by batches, and a batch is in force as a whole or not at all: its records are written first, beside
  those in force, then one word that names its number. The word has two places as well, taken in turn, each with
  a checksum, so that a torn one leaves the former.
- A balance is kept with its moment and its limits: refilling on the way is worked out by who reads it, for the time
  that really passed. Times are whole microseconds of CLOCK_MONOTONIC, which all processes of a machine share.
- Scopes are known by a digest of their id, so no name of a tenant or key is in the buffer.
- Wider than 64 bits is only what may be: the tokens of one request, times UNIT, have up to 66 bits, and are kept in
  128. What would not fit even so is cut to the largest that does.
- Whose balance would be back at nothing spent loses its place first. When there is none such, the one goes that would
  be there soonest, and that is said once.
"""

from __future__ import annotations

import logging
import struct
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from limits.cells import CELL, Buffer, Cell, Cells, Values
from limits.types import BURST

_log = logging.getLogger("tiergate.limits")

_MAGIC = b"tiergate vault 2"
_HEAD = struct.Struct("<16sIII")
_WORD = struct.Struct("<Qq")
_CHECK = struct.Struct("<I")
_WORDS, _STRIDE, _BODY = 64, 64, 192
_MARKS = 256
_WIDTH = 64
_TOP = (1 << _WIDTH) - 1
_MOST = (1 << 2 * _WIDTH) - 1
_LAST = (1 << 63) - 1
_NAME = 16


class Spent(NamedTuple):
    """What a scope had spent at a moment, in the units of `limits.bucket`, and its limits then, with their burst in seconds.

    None is unlimited, and so is a limit beyond 64 bits.
    """

    at: int
    requests: int
    tokens: int
    rpm: int | None
    tpm: int | None
    burst: float = BURST

    def rest(self) -> int:
        """The moment from which nothing is spent any more, if nobody spends meanwhile."""
        return self.at + max(_ticks(self.requests, self.rpm), _ticks(self.tokens, self.tpm))


class Vault:
    """`open` it. `past` is what was found there, and is for taking out; `now` the last moment that was committed."""

    def __init__(self, buffer: Buffer, scopes: Cells, marks: Cells) -> None:
        self._buffer = buffer
        self._scopes = scopes
        self._marks = marks
        self._warned = False
        self._staged = False
        self._seq = 1
        self.now = 0
        self.past: dict[bytes, Spent] = {}

    @staticmethod
    def size_for(scopes: int = 16384) -> int:
        """Bytes of a buffer for the balances of so many scopes."""
        return _BODY + (_MARKS + scopes) * CELL

    @classmethod
    def open(cls, buffer: Buffer) -> Vault:
        """Read what is there, or lay it out: an empty buffer, or one of another size or version. ValueError: too small."""
        count = (len(buffer) - _BODY) // CELL - _MARKS
        if count < 1:
            raise ValueError(f"a vault takes at least {cls.size_for(1)} bytes, not {len(buffer)}")
        head = _checked(_HEAD.pack(_MAGIC, count, _MARKS, CELL))
        if bytes(buffer[: len(head)]) != head:
            _lay_out(buffer, head)
        marks = Cells(buffer, _BODY, _MARKS, _age)
        vault = cls(buffer, Cells(buffer, _BODY + _MARKS * CELL, count, _rest), marks)
        vault._read()
        return vault

    def put(
        self, key: bytes, at: int, requests: int, tokens: int, rpm: int | None, tpm: int | None, burst: float = BURST
    ) -> None:
        """Write a balance (see Spent), to be in force from the next commit on."""
        self._staged = True
        low, high = (tokens, 0) if tokens <= _TOP else (tokens & _TOP, tokens >> _WIDTH) if tokens <= _MOST else (_TOP, _TOP)
        values = (
            at,
            requests if requests <= _TOP else _TOP,
            low,
            high,
            _TOP if rpm is None or rpm > _TOP else rpm,
            _TOP if tpm is None or tpm > _TOP else tpm,
            round(burst * 1000),
        )
        evicted = self._scopes.put(key, self._seq, values)
        if evicted is not None and _rest(evicted) > at:
            self._warn("balances")

    def mark(self, name: bytes) -> int:
        """A counter by its name, 0 if it is not known."""
        values = self._marks.get(_name(name))
        return 0 if values is None else values[0]

    def set_mark(self, name: bytes, count: int) -> None:
        """From the next commit on, together with the balances of that batch. 0 is as good as forgotten."""
        self._staged = True
        evicted = self._marks.put(_name(name), self._seq, (count, 0, 0, 0, 0, 0, 0))
        if evicted is not None and evicted.values[0]:
            self._warn("marks")

    def commit(self, now: int) -> None:
        """All that was written since the last commit is in force."""
        if self._staged or now > self.now:
            self.now = max(now, self.now)
            _publish(self._buffer, self._seq, self.now)
            self._seq += 1
            self._staged = False

    def _read(self) -> None:
        words = [word for place in (0, 1) if (word := _word(self._buffer, place))]
        if not words:
            words = [(max(self._scopes.newest(), self._marks.newest()), 0)]
            _log.warning("the vault does not say which of its balances are the last ones: the newest are taken")
        published, self.now = max(words)
        self._seq = published + 1
        self._scopes.read(published)
        self._marks.read(published)
        found = ((key, _spent(values)) for key, values in self._scopes.items())
        self.past = {key: spent for key, spent in found if spent.rest() > self.now}

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("the vault is full: a restart of the dispatcher will forget some %s", what)


def scope_key(scope_id: str) -> bytes:
    return blake2b(scope_id.encode("utf-8", "surrogatepass"), digest_size=_NAME).digest()


def _lay_out(buffer: Buffer, head: bytes) -> None:
    """The head goes first and comes back last: what is laid out by half is laid out again."""
    if any(buffer[: len(head)]):
        _log.warning("the vault is of another layout: balances start at nothing spent")
    buffer[: len(head)] = bytes(len(head))
    buffer[len(head) :] = bytes(len(buffer) - len(head))
    _publish(buffer, 0, 0)
    buffer[: len(head)] = head


def _publish(buffer: Buffer, seq: int, now: int) -> None:
    word = _checked(_WORD.pack(seq, now))
    at = _WORDS + seq % 2 * _STRIDE
    buffer[at : at + len(word)] = word


def _word(buffer: Buffer, place: int) -> tuple[int, int] | None:
    at = _WORDS + place * _STRIDE
    word = bytes(buffer[at : at + _WORD.size])
    if bytes(buffer[at : at + _WORD.size + _CHECK.size]) != _checked(word):
        return None
    seq, now = _WORD.unpack(word)
    return seq, now


def _checked(data: bytes) -> bytes:
    return data + _CHECK.pack(crc32(data))


def _spent(values: Values) -> Spent:
    at, requests, low, high, rpm, tpm, burst = values
    return Spent(at, requests, high << _WIDTH | low, None if rpm == _TOP else rpm, None if tpm == _TOP else tpm, burst / 1000)


def _ticks(spent: int, limit: int | None) -> int:
    """Microseconds until so much is refilled."""
    if not spent or limit is None:
        return 0
    return -(-spent // limit) if limit else _LAST


def _rest(cell: Cell) -> int:
    return _spent(cell.values).rest()


def _age(cell: Cell) -> int:
    return cell.seq if cell.values[0] else 0


def _name(name: bytes) -> bytes:
    if len(name) > _NAME:
        raise ValueError(f"the name of a mark has at most {_NAME} bytes")
    return name.ljust(_NAME, b"\0")
