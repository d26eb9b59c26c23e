"""Whether a router has stopped choosing: of what was open to it, all went to one model.

Counted in blocks of BLOCK choices. A block with one model in it is one-sided, and so is the router from then on, until in some
block CLEAR of them went elsewhere: one stray choice does not make a broken router a sound one.
"""

from __future__ import annotations

from operator import itemgetter

BLOCK = 500
CLEAR = 10


class OneSided:
    """`model`: the one that got everything; empty while choices are made."""

    __slots__ = ("_block", "_count", "blocks", "model")

    def __init__(self) -> None:
        self._block: dict[str, int] = {}
        self._count = 0
        self.model = ""
        self.blocks = 0

    def saw(self, model: str) -> bool:
        """A choice that was open. True when a block is full and `model` is not what it was."""
        block = self._block
        block[model] = block.get(model, 0) + 1
        self._count += 1
        if self._count < BLOCK:
            return False
        most, count = max(block.items(), key=itemgetter(1))
        self._block, self._count = {}, 0
        before = self.model
        if count == BLOCK:
            self.model = most
            self.blocks += 1
        elif count <= BLOCK - CLEAR:
            self.model = ""
        return self.model != before
