"""Where of a pool's replicas a prompt is cached, for balances that want to know: between requests and the index.

A `Lane` has one of these. What nobody wants to know costs nothing: `unplaced` has what stands here then.

Rules of this file
1. Between `ask` and `sent` nothing awaits, so what is chosen by is what is true.
2. What a replica was sent counts as held by it from then on: the next one with the same beginning should wait behind it there.
   Where nothing came back, because it failed or the client had left, it was not read, and is not held.
3. Who has forgotten is not believed: an engine whose start time changed or whose counters went down, that sleeps, that has left,
   or that twice in a row computed what it was thought to hold, with nothing else being read there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from backends.balance import Balance
from backends.kept import Kept, read_kept
from backends.replica import Replica
from backends.types import Ask
from caches.chain import Chain
from caches.crowd import NO_CROWD, Crowd, NoCrowd
from caches.holders import Holders
from caches.prefix import PrefixIndex
from gateway.between.heat import NO_HEAT, NoHeat
from gateway.dispatch.mismatch import Calibration
from gateway.dispatch.types import WorkAsk
from gateway.dispatch.unplaced import UNPLACED, NoPlacing, Unplaced
from limits.waiting import Spent

_log = logging.getLogger("tiergate.prefix")
_TELLING = 512  # expected tokens from which on a miss says something of the replica
_MISSED = 8  # delivered is less than this part of what was expected
_STRIKES = 2


class Placed(Unplaced):
    """A request's work in a pool where it matters."""

    __slots__ = ("_expected", "_fresh", "_known", "_packed", "_placing", "_quiet", "_replica", "prompt", "tokens")

    def __init__(self, packed: bytes, tokens: int, placing: Placing) -> None:
        """Raises ValueError."""
        self._placing = placing
        self._packed = packed
        self._expected: Mapping[str, int] = {}
        self._replica = ""
        self._known = 0  # of what was expected, that of the replica
        self._fresh = 0  # blocks that the replica did not hold before
        self._quiet = False  # nothing was being read there when it was sent: what was sent before is in the cache
        self.prompt = Chain.unpack(packed)
        self.tokens = tokens

    def ask(self, ask: Ask) -> Ask:
        placing, prompt, tokens = self._placing, self.prompt, self.tokens
        ask.cached = self._expected = found = placing.index.match(prompt, tokens)
        ask.prefix, ask.alone = prompt.blocks, placing.alone
        ask.crowd = placing.crowd.along(prompt, tokens)
        ask.holders = found.counts() if ask.crowd and isinstance(found, Holders) else ()
        return ask

    def sent(self, replica: Replica) -> None:
        if self._replica:
            self._unread()
        else:  # what is tried again elsewhere is the same request
            self._placing.crowd.came(self.prompt)
        self._replica = name = replica.name
        self._known = self._expected.get(name, 0)
        self._quiet = not replica.pending and not replica.others_pending
        self.told(name)
        self._placing.calibration.sent(name, self.tokens)

    def told(self, name: str) -> None:
        placing = self._placing
        self._fresh = placing.index.add(name, self.prompt, self.tokens)
        placing.heat.placed(name, self._packed, self.tokens)

    def _unread(self) -> None:
        self._placing.index.take_back(self._replica, self.prompt, self._fresh)

    def ended(self, spent: Spent) -> None:
        """What was expected is a share of the prompt, so it is compared as that share of the tokens that it really has."""
        name, placing = self._replica, self._placing
        if not spent.whole and not spent.output:
            self._unread()
            return
        placing.index.answered(name, self.prompt, spent.output)
        placing.heat.answered(name, self.prompt.end, spent.output)
        if spent.whole:
            cached = spent.cached or 0
            expected = self._known
            if expected:
                expected = expected * (spent.prompt + cached) // max(1, self.tokens)
            if not placing.tells(name, spent):
                if expected:
                    placing.untold(name, expected)
                return
            placing.compare(name, expected, cached, self if self._quiet else None)


