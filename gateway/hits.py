"""What an answer costs that no model made for the request that gets it: one request and no tokens, or as `limits.hits` says.

the answer                                            in requests           in tokens
----------------------------------------------------  --------------------  ------------------------------------------
kept, of an equal request or one that means the same  one (`requests`)      what it took to make (`tokens`), else none
shared with an identical request in flight            one (`requests`)      what that one is charged (`tokens`), else none
the same, left before its end                         one                   none

A hit is never refused for tokens: what it is charged may make a debt. A limit on one model is not touched, for the model did
nothing. A request that is given back is still needed to be let in.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.exchange import Exchange
from gateway.job import Job


@dataclass(frozen=True, slots=True)
class Hits:
    requests: bool = True
    tokens: bool = False

    def charge(self, x: Exchange, job: Job, tokens: int) -> None:
        """`tokens`: prompt and output of the answer, when it was made."""
        x.hit_tokens = tokens if self.tokens else 0
        if x.hit_tokens or not self.requests:
            job.admitted.conclude(x.hit_tokens, refund=not self.requests)
