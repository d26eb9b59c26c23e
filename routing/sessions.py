"""What a conversation holds, and what that makes of its next turn.

Rules
- Up at once: a turn that a dearer tier is wanted for goes there.
- Down late: easy turns stay where the conversation is until `turns` of them in a row were answered there, and until what the
  move costs is at most `tokens`. The cost is what the tier has read of the conversation and another one would have to compute;
  nothing once it is so long ago that the tier's engines have dropped it, too.
- A turn that leans on what was said before it ("commit it", "继续") is no easy turn: it stays, and is not counted. Nor is small
  talk, and that takes no conversation up, wherever the line is.
- A turn of a tool loop is part of the ask that it serves, and goes to the model that answers it: for `loop` turns. Then the ask
  is judged once more, with what the conversation holds: who makes turns up would keep the model for ever.
- Nothing kept, nothing lost: `fold` goes through the earlier asks of a body in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

Turned = Literal["same", "kept", "up", "down", "looped"]


class Held(NamedTuple):
    """A conversation before its next turn. `tier` is where it is; empty: nowhere, since there was small talk only.

    `model`: the one that answers the ask, of a request that goes on with one; else empty. `easy`: turns in a row, up to the last
    one, that a cheaper tier was wanted for. `cost`: tokens, see above. `leans`: the newest ask means nothing without the one
    before. `kept`: it was remembered, and not made out from the body. `loops`: turns that its tool loop had so far; `chosen`: its
    model's tier was chosen for the ask's words, and neither forced nor a client's wish.
    """

    tier: str
    model: str = ""
    easy: int = 0
    cost: int = 0
    leans: bool = False
    kept: bool = True
    loops: int = 0
    chosen: bool = False


class Sticky(NamedTuple):
    """When a conversation goes down: after so many easy turns in a row, if the move costs so many tokens at most. `loop`: turns
    of a tool loop that go to the model of the first.
    """

    turns: int = 3
    tokens: int = 4096
    loop: int = 100


class Turn(NamedTuple):
    """Where a turn goes as far as its conversation is concerned, and the easy turns in a row with this one."""

    tier: str
    easy: int
    turned: Turned


def turn(held: Held, wanted: str, tiers: Sequence[str], sticky: Sticky, *, known: bool) -> Turn:
    """`wanted`: the tier for this turn alone; `known`: something is known of it. `tiers` are from cheap to dear."""
    if held.tier not in tiers or wanted not in tiers or wanted == held.tier:
        return Turn(wanted, 0, "same")
    up = tiers.index(wanted) > tiers.index(held.tier)
    if held.leans and not (up and known):
        return Turn(held.tier, held.easy, "kept")
    if up:
        return Turn(wanted, 0, "up")
    if held.easy >= sticky.turns and held.cost <= sticky.tokens:
        return Turn(wanted, 0, "down")
    return Turn(held.tier, held.easy + 1, "kept")


def fold(wants: Sequence[tuple[str, bool]], cost: int, tiers: Sequence[str], sticky: Sticky) -> Held | None:
    """What a conversation holds by its earlier asks, oldest first: the tier wanted for each, and whether anything is known of it.

    `cost`: when the last turn was is not known either, so all that the newest one brings along counts as read already.
    """
    held: Held | None = None
    for wanted, known in wants:
        here = Turn(wanted, 0, "same") if held is None else turn(held, wanted, tiers, sticky, known=known)
        held = Held(here.tier, easy=here.easy, cost=cost, kept=False)
    return held
