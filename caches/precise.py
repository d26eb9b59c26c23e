"""Which replica has which beginning of a prompt cached, as the engines themselves say.

Rules of this file
1. As in `caches.prefix`, a digest has a mask of the replicas that hold it, and one walk along a prompt finds all of them.
2. Engines name their blocks by hashes of their own. Those are never made here: a block is digested anew behind the digest of its
   parent, and the engine's name is kept for the moment when it is removed. A block whose parent is not known cannot be placed,
   and is left out. An engine may hold a block twice; it is gone when it was removed as often.
3. What was sent to a replica is held there before its engine says so, or the next prompt with the same beginning would go
   elsewhere. That is kept apart, `_MOST_SENT` steps for each replica, until the engine has said it, or the replica is dropped.
4. One hard bound, `most` steps over all replicas; past it the replica with the most forgets what was stored there first.
5. No clock, no I/O, no randomness. A replica that is dropped holds nothing from then on; its entries are cleared a few at a
   time, so no call takes longer for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from caches.chain import Chain
from caches.kvevents import Cleared, Event, Hash, Removed, Stored
from caches.tokens import STEP, WIDTH, above_of, aside, numbers, steps

_MOST_SENT = 4096
_MOST_DROPPED = 64
_PURGED = 4  # blocks of dropped replicas that are cleared for each that is added


class _Held:
    """What one replica holds. `whole`: there is nothing in its cache that is not here."""

    __slots__ = ("bit", "blocks", "copies", "group", "sent", "size", "whole")

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.blocks: OrderedDict[Hash, tuple[int, ...]] = OrderedDict()  # the engine's name of a block -> its digests
        self.copies: dict[Hash, int] = {}  # those that it has more than once, and how often beyond that
        self.sent: OrderedDict[int, None] = OrderedDict()
        self.group: int | None = None
        self.size = 0
        self.whole = False


class PreciseIndex:
    """Who holds what. `root`: where the chains of an adapter and a salt begin; see `caches.tokens`."""

    def __init__(self, root: Callable[[str | None, str | None], bytes], *, most: int = 1 << 20) -> None:
        self._root = root
        self._most = most
        self._masks: dict[int, int] = {}
        self._sent: dict[int, int] = {}  # the same, of what engines have not told
        self._held: dict[str, _Held] = {}
        self._names: dict[int, str] = {}  # by bit
        self._alive = 0
        self._dropped: list[_Held] = []
        self._free: list[int] = []
        self._bits = 0
        self._entries = 0

    def match(self, prompt: Chain, tokens: int) -> dict[str, int]:
        """Tokens of the prompt that each replica holds, of so many in all; a replica that holds none is left out."""
        masks, sent, names = self._masks.get, self._sent.get, self._names
        found: dict[str, int] = {}
        held, count, step = self._alive, 0, STEP * WIDTH
        for digest in prompt.blocks:
            still = (masks(digest, 0) | sent(digest, 0)) & held
            if still != held and count:
                length = prompt.tokens_of(count * step, tokens)
                found.update((names[bit], length) for bit in _bits(held ^ still))
            held = still
            if not held:
                return found
            count += 1
        if held and count:
            length = prompt.tokens_of(count * step, tokens)
            found.update((names[bit], length) for bit in _bits(held))
        return found

    def whole(self, name: str) -> bool:
        """Whether all that it has cached is known here."""
        held = self._held.get(name)
        return held is not None and held.whole

    def __len__(self) -> int:
        """Steps over all replicas that their engines have told of."""
        return self._entries

    # -- what is told

    def begin(self, name: str, *, whole: bool) -> None:
        """Its next event is the first one here. `whole`: also the first one of its engine."""
        self.drop(name)
        self._of(name).whole = whole

    def heard(self, name: str, event: Event) -> None:
        """Its engine says so."""
        held = self._of(name)
        if isinstance(event, Stored):
            self._stored(held, event)
        elif isinstance(event, Removed):
            if event.group == held.group:
                self._removed(held, event)
        elif isinstance(event, Cleared):
            self.begin(name, whole=True)

    def sent(self, name: str, prompt: Chain) -> None:
        """The prompt is sent there."""
        if self._dropped:
            self._purge(_PURGED)
        held = self._of(name)
        bit, sent, masks, told = held.bit, held.sent, self._sent, self._masks
        for digest in prompt.blocks[:_MOST_SENT]:
            if digest in sent:
                sent.move_to_end(digest)
            elif not told.get(digest, 0) & bit:
                sent[digest] = None
                masks[digest] = masks.get(digest, 0) | bit
        while len(sent) > _MOST_SENT:
            _unmark(masks, sent.popitem(last=False)[0], bit)

    def drop(self, name: str) -> None:
        """Nothing is known of it any more."""
        held = self._held.pop(name, None)
        if held is not None:
            self._alive ^= held.bit
            del self._names[held.bit]
            self._dropped.append(held)
            while len(self._dropped) > _MOST_DROPPED:
                self._purge(_MOST_SENT)

    # -- the inside

    def _of(self, name: str) -> _Held:
        held = self._held.get(name)
        if held is None:
            if self._free:
                bit = self._free.pop()
            else:
                bit = 1 << self._bits
                self._bits += 1
            held = self._held[name] = _Held(bit)
            self._names[bit] = name
            self._alive |= bit
        return held

    def _stored(self, held: _Held, event: Stored) -> None:
        if not held.blocks:
            held.group = event.group
        elif held.group != event.group:
            return
        if event.parent is None:
            above = self._root(event.lora, event.salt)
        else:
            parent = held.blocks.get(event.parent)
            if parent is None:
                held.whole = False  # it holds what is not known here
                return
            above = above_of(parent[-1])
        width = event.size * WIDTH
        for at, name in enumerate(event.hashes):
            if at in event.strange:
                above = aside(above, event.strange[at])
            digests = steps(above, event.ids[at * width : (at + 1) * width])
            above = digests[-1]
            self._add(held, name, numbers(digests))
        if self._dropped:
            self._purge(_PURGED * len(event.hashes))
        while self._entries > self._most:
            if self._dropped:
                self._purge(_PURGED)
            else:
                self._forget(max(self._held.values(), key=lambda held: len(held.blocks)))

    def _add(self, held: _Held, name: Hash, digests: tuple[int, ...]) -> None:
        if name in held.blocks:
            held.copies[name] = held.copies.get(name, 0) + 1
            return
        held.blocks[name] = digests
        self._entries += len(digests)
        masks, sent, bit = self._masks, held.sent, held.bit
        for digest in digests:
            masks[digest] = masks.get(digest, 0) | bit
            if digest in sent:
                del sent[digest]
                _unmark(self._sent, digest, bit)

    def _removed(self, held: _Held, event: Removed) -> None:
        for name in event.hashes:
            copies = held.copies.get(name, 0)
            if copies > 1:
                held.copies[name] = copies - 1
            elif copies:
                del held.copies[name]
            else:
                self._take_out(held, held.blocks.pop(name, ()))

    def _forget(self, held: _Held) -> None:
        name, digests = held.blocks.popitem(last=False)
        held.copies.pop(name, None)
        held.whole = False
        self._take_out(held, digests)

    def _take_out(self, held: _Held, digests: tuple[int, ...]) -> None:
        self._entries -= len(digests)
        for digest in digests:
            _unmark(self._masks, digest, held.bit)

    def _purge(self, count: int) -> None:
        while count > 0 and self._dropped:
            held = self._dropped[-1]
            while count > 0 and (held.blocks or held.sent):
                if held.blocks:
                    self._take_out(held, held.blocks.popitem(last=False)[1])
                else:
                    _unmark(self._sent, held.sent.popitem(last=False)[0], held.bit)
                count -= 1
            if not held.blocks and not held.sent:
                self._dropped.pop()
                self._free.append(held.bit)


def _unmark(masks: dict[int, int], digest: int, bit: int) -> None:
    mask = masks.get(digest, 0) & ~bit
    if mask:
        masks[digest] = mask
    else:
        masks.pop(digest, None)


def _bits(mask: int) -> list[int]:
    bits = []
    while mask:
        bits.append(mask & -mask)
        mask &= mask - 1
    return bits
