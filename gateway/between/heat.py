"""What a pool's placing has to tell other gateways; nothing, where there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.between.words import ANSWERED, FORGOT, PLACED, Event


class NoHeat:
    """Nobody is to hear of it. Replicas are named."""

    __slots__ = ()

    def placed(self, name: str, prompt: bytes, tokens: int) -> None:
        """The prompt, as `caches.chain` packs it, was sent there."""

    def answered(self, name: str, end: int, tokens: int) -> None:
        """So much was answered to the prompt that ends with this digest."""

    def forgot(self, name: str) -> None:
        """It holds nothing, which nobody else can know."""


NO_HEAT = NoHeat()


class Heat(NoHeat):
    """`engines`: by name."""

    __slots__ = ("_engines", "_say")

    def __init__(self, engines: Mapping[str, int], say: Callable[[Event], None]) -> None:
        self._engines = engines
        self._say = say

    def placed(self, name: str, prompt: bytes, tokens: int) -> None:
        engine = self._engines.get(name)
        if engine is not None:
            self._say(Event(PLACED, engine, tokens, prompt))

    def answered(self, name: str, end: int, tokens: int) -> None:
        engine = self._engines.get(name)
        if engine is not None and end and tokens > 0:
            self._say(Event(ANSWERED, engine, tokens, end.to_bytes(8)))

    def forgot(self, name: str) -> None:
        engine = self._engines.get(name)
        if engine is not None:
            self._say(Event(FORGOT, engine))
