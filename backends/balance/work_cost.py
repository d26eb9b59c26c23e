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
from collections import ChainMap, Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from math import inf
from typing import cast

from backends.balance.rendezvous import Rendezvous, point_of
from backends.order import May, Order
from backends.replica import Replica
from backends.types import Ask

_HOLDERS = 16  # of a prompt's beginning that are looked at, in a large pool


class WorkCost:
    __slots__ = ("_beginning", "_floor", "_own", "_random", "_ranks", "_relief", "_request", "_session")

    wants_waiting = False
    wants_first_byte = False
    wants_pending = True
    wants_prefix = True
    wants_crowd = True
    wants_order = True

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
        return self._least(replicas, self.costs(replicas, ask))

    def pick(self, order: Order, ask: Ask, passed: Collection[Replica], may: May) -> Replica | None:
        """The least of all costs, by a look at few: those that hold most of the prompt, its home, and for all others the one that
        has the least to do. None of the others costs less than that one, for it holds nothing, or has no less to do.

        What `choose` finds may cost less in two cases. Where more than `_HOLDERS` hold some of the prompt: one that holds less
        than those, and has not the least to do. Where speeds differ, by an eighth at most.
        """
        cached = ask.cached
        found = [
            one for name in islice(cached, _HOLDERS) if (one := order.by_name.get(name)) is not None and one in order and may(one)
        ]
        home, share = None, self._home_share(ask)
        if share:
            home = order.home(self._ranks, self._point(ask), may)
            if home is not None:
                cached = _with_home(home, share, ask)
                found.append(home)
        found += order.heads(may, self._random)
        if not found:
            return None
        if len(found) == 1:
            return found[0]
        found = list(dict.fromkeys(found))
        held: dict[int, int] = {}
        if ask.crowd:
            held = _how_many(cached, ask, home, order, may)
        return self._least(found, self._costs(found, ask, order.least_waiting(passed), cached, held))

    def load(self, replica: Replica) -> float:
        """What it costs whatever is asked, at the usual speed."""
        return replica.pending + replica.others_pending + self._request * (replica.inflight + replica.others_inflight)

    def costs(self, replicas: Sequence[Replica], ask: Ask) -> list[float]:
        """Of each, in tokens of prefill."""
        least = inf
        for replica in replicas:
            waiting = replica.pending + replica.others_pending
            if waiting < least:
                least = waiting
        cached, share = ask.cached, self._home_share(ask)
        if share:
            home = self._ranks.home(replicas, self._point(ask))
            if home is not None:
                cached = _with_home(home, share, ask)
        held: dict[int, int] = {}
        if ask.crowd:
            for replica in replicas:
                has = cached.get(replica.name, 0)
                held[has] = held.get(has, 0) + 1
        return self._costs(replicas, ask, least, cached, held)

    def _costs(
        self, replicas: Sequence[Replica], ask: Ask, least: float, cached: Mapping[str, int], held: Mapping[int, int]
    ) -> list[float]:
        """`held`: how many of the whole pool hold so many tokens, where a crowd shares them."""
        tokens, request = ask.prompt_tokens, self._request
        own = self._own + least / self._relief
        missing: Sequence[float] | None = None
        if ask.crowd:
            lacks = _shared_out(tokens, held, ask.crowd)
            missing = [lacks[cached.get(replica.name, 0)] for replica in replicas]
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

    def _least(self, replicas: Sequence[Replica], costs: Sequence[float]) -> Replica:
        least, ties = inf, []
        for at, cost in enumerate(costs):
            if cost < least:
                least, ties = cost, [replicas[at]]
            elif cost == least:
                ties.append(replicas[at])
        return ties[0] if len(ties) == 1 else ties[int(self._random() * len(ties))]

    def _home_share(self, ask: Ask) -> float:
        """What of the prompt its home is taken to hold; 0 where it has none."""
        if ask.session is not None:
            return self._session
        return self._floor if ask.alone and ask.prefix else 0.0

    def _point(self, ask: Ask) -> int:
        if ask.session is not None:
            return point_of(ask.session)
        return ask.prefix[min(self._beginning, len(ask.prefix)) - 1]


def _with_home(home: Replica, share: float, ask: Ask) -> Mapping[str, int]:
    known, taken = ask.cached.get(home.name, 0), int(share * ask.prompt_tokens)
    return ask.cached if known >= taken else ChainMap({home.name: taken}, cast("dict[str, int]", ask.cached))


def _how_many(cached: Mapping[str, int], ask: Ask, home: Replica | None, order: Order, may: May) -> dict[int, int]:
    """Of the pool, who hold so many tokens. Counted by whoever found them, where they are many: also those that are full."""
    if not ask.holders:
        there = [name for name in cached if (one := order.by_name.get(name)) is not None and one in order and may(one)]
        counts = Counter(map(cached.__getitem__, there))
    else:
        counts = Counter(dict(ask.holders))
        if home is not None:
            counts[cached.get(home.name, 0)] += 1
            counts[ask.cached.get(home.name, 0)] -= 1
    counts[0] += 0
    return counts


def _shared_out(tokens: int, held: Mapping[int, int], crowd: Sequence[tuple[int, float]]) -> dict[int, float]:
    """What those lack who hold so much of so many tokens, where a copy's cost is divided among those who would use it.

    `held`: how many hold just as much. `crowd`: see `Ask`.
    """
    order, holders = sorted(held), sum(held.values())
    passed = 0
    reached, cost, upto = 0, 0.0, {0: 0.0}
    stretches = iter((*crowd, (tokens, 0.0)))
    end, came = next(stretches)
    for mark in sorted({*held, *(end for end, _ in crowd), tokens}):
        while end < mark:
            end, came = next(stretches)
        while passed < len(order) and order[passed] < mark:
            holders -= held[order[passed]]
            passed += 1
        cost += (mark - reached) * min(1.0, (holders + 1) / (came + 1))
        reached = mark
        upto[mark] = cost
    return {has: cost - upto[has] for has in held}