class Placing(NoPlacing):
    """One pool's index, and what keeps it true."""

    __slots__ = ("_engines", "_model", "_strikes", "_telling", "alone", "calibration", "crowd", "heat", "index")

    def __init__(self, model: str, index: PrefixIndex) -> None:
        super().__init__()
        self.index = index
        self.crowd: NoCrowd = NO_CROWD
        self.heat: NoHeat = NO_HEAT
        self.alone = False  # there are other gateways, and they cannot be heard
        self._model = model
        self._engines: dict[str, Kept] = {}
        self._strikes: dict[str, int] = {}
        self._telling: set[str] = set()
        self.calibration = Calibration()

    @property
    def entries(self) -> int:
        return self.index.held

    def look(self, prefix: bytes, session: str | None, tokens: int) -> Ask:
        if not prefix:
            return Ask(session, tokens)
        prompt = Chain.unpack(prefix)
        cached, crowd = self.index.match(prompt, tokens), self.crowd.along(prompt, tokens)
        return Ask(session, tokens, cached=cached, prefix=prompt.blocks, alone=self.alone, crowd=crowd)

    def place(self, work: WorkAsk) -> Unplaced:
        if not work.prefix:
            return UNPLACED
        try:
            return Placed(work.prefix, work.prompt_tokens, self)
        except ValueError:  # a worker's fault is no reason to refuse
            return UNPLACED

    def has(self, name: str, prompt: Chain, tokens: int) -> None:
        self.index.add(name, prompt, tokens)
        self.calibration.sent(name, tokens)
        self.heat.placed(name, prompt.pack(), tokens)

    def tells(self, name: str, spent: Spent) -> bool:
        """Whether that engine tells what it had cached: once it did it does, but says nothing where it had nothing."""
        if spent.cached is not None:
            self._telling.add(name)
        return name in self._telling

    def untold(self, name: str, expected: int) -> None:
        self._warn(name, self.calibration.untold(name, expected))

    def compare(self, name: str, expected: int, delivered: int, proof: Placed | None) -> None:
        """`proof`: the request whose answer this is, where a miss says that something was forgotten."""
        self.told.expected += expected
        self.told.delivered += delivered
        self._warn(name, self.calibration.compare(name, expected, delivered, self.index.tokens(name)))
        if expected < _TELLING:
            return
        if delivered * _MISSED >= expected:
            self._strikes.pop(name, None)
        elif proof is not None:
            self._strikes[name] = self._strikes.get(name, 0) + 1
            if self._strikes[name] >= _STRIKES:
                self._warn(name, self.calibration.forgot(name, expected, delivered, self.index.tokens(name)))
                self.missed(name)
                self.heat.forgot(name)
                proof.told(name)
                self.on_lost(name)

    def scraped(self, replica: Replica, page: bytes) -> None:
        """The replica's own metrics: did it lose its cache, and how much does that hold?"""
        name, now = replica.name, read_kept(page)
        before = self._engines.get(name)
        if now.asleep or (before is not None and now.newer(before)):
            self.drop(name)
        self._engines[name] = now
        self._warn(name, self.calibration.scraped(name, now))
        if now.tokens is not None:
            self.index.resize(name, now.tokens)

    def left(self, replica: Replica) -> None:
        self._engines.pop(replica.name, None)
        self.drop(replica.name)
        self._telling.discard(replica.name)
        self.calibration.left(replica.name)

    def missed(self, name: str) -> None:
        """Twice in a row it had to compute what it was thought to hold."""
        self.drop(name)

    def drop(self, name: str) -> None:
        """It holds nothing any more; how much it can hold has not changed."""
        self.index.drop(name)
        self._strikes.pop(name, None)
        engine = self._engines.get(name)
        if engine is not None and engine.tokens is not None:
            self.index.resize(name, engine.tokens)

    def _warn(self, name: str, text: str) -> None:
        if text:
            _log.warning("%s/%s: %s", self._model, name, text)


def placing_of(model: str, balance: Balance, tokens: int | None, clock: Callable[[], float] = time.monotonic) -> Placing | None:
    """None where nobody wants to know. `tokens`: the room of a replica that does not tell its own."""
    if not balance.wants_prefix:
        return None
    placing = Placing(model, PrefixIndex() if tokens is None else PrefixIndex(tokens=tokens))
    if balance.wants_crowd:
        placing.crowd = Crowd(clock)
    return placing
