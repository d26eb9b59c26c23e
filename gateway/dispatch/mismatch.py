"""Whether what replicas were thought to have cached was there, and if not, what the likely cause is.

Rules of this file
1. Per replica and over a window: sums of expected and delivered tokens are halved when they are large, so old faults fade.
2. Each kind of mismatch is told once for a pool; what the command line of one engine decides, once for each engine. What is told
   are names and sums.
3. The cause is guessed from what else is known of the engine, the surest sign first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from backends.kept import Kept

_ENOUGH = 100_000  # expected tokens of a replica from which on its share means something
_SILENT = 20_000  # expected tokens, none of which an engine has said a word of
_SHORT = 0.6  # of what was expected, less than this was there
_OTHERS = 2.0  # prompt tokens that an engine counts for each that was sent to it from here
_FULL = 0.7  # of its room is thought to be used

OFF = "the engine keeps no prefixes (enable_prefix_caching is off): nothing will be found again"
UNTOLD = "the engine does not tell what it had cached: start it with --enable-prompt-tokens-details, or nothing can be compared"
NOTHING = (
    "the engine finds nothing again. Does its chat template begin every prompt with something new, such as the time? Does a "
    "proxy in between change prompts, or set a cache_salt?"
)
OTHERS = "the engine has other clients, which use its cache as well"
ROOM = "its cache is smaller than it says, or than balance.cache_tokens"
RESET = "its cache was reset, or several engines have its address"
OTHER_WORDS = (
    "prompts reach it otherwise than the gateway reads them: a chat template that leaves out past messages, or several engines "
    "behind its address"
)


@dataclass(slots=True)
class _Engine:
    expected: float = 0.0
    delivered: float = 0.0
    silent: int = 0  # expected of it while it had never said what it had cached
    sent: int = 0  # prompt tokens, since the first look at its counter
    counted: float | None = None  # its counter then
    kept: Kept = field(default_factory=Kept)

    @property
    def others(self) -> bool:
        """Far more was asked of it than was sent from here."""
        if self.kept.counted is None or self.counted is None:
            return False
        return self.kept.counted - self.counted > _OTHERS * self.sent + _SILENT

    @property
    def finds_nothing(self) -> bool | None:
        """None: it does not say."""
        return None if self.kept.hits is None or not self.kept.queries else not self.kept.hits


class Calibration:
    """One pool's. What is returned is to be logged: a sentence without a full stop, or nothing."""

    def __init__(self) -> None:
        self._engines: dict[str, _Engine] = {}
        self._told: set[str] = set()

    def sent(self, name: str, tokens: int) -> None:
        engine = self._engines.get(name) or self._of(name)
        engine.sent += tokens

    def untold(self, name: str, expected: int) -> str:
        """An answer that did not say what was cached, by an engine that never did."""
        engine = self._of(name)
        engine.silent += expected
        if engine.silent < _SILENT:
            return ""
        return self._once(NOTHING) if engine.finds_nothing else self._once(f"{name}: {UNTOLD}", UNTOLD)

    def compare(self, name: str, expected: int, delivered: int, used: int) -> str:
        """`used`: tokens that it is thought to hold now."""
        engine = self._of(name)
        engine.expected += expected
        engine.delivered += delivered
        if engine.expected < _ENOUGH:
            return ""
        short = engine.delivered < _SHORT * engine.expected
        cause = self._cause(engine, used, reset=False) if short else ""
        sums = f"of {engine.expected:.0f} prompt tokens that were thought to be cached there {engine.delivered:.0f} were"
        engine.expected /= 2
        engine.delivered /= 2
        return cause and self._once("short", f"{sums}: {cause}")

    def forgot(self, name: str, expected: int, delivered: int, used: int) -> str:
        """It had next to nothing of what was expected, several times in a row."""
        engine = self._of(name)
        engine.expected = engine.delivered = 0.0
        sums = f"of {expected} prompt tokens that were thought to be cached there {delivered} were, the second time in a row"
        return self._once("forgot", f"{sums}: {self._cause(engine, used, reset=True)}")

    def scraped(self, name: str, kept: Kept) -> str:
        engine = self._of(name)
        if engine.counted is None or kept.newer(engine.kept):
            engine.counted, engine.sent = kept.counted, 0
        engine.kept = kept
        return self._once(f"{name}: {OFF}", OFF) if kept.tokens == 0 else ""

    def left(self, name: str) -> None:
        self._engines.pop(name, None)
        self._told -= {f"{name}: {UNTOLD}", f"{name}: {OFF}"}

    def _cause(self, engine: _Engine, used: int, *, reset: bool) -> str:
        room = engine.kept.tokens
        if engine.finds_nothing:
            return NOTHING
        if engine.others:
            return OTHERS
        if room and used > _FULL * room:
            return ROOM
        return RESET if reset else OTHER_WORDS

    def _once(self, kind: str, text: str = "") -> str:
        if kind in self._told:
            return ""
        self._told.add(kind)
        return text or kind

    def _of(self, name: str) -> _Engine:
        engine = self._engines.get(name)
        if engine is None:
            engine = self._engines[name] = _Engine()
        return engine
