"""Where this request has the least work before it and brings the least work with it.

    cost = (Q + (a + q/b)·u + c·R) / speed        the least wins; ties at random

    Q   uncached prompt tokens that were sent there and whose first token has not come back: what it waits for (`pending`)
    u   tokens of this prompt that are not cached there: what it waits for as well, and what all others wait for too;
        of what many began with of late only the part that is this one's to pay
    q   the least Q of all: what has to be waited for anywhere
    R   requests in flight there: each slows down every step of the engine, and holds memory
        (both with those of other gateways, as far as they tell)
    speed   of that replica's prefill, beside the others of its pool

- a = 2 counts this prompt's own tokens once for itself and once for those who come after it. The longer the queue that they
  stand in, the more of those there are: b = 8,192 tokens, a step of an engine, adds one. With a replica free that is nothing;
  where all are busy the cache counts for more. c = 105 tokens is what one running request is worth in prefill.
- It is one sum, and no switch: a cache that is worth less than the queue before it is left, for that request alone, and a
  replica that lost its load is not filled beyond the others for being empty.
- A copy of a beginning that many prompts share is computed once, and all that come to it use it. Where h prompts of late had a
  token (`crowd`) and m replicas hold it, one more copy would serve (h + 1)/(m + 1) prompts; so each pays that part of its cost,
  and all of it where that is less than one prompt. A beginning that is much asked for spreads as soon as some replicas have a
  little less to do, the less eagerly the more copies there are; a conversation, which asks for its history once at a time, stays.
- A session, where the client names one, counts at its home (see `rendezvous`) as if a share of the prompt were cached there:
  so its first request goes where the others will, and prompts that the index cannot see into stay together. What is really
  cached elsewhere outweighs it.
- Where other gateways cannot be heard, the prompt's beginning does the same for it, with a smaller share: gateways that know
  nothing of each other still send what begins alike to the same place.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from math import inf

from backends.balance.rendezvous import Rendezvous, point_of
from backends.replica import Replica
from backends.types import Ask


class WorkCost:
    __slots__ = ("_beginning", "_floor", "_own", "_random", "_ranks", "_relief", "_request", "_session")

    wants_waiting = False
    wants_first_byte = False
    wants_pending = True
    wants_prefix = True
    wants_crowd = True

    def __init__(
        self,
        rng: random.Random,
        own: float = 2.0,
        request: float = 105.0,
        relief: float = 8192.0,
        session: float = 0.5,
        floor: float = 0.1,
        beginning: int = 16,
    ) -> None:
        """`own` is a, `relief` b, `request` c; `session` the share of its prompt that a session's home is taken to hold.

        `floor`: that of a prompt's home where gateways do not hear each other, by its first `beginning` blocks.
        """
        self._random = rng.random
        self._own = own
        self._relief = relief
        self._request = request
        self._session = session
        self._floor = floor
        self._beginning = beginning
        self._ranks = Rendezvous()

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:
        least, ties = inf, []
        for at, cost in enumerate(self.costs(replicas, ask)):
            if cost < least:
                least, ties = cost, [replicas[at]]
            elif cost == least:
                ties.append(replicas[at])
        return ties[0] if len(ties) == 1 else ties[int(self._random() * len(ties))]

    def costs(self, replicas: Sequence[Replica], ask: Ask) -> list[float]:
        """Of each, in tokens of prefill."""
        tokens, cached, request = ask.prompt_tokens, ask.cached, self._request
        least = inf
        for replica in replicas:
            waiting = replica.pending + replica.others_pending
            if waiting < least:
                least = waiting
        own = self._own + least / self._relief
        if ask.session is not None:
            cached = self._with_home(replicas, ask, point_of(ask.session), self._session)
        elif ask.alone and ask.prefix:
            point = ask.prefix[min(self._beginning, len(ask.prefix)) - 1]
            cached = self._with_home(replicas, ask, point, self._floor)
        missing: Sequence[float] | None = None
        if ask.crowd:
            missing = _shared_out(tokens, [cached.get(replica.name, 0) for replica in replicas], ask.crowd)
        elif cached:
            missing = [tokens - cached.get(replica.name, 0) for replica in replicas]
        costs: list[float] = []
        work = own * tokens
        for replica in replicas:
            if missing is not None:
                work = own * missing[len(costs)]
            waiting, running = replica.pending + replica.others_pending, replica.inflight + replica.others_inflight
            costs.append((waiting + work + request * running) / replica.speed)
        return costs

    def _with_home(self, replicas: Sequence[Replica], ask: Ask, point: int, share: float) -> dict[str, int]:
        home = self._ranks.home(replicas, point)
        cached = dict(ask.cached)
        if home is not None:
            cached[home.name] = max(cached.get(home.name, 0), int(share * ask.prompt_tokens))
        return cached


def _shared_out(tokens: int, held: Sequence[int], crowd: Sequence[tuple[int, float]]) -> list[float]:
    """What each lacks of so many tokens, where a copy's cost is divided among those who would use it. `crowd`: see `Ask`."""
    order, replicas = sorted(held), len(held)
    reached, cost, upto = 0, 0.0, {0: 0.0}
    stretches = iter((*crowd, (tokens, 0.0)))
    end, came = next(stretches)
    for mark in sorted({*held, *(end for end, _ in crowd), tokens}):
        while end < mark:
            end, came = next(stretches)
        holders = replicas - bisect_left(order, mark)
        cost += (mark - reached) * min(1.0, (holders + 1) / (came + 1))
        reached = mark
        upto[mark] = cost
    return [cost - upto[has] for has in held]
