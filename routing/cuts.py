"""From what an operator aims at to the score from which a request goes up a tier: the cut, now, for this request.

Rules
- The most specific aim holds: the tenant's own (or its plan's, which is each of its tenants' own), else the route's.
- A tenant with an aim of its own has its own window and its own account on each route: what others send, and what words they
  stuff into it, moves nothing of it, and what it sends moves nothing of theirs. Tenants without one share the route's.
- A window is worth having from CROWD requests on. Until then a tenant is one of the crowd: all of the route that have the same
  aim and are as new; what it was sent by then is in its own account from then on. MOST windows are kept; with
  more tenants at once, the least recently seen is one of the crowd again.
- Each of several workers keeps its own windows and accounts. Their errors add up, so each has a shorter reach, by the root of n:
  in sum the share is kept as by one, but for what follows at once on a shift; the cut of each moves more.
- Where the classifier's policy is another one from here on (`renew`), the windows begin anew, with what is known of that one; the
  accounts go on. What the policy of before has rated and is sent later counts in the account alone.
- No clock, no randomness: the same requests in the same order make the same cuts.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from routing import quality, share
from routing.aims import Aim, Amount, Raw, Scope, T, Told
from routing.quality import Quality
from routing.share import Share

MOST = 8192
CROWD = 16
PRIOR = 64
"""How many requests' weight the prior has."""
EVEN = [(place + 0.5) / PRIOR for place in range(PRIOR)]


@dataclass(frozen=True, slots=True)
class Begin:
    """What is known before the first request. `pairs`: (small, large) as the classifier would rate requests, for `quality`;
    `scores`: the same for `large`; none: those of the pairs, or even ones where there are no pairs. `unrated`: where in the
    scores those stand who have none; None: they are left alone.
    """

    unrated: float | None
    pairs: Sequence[tuple[float, float]] = ()
    scores: Sequence[float] = ()


@dataclass(slots=True)  # made for every request: a frozen one takes three times as long to make
class Expected:
    """A request that is in a scope's account before it was sent."""

    scope: Scope
    told: Told
    amount: Amount
    age: int

    def forgo(self) -> None:
        """It will not be."""
        self.scope.forgo(self.amount)


class Cuts:
    """`routes`: the aim of each. `tenants`: of those that have their own. `workers`: how many of these there are."""

    def __init__(
        self, routes: Mapping[str, Aim], tenants: Mapping[str, Aim], begin: Begin, *, workers: int = 1, most: int = MOST
    ) -> None:
        self._aims = dict(tenants)
        self._age = 0
        self._start(begin)
        self._root = math.sqrt(workers)
        self._routes = {route: self._make(aim) for route, aim in routes.items()}
        self._most = most
        self._crowds: dict[tuple[str, Aim], Scope] = {}
        self._own: OrderedDict[tuple[str, str], Scope | list[Told]] = OrderedDict()

    def renew(self, routes: Mapping[str, Aim], begin: Begin) -> None:
        """Scores mean something else from here on. `routes`: as before, but for the value of a threshold."""
        self._age += 1
        self._start(begin)
        for route, aim in routes.items():
            self._routes[route].renew(self._make(aim))
        made = {aim: self._make(aim) for aim in {*self._aims.values()}}
        for (_, aim), crowd in self._crowds.items():
            crowd.renew(made[aim])
        for (_, tenant), own in self._own.items():
            if isinstance(own, list):
                own[:] = [told._replace(open=False) for told in own]
            else:
                own.renew(made[self._aims[tenant]])

    def scope(self, route: str, tenant: str) -> Scope:
        """The scope whose cut holds for a request. Changes nothing."""
        aim = self._aims.get(tenant)
        if aim is None:
            return self._routes[route]
        own = self._own.get((route, tenant))
        return self._crowd(route, aim) if own is None or isinstance(own, list) else own

    def owner(self, tenant: str) -> str:
        """The tenant, if it has an aim of its own, else nothing."""
        return tenant if tenant in self._aims else ""

    def expect(self, route: str, tenant: str, told: Told) -> Expected:
        """It was decided where a request goes, and it goes there unless it is forgone. Who decides on the next one meanwhile must
        know: with 50 of them on their way, and only those that have arrived in the account, the share would be wrong by a tenth.
        """
        scope, told = self.scope(route, tenant), _sane(told)
        return Expected(scope, told, scope.expect(told), self._age)

    def tell(self, route: str, tenant: str, told: Told, expected: Expected | None = None) -> None:
        """A request was sent: once for each. What is no chance from 0 to 1, whoever said it, is not known."""
        told = _sane(told)
        if expected is not None and expected.age != self._age:
            told = told._replace(open=False)
        aim = self._aims.get(tenant)
        if aim is None:
            self._routes[route].tell(told, expected=expected is not None)
            return
        key, known = (route, tenant), self._own
        own = known.get(key)
        scope = self._crowd(route, aim) if own is None or isinstance(own, list) else own
        scope.tell(told, expected=expected is not None and expected.scope is scope)
        if scope is not own:
            known[key] = self._newer(aim, own if isinstance(own, list) else [], told)
            if len(known) > self._most:
                known.popitem(last=False)
        known.move_to_end(key)

    def _newer(self, aim: Aim, sent: list[Told], told: Told) -> Scope | list[Told]:
        """What is kept of a tenant that is one of the crowd, with one request more."""
        sent.append(told)
        if len(sent) < CROWD:
            return sent
        own = self._make(aim)
        for one in sent:
            own.tell(one)
        return own

    def _crowd(self, route: str, aim: Aim) -> Scope:
        crowd = self._crowds.get((route, aim))
        if crowd is None:
            crowd = self._crowds[route, aim] = self._make(aim)
        return crowd

    def _start(self, begin: Begin) -> None:
        """What windows begin with from here on."""
        self._unrated = begin.unrated
        self._pairs = thinned(begin.pairs)
        self._scores = evenly(sorted(begin.scores)) or [(1.0 + large - small) / 2.0 for small, large in self._pairs] or EVEN

    def _make(self, aim: Aim) -> Scope:
        if aim.kind == "threshold":
            return Raw(aim.value)
        if aim.kind == "quality":
            return Quality(aim, self._pairs, quality.REACH / self._root)
        return Share(aim, self._scores, self._unrated, share.REACH / self._root)


def _sane(told: Told) -> Told:
    sane = _chance(told.score) and (told.small is told.large is None or (_chance(told.small) and _chance(told.large)))
    return told if sane else Told(told.up, told.open, looped=told.looped)


def _chance(value: float | None) -> bool:
    return value is None or 0.0 <= value <= 1.0


def thinned(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most PRIOR of them, evenly over the order of their gain."""
    if len(pairs) <= PRIOR:
        return list(pairs)
    return evenly(sorted(pairs, key=lambda pair: pair[1] - pair[0]))


def evenly(ordered: Sequence[T]) -> list[T]:
    """At most PRIOR of them."""
    if len(ordered) <= PRIOR:
        return list(ordered)
    return [ordered[(2 * place + 1) * len(ordered) // (2 * PRIOR)] for place in range(PRIOR)]
