"""Which replica has computed which beginning of a prompt already, as far as one can tell from what was sent there.

Rules of this file
1. One walk finds all replicas: a digest has a mask of those that hold it, and what is left of their intersection shrinks on the
   way. The work grows with the prompt and hardly with the number of replicas.
2. Each replica forgets what it was not asked for longest, when it holds more tokens than its engine has room for. A prompt is
   touched from its tail to its head, so tails go first, as in vLLM. So whoever holds a block holds all that stand before it.
3. The memory has one hard bound, `most` entries over all replicas. Past it the replica with the most gives way. A million tokens
   that one replica holds are 16,000 entries and 2 to 7 MB.
4. No clock, no I/O, no randomness. A replica that is dropped holds nothing from then on; its entries are cleared a few at a
   time, so no call takes longer for it.

The answer to a prompt is in the replica's cache too, and most often is the next thing in the next prompt. Nobody puts the answer
together for that: when it has ended, the digest of the whole prompt is held with the number of tokens that were made, and the
message behind that prompt in a later one is taken for that answer if it is about as long. What that may get wrong:

- A client that rewrites the answer and keeps its length is credited with it.
- Of an engine that thinks before it speaks, the thoughts are left out of the next prompt. Where they are longer than what was
  said nothing is credited, which is right; where they are shorter the answer is, although the cache holds it behind the thoughts.

Either way the estimate is off by that one answer, until the later prompt itself has been sent somewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from operator import itemgetter

from caches.chain import Chain
from caches.holders import Holders, bits

_PURGED = 4  # entries of dropped replicas that are cleared for each that is added
_NAMED = 16  # holders of a prompt, up to which all are named
_STEP = 7  # bits: so that of many who hold the same not the same few are always looked at
_SLACK = 64  # tokens: what is written around an answer when it comes back as a message


class _Held:
    """What one replica holds: digests with the tokens that each stands for, those first that were not asked for longest."""

    __slots__ = ("bit", "entries", "room", "tokens")

    def __init__(self, bit: int, room: int) -> None:
        self.bit = bit
        self.room = room
        self.tokens = 0
        self.entries: OrderedDict[int, int] = OrderedDict()


class PrefixIndex:
    """Who holds what. `tokens`: the room of a replica of which nothing else is known."""

    def __init__(self, *, tokens: int = 1 << 19, most: int = 1 << 19) -> None:
        self._tokens = tokens
        self._most = most
        self._masks: dict[int, int] = {}  # digest -> who holds it, one bit a replica; also of those that are dropped
        self._held: dict[str, _Held] = {}
        self._names: dict[int, str] = {}  # by bit
        self._alive = 0
        self._dropped: list[_Held] = []
        self._entries = 0  # over all replicas, also the dropped ones
        self._free: list[int] = []
        self._bits = 0
        self._turn = 0

    # -- what is asked

    def match(self, prompt: Chain, tokens: int) -> Mapping[str, int]:
        """Tokens of the prompt that each replica holds, of so many in all, those with most first; who holds none is left out."""
        blocks = prompt.blocks
        if not prompt.asked and not (blocks and self._masks.get(blocks[0], 0) & self._alive):
            return {}  # as of every prompt that is new
        reached = self._reached(blocks)
        reached.reverse()
        block, names = prompt.block, self._names
        if blocks and (self._masks.get(blocks[0], 0) & self._alive).bit_count() > _NAMED:
            return self._unnamed(prompt, tokens, reached)
        lengths = {names[bit]: blocks * block for mask, blocks in reached for bit in bits(mask)}
        if prompt.asked:
            self._credit(prompt, tokens, lengths)
        return {name: prompt.tokens_of(length, tokens) for name, length in lengths.items()}

    def _unnamed(self, prompt: Chain, tokens: int, reached: list[tuple[int, int]]) -> Holders:
        """The same of many. An answer that more than a few hold counts for none of them: nobody repeats that."""
        levels: list[tuple[int, float]] = [*reached]
        answered = self._masks.get(prompt.asked, 0) & self._alive if prompt.asked else 0
        if answered and answered.bit_count() <= _NAMED:
            before = {}
            for bit in bits(answered):
                before[self._names[bit]] = next((blocks * prompt.block for mask, blocks in reached if mask & bit), 0)
            lengths = dict(before)
            self._credit(prompt, tokens, lengths)
            for name, length in lengths.items():
                if length != before[name]:
                    bit = self._held[name].bit
                    levels = [(mask & ~bit, blocks) for mask, blocks in levels]
                    levels.append((bit, length / prompt.block))
            levels = sorted([level for level in levels if level[0]], key=itemgetter(1), reverse=True)
        self._turn += _STEP
        return Holders(
            levels, lambda blocks: prompt.tokens_of(round(blocks * prompt.block), tokens), self._names, self._bit, self._turn
        )

    def _bit(self, name: str) -> int:
        held = self._held.get(name)
        return 0 if held is None else held.bit

    def _reached(self, blocks: Sequence[int]) -> list[tuple[int, int]]:
        """(replicas, how many leading blocks they hold), for those that hold any."""
        reached = []
        held, count = self._alive, 0
        for mask in map(self._masks.get, blocks):
            still = mask & held if mask else 0
            if still != held:
                if count:
                    reached.append((held ^ still, count))
                held = still
                if not held:
                    return reached
            count += 1
        if held and count:
            reached.append((held, count))
        return reached

    def _credit(self, prompt: Chain, tokens: int, lengths: dict[str, int]) -> None:
        """Who gave the last answer in it holds that, too."""
        least = prompt.start // prompt.block * prompt.block
        said = prompt.tokens_of(prompt.stop - prompt.start, tokens)
        for bit in bits(self._masks.get(prompt.asked, 0) & self._alive):
            name = self._names[bit]
            made = self._held[name].entries[prompt.asked]
            if lengths.get(name, 0) >= least and made <= 2 * said and said <= 2 * made + _SLACK:
                lengths[name] = max(prompt.stop, lengths.get(name, 0))

    def tokens(self, name: str) -> int:
        """That it is thought to hold."""
        held = self._held.get(name)
        return 0 if held is None else held.tokens

    def __len__(self) -> int:
        """Entries over all replicas, those of dropped ones that are still to be cleared included: what memory there is for."""
        return self._entries

    @property
    def held(self) -> int:
        """Entries that replicas are thought to hold."""
        return sum(len(held.entries) for held in self._held.values())

    # -- what is told

    def add(self, name: str, prompt: Chain, tokens: int) -> int:
        """The prompt, of so many tokens, is sent to that replica. How many of its blocks it did not hold yet."""
        held = self._held.get(name) or self._of(name)
        entries, masks, bit, fresh = held.entries, self._masks, held.bit, 0
        weight = prompt.tokens_of(prompt.block, tokens)
        if weight < 1:
            weight = 1
        for digest in reversed(prompt.blocks):
            if digest in entries:
                entries.move_to_end(digest)
            else:
                entries[digest] = weight
                masks[digest] = masks.get(digest, 0) | bit
                fresh += 1
        held.tokens += fresh * weight
        self._entries += fresh
        if prompt.asked in entries and prompt.stop >= prompt.block:  # the answer has its own blocks now
            self._unmark(held, prompt.asked, entries.pop(prompt.asked))
        if held.tokens > held.room or self._dropped or self._entries > self._most:
            self._bound(held, fresh)
        return fresh

    def take_back(self, name: str, prompt: Chain, fresh: int) -> None:
        """It was sent there, and not read: the blocks that came with it are not held."""
        held = self._held.get(name)
        if held is not None:
            for digest in prompt.blocks[max(0, len(prompt.blocks) - fresh) :]:
                if digest in held.entries:
                    self._unmark(held, digest, held.entries.pop(digest))

    def answered(self, name: str, prompt: Chain, tokens: int) -> None:
        """The replica has made an answer of so many tokens to that prompt."""
        held, end = self._held.get(name), prompt.end
        if held is None or not end or tokens < 1:
            return
        entries = held.entries
        before = entries.pop(end, 0)
        if not before:
            self._masks[end] = self._masks.get(end, 0) | held.bit
            self._entries += 1
        held.tokens += tokens - before
        entries[end] = tokens
        if held.tokens > held.room or self._dropped or self._entries > self._most:
            self._bound(held, not before)

    def resize(self, name: str, tokens: int) -> None:
        """The engine has room for so many."""
        held = self._of(name)
        if held.room != tokens:
            held.room = tokens
            self._bound(held, 0)

    def drop(self, name: str) -> None:
        """The replica holds nothing: it was restarted, or is gone."""
        held = self._held.pop(name, None)
        if held is not None:
            self._alive ^= held.bit
            del self._names[held.bit]
            self._dropped.append(held)

    # -- the inside

    def _of(self, name: str) -> _Held:
        held = self._held.get(name)
        if held is None:
            if self._free:
                bit = self._free.pop()
            else:
                bit = 1 << self._bits
                self._bits += 1
            held = self._held[name] = _Held(bit, self._tokens)
            self._names[bit] = name
            self._alive |= bit
        return held

    def _bound(self, held: _Held, fresh: int) -> None:
        if held.tokens > held.room:
            self._fit(held)
        if self._dropped:
            self._purge(_PURGED * fresh + 1)
        while self._entries > self._most:
            if self._dropped:
                self._purge(self._entries - self._most)
            else:
                self._forget_oldest(max(self._held.values(), key=lambda held: len(held.entries)))

    def _fit(self, held: _Held) -> None:
        """Forget until the rest has room. Of a replica that is full it is the way of every prompt, so it is done in place."""
        entries, masks, bit, before = held.entries, self._masks, held.bit, len(held.entries)
        while held.tokens > held.room and entries:
            digest, tokens = entries.popitem(last=False)
            held.tokens -= tokens
            mask = masks[digest] ^ bit
            if mask:
                masks[digest] = mask
            else:
                del masks[digest]
        self._entries -= before - len(entries)

    def _forget_oldest(self, held: _Held) -> None:
        self._unmark(held, *held.entries.popitem(last=False))

    def _unmark(self, held: _Held, digest: int, tokens: int) -> None:
        held.tokens -= tokens
        self._entries -= 1
        mask = self._masks[digest] ^ held.bit
        if mask:
            self._masks[digest] = mask
        else:
            del self._masks[digest]

    def _purge(self, count: int) -> None:
        while count > 0 and self._dropped:
            held = self._dropped[-1]
            while count > 0 and held.entries:
                self._forget_oldest(held)
                count -= 1
            if not held.entries:
                self._dropped.pop()
                self._free.append(held.bit)
