"""What a request costs its tenant, for every way that it can end. One table, one function.

how it ended                                         charge in tokens
---------------------------------------------------  -----------------------------------------------
refused, queued, or never sent to a replica          0
failed upstream before any byte                      0
its slot was taken back, before any byte             0
complete, with usage                                 the usage
complete stream without usage                        prompt estimate + deltas counted
complete answer (not streamed) without usage         the reservation: what was generated is unknown
stream cut, timed out or left after its first byte   the usage if it came, else prompt estimate + deltas
client left a stream before its first token          prompt estimate: the prefill was done
client left an unstreamed request in a replica       the reservation: what was generated is unknown
its own deadline ended what a replica had            as if it had left
error answer of the backend (400, 413, 422 …)        0
tokenize, detokenize, count_tokens                   0, whatever the answer says
"""

from __future__ import annotations

import enum

from limits.waiting import Spent


class Ending(enum.Enum):
    """How the part of a request that a replica saw came to its end."""

    NOT_SENT = "not_sent"
    FAILED = "failed"  # before any byte of an answer
    PREEMPTED = "preempted"  # its slot was taken back, before any byte of an answer
    REFUSED = "refused"  # the backend answered with an error
    COMPLETE = "complete"
    CUT = "cut"  # after the first byte: broken, timed out, or the client left
    LEFT = "left"  # the client left before the first byte


_COMPLETE = Ending.COMPLETE  # an enum member costs a look-up in its class each time
_NOTHING = (Ending.NOT_SENT, Ending.FAILED, Ending.PREEMPTED, Ending.REFUSED)


def charge(ending: Ending, *, stream: bool, usage: int | None, prompt_estimate: int, deltas: int, reserved: int) -> int:
    """Tokens to settle. `usage` is prompt + completion as the backend counted them, None when it did not."""
    if ending is not _COMPLETE and ending in _NOTHING:
        return 0
    if usage is not None:
        return usage
    if not stream:
        return reserved
    return prompt_estimate + deltas


def spent(
    ending: Ending,
    *,
    stream: bool,
    counted: bool,
    prompt: int,
    cached: int | None,
    output: int,
    prompt_estimate: int,
    deltas: int,
) -> Spent | None:
    """What the fleet did for it, for the queue's fairness; None where nobody knows.

    `prompt`, `cached` and `output` are as the backend counted them, if it did (`counted`).
    """
    whole = ending is _COMPLETE
    if not whole and ending in _NOTHING:
        return Spent(0, 0, whole=False)
    if counted:
        return Spent(max(0, prompt - cached) if cached else prompt, output, whole, cached)
    return Spent(prompt_estimate, deltas, whole) if stream else None
