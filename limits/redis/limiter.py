"""The limiter whose balances are on a server that several gateways share.

Rules of this file
1. One round trip to admit and one to reserve. Refunds, settlements and releases do not wait: they are said, in order, behind
   what was asked, and count once (see `limits.redis.scripts`).
2. What was asked and not answered in time, or not waited for to the end, is given back behind it.
3. What was debited in one place is given back there: on the server, in this node's share, or nowhere.
4. Nothing that a server does shows but as a decision that is made without it.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

from limits import bucket
from limits.redis.admission import AdoptedRedisAdmission, RedisAdmission
from limits.redis.budgets import TODAY, UNHEARD
from limits.redis.held import Held
from limits.redis.line import Away, Line
from limits.redis.names import Known, Names
from limits.redis.place import Place
from limits.redis.scripts import ACCOUNT, ADMIT, LARGEST
from limits.redis.share import Share
from limits.redis.spending import SIZE, Spending
from limits.redis.words import Said, Words
from limits.types import Budgeted, LastingLimiter, LimitExceeded, LimitsAway, LimitsState, Scope, Standing
from limits.vault import Vault

_MARK = b"limits node"
_account = struct.Struct(ACCOUNT)
_ONE, _TWO = struct.Struct(">q"), struct.Struct(">2q")


class RedisLimiter(LastingLimiter):
    """`on_outage`: who decides while the server is away: `local`, `open` or `closed`. `instances`: how many nodes share it, at
    least. `vault`: what a successor of this process finds its name in. `moment`: the time that the server is to go by, in whole
    microseconds, for tests; else its own.
    """

    def __init__(
        self,
        url: str,
        *,
        on_outage: str = "local",
        instances: int = 1,
        deadline: float = 0.05,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        vault: Vault | None = None,
        rng: random.Random | None = None,
        moment: Callable[[], int] | None = None,
    ) -> None:
        rng = rng or random.SystemRandom()
        self.decided_alone = 0
        self._on_outage = on_outage
        self._clock = clock
        self._vault = vault
        self._predecessor = 0 if vault is None else vault.mark(_MARK)
        number = rng.getrandbits(63) | 1
        if vault is not None:
            vault.set_mark(_MARK, number)
        self._node = number.to_bytes(8, "big")
        self._words = Words(self._node, moment)
        self._numbers = count(1)
        self._names = Names()
        self._share = Share()
        self._alone: dict[bytes, Sequence[Known]] = {}  # slots that are held in the share, by lease
        self.line = Line(url, deadline=deadline, rng=rng, changed=self._changed)
        self._spending = Spending(self.line, self._words, wall)
        self.held = Held(self.line, self._words, rng, instances)
        self._beating: asyncio.Task[None] | None = None
        self._begun = False  # the share has begun for this outage

    # -- the protocol

    async def start(self) -> None:
        await self.line.start()
        with suppress(Away):
            await self.held.beat(self._gone)
        self._beating = asyncio.get_running_loop().create_task(self.held.run(self._gone))

    async def close(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        self.held.leave()
        await self.line.close()

    def admit(self, scopes: Sequence[Scope]) -> RedisAdmission:
        return RedisAdmission(self, scopes)

    def adopt(self, scopes: Sequence[Scope], *, refunded: bool = False) -> AdoptedRedisAdmission:
        return AdoptedRedisAdmission(self, scopes, refunded=refunded)

    def commit(self) -> None:
        """Balances last anyway; what else is in the vault is in force."""
        if self._vault is not None:
            self._vault.commit(self.now())

    async def refresh(self, scopes: Sequence[Scope]) -> None:
        """A reservation of nothing, which is taken back: the answer says where all stand."""
        known = self.names(scopes)
        if not known or not self.line.up:
            return
        lease = self.new_id()
        script, words = self._words.reserve(b"", lease, known, None, 0, 0, clamp=False, least=0, budgeted=())
        size = _TWO.size + len(known) * _account.size
        with suppress(Away):
            self._learn(known, await self.line.ask(script, words, size, lambda: self._nothing(lease, known)), _TWO)
            for said in self._nothing(lease, known):
                self.line.say(*said)

    def foresee(
        self, scopes: Sequence[Scope], model_scope: Scope | None, tokens: int | None, *, clamp: bool, least: int
    ) -> LimitExceeded | None:
        known, now = self.names(scopes), self.now()
        model = None if model_scope is None else self.names((model_scope,))[0]
        everyone = known if model is None else [*known, model]
        budgeted = _budgeted(everyone)
        if self.line.up:
            for one in everyone:
                one.account.advance(now)
            fit = partial(self._spending.fit, budgeted, clamp=clamp, least=least)
            return bucket.foreseen(
                [one.account for one in known], None if model is None else model.account, tokens, fit, clamp=clamp
            )
        if everyone and self._on_outage == "closed":
            raise LimitsAway
        if self._on_outage == "open":
            return None
        share, fit = self._locally(), partial(self._spending.fit_part, budgeted, clamp=clamp, least=least)
        return share.foresee(known, model, tokens, fit, clamp=clamp, now=now)

    def parallel(self, scope: Scope) -> int:
        """As of the last answer; while the server is away, of those of this node."""
        known = self.names((scope,))[0]
        return self._locally().parallel(known) if not self.line.up and self._on_outage == "local" else known.account.parallel

    def crowded(self, scopes: Sequence[Scope]) -> bool:
        """As of the last answer."""
        known = self.names(scopes)
        return any(one.slots and one.account.parallel * 4 >= one.account.max_parallel * 3 for one in known)

    def standing(self, scopes: Sequence[Scope]) -> Standing:
        return self.standing_of(self.names(scopes))

    kept = ""

    def budgets(self, scopes: Sequence[Scope]) -> list[Budgeted]:
        return self._spending.standing(_budgeted(self.names(scopes)))

    async def ask_budgets(self, scopes: Sequence[Scope]) -> list[Budgeted]:
        return await self._spending.ask(_budgeted(self.names(scopes)))

    async def set_back_budgets(self, scopes: Sequence[Scope]) -> None:
        await self._spending.set_back(_budgeted(self.names(scopes)))

    @property
    def state(self) -> LimitsState:
        up = self.line.up
        return LimitsState("redis", "" if up else self.line.reason, "" if up else self._on_outage)

    # -- for what is handed out

    def now(self) -> int:
        return int(self._clock() * 1e6)

    def names(self, scopes: Iterable[Scope]) -> list[Known]:
        return self._names.of(scopes, self.now())

    def new_id(self) -> bytes:
        return self._node + next(self._numbers).to_bytes(8, "big")

    def standing_of(self, scopes: Sequence[Known]) -> Standing:
        now = self.now()
        if not self.line.up and self._on_outage == "local":
            return self._locally().standing(scopes, now)
        accounts = [known.account for known in scopes]
        for account in accounts:
            account.advance(now)
        return bucket.standing(accounts)

    async def debit_request(self, lease: bytes, scopes: Sequence[Known]) -> Place:
        """Step 1. Where it was debited. Raises LimitExceeded and LimitsAway."""
        if not scopes:
            return Place.NOWHERE
        if self.line.up:
            words, size = self._words.admit(lease, scopes), _ONE.size + len(scopes) * _account.size
            with suppress(Away):
                answer = await self.line.ask(ADMIT, words, size, lambda: self._undo_admit(lease, scopes))
                self._admitted(answer, scopes)
                self.held.add(lease, scopes, told=True)
                return Place.SERVER
        place = self._instead()
        if place is Place.HERE:
            self._share.admit(scopes, self.now())
            self._alone[lease] = scopes
        self.held.add(lease, scopes, told=False)
        return place

    async def debit_tokens(
        self,
        ids: tuple[bytes, bytes],
        scopes: Sequence[Known],
        model: Known | None,
        requests: int,
        tokens: int,
        *,
        clamp: bool,
        least: int,
    ) -> tuple[Place, int, int]:
        """Step 2, of an admission and a reservation. Where it was debited, how much, and of which day's budgets.

        Raises LimitExceeded and LimitsAway.
        """
        if model is not None and model in scopes:
            raise ValueError(f"scope {model.scope.id!r} is charged by the admission already")
        everyone = [*scopes] if model is None else [*scopes, model]
        tokens, budgeted = min(max(tokens, 0), LARGEST), _budgeted(everyone)
        plain = not budgeted and not requests and model is None
        if not everyone or (plain and all(known.scope.tpm is None for known in everyone)):
            return Place.NOWHERE, tokens, 0
        admission, lease = ids
        if self.line.up:
            script, words = self._words.reserve(
                admission, lease, everyone, model, requests, tokens, clamp=clamp, least=least, budgeted=budgeted
            )
            size, most = _TWO.size + len(everyone) * _account.size + len(budgeted) * SIZE, tokens
            if clamp:
                most = bucket.clamped(tokens, [known.account for known in everyone])
            with suppress(Away):
                answer = await self.line.ask(script, words, size, lambda: self._undo_reserve(ids, scopes, model, requests, most))
                fits = _TWO.unpack_from(answer)[0] == 1
                day = self._spending.decided(budgeted, answer, tokens, fits=fits, clamp=clamp, least=least)
                taken = self._reserved(answer, scopes, model, requests)
                if model is not None:
                    self.held.add(lease, [model], told=True)
                return Place.SERVER, taken, day
        place, day = self._instead(), 0
        if place is Place.HERE:
            tokens, parts = self._spending.parts.fit(budgeted, tokens, clamp=clamp, least=least)
            tokens = self._share.reserve(scopes, model, requests, tokens, clamp=clamp, now=self.now())
            for part in parts:
                day = part.day
                part.add(tokens, day)
            self._spending.tell_parts()
            if model is not None:
                self._alone[lease] = [model]
        if model is not None:
            self.held.add(lease, [model], told=False)
        return place, tokens, day

    def correct(
        self,
        place: Place,
        name: bytes,
        scopes: Sequence[tuple[Known, int]],
        more: int,
        day: int = 0,
        of_budgets: tuple[int, int] | None = None,
    ) -> None:
        """Give requests back, so many of each scope, and charge so many tokens more, or less than none; also to that day's
        budgets. `of_budgets`: so many more there, and so many used for good, if these are other numbers.
        """
        now, (budgeted, settled) = self.now(), of_budgets or (more, more)
        if place is Place.HERE:
            self._share.correct([known for known, _ in scopes], more, now)
            self._share.refund([known for known, requests in scopes if requests])
            if day:
                self._spending.correct_parts([known for known, _ in scopes], day, budgeted)
        elif place is Place.SERVER and scopes:
            corrections = [(known, requests, more, False) for known, requests in scopes]
            self.line.say(*self._words.correct(name, b"", corrections, day, budgeted, settled))
            for known, requests in scopes:
                _follow(known.account, requests, more, now)
                if day:
                    known.used.add(budgeted, known.used.day if day == TODAY else day)

    def release(self, lease: bytes, scopes: Sequence[Known], name: bytes = b"") -> None:
        """One slot of each. `name`: a debit that needs no correction any more."""
        limited = self.held.drop(lease)
        alone = self._alone.pop(lease, None)
        if alone is not None:
            self._share.release(alone)
        if limited or (name and scopes):
            self.line.say(*self._words.correct(name, lease, [(known, 0, 0, True) for known in limited or scopes]))
            for known in limited:
                known.account.parallel = max(0, known.account.parallel - 1)

    def take_over(self, name: bytes, lease: bytes, scopes: Sequence[Known], slots: Sequence[Known]) -> None:
        """What a predecessor of this process had debited of `scopes` and holds of `slots`. Its own leases there end with this."""
        if not scopes:
            return
        limited = [known for known in slots if known.slots]
        self.line.say(*self._words.adopt(name, lease, scopes[0], limited, self._gone))
        for known in limited:
            known.account.parallel += 1
        self.held.add(lease, limited, told=True)
        self._begun = False

    # -- inside

    @property
    def _gone(self) -> bytes:
        return self._predecessor.to_bytes(8, "big") if self._predecessor else b""

    def _changed(self) -> None:
        self._begun = False
        if self.line.up:
            self.held.renew()
            self._spending.tell_parts()

    def _instead(self) -> Place:
        """Who decides while the server is away."""
        if self._on_outage == "closed":
            raise LimitsAway
        self.decided_alone += 1
        if self._on_outage == "open":
            return Place.NOWHERE
        self._locally()
        return Place.HERE

    def _locally(self) -> Share:
        """The share, warm, and with the slots that this node holds. An outage may last for one call."""
        if not self._begun:
            self._begun = not self.line.up
            self._share.nodes = self.held.nodes
            self._share.begin()
            self._spending.parts.begin(self.held.nodes)
            now = self.now()
            for lease, scopes in self.held.items():
                if lease not in self._alone:
                    self._share.hold(scopes, now)
                    self._alone[lease] = scopes
        return self._share

    def _undo_admit(self, lease: bytes, scopes: Sequence[Known]) -> list[Said]:
        return [self._words.correct(b"q" + lease, lease, [(known, 1, 0, True) for known in scopes])]

    def _nothing(self, lease: bytes, scopes: Sequence[Known]) -> list[Said]:
        return [self._words.correct(b"t" + lease, b"", [(known, 0, 0, False) for known in scopes])]

    def _undo_reserve(
        self, ids: tuple[bytes, bytes], scopes: Sequence[Known], model: Known | None, requests: int, tokens: int
    ) -> list[Said]:
        admission, lease = ids
        back = [(known, 0, -tokens, False) for known in scopes]
        back += [] if model is None else [(model, 1, -tokens, True)]
        undo = [self._words.correct(b"t" + lease, lease, back, UNHEARD, -tokens)]
        if requests:
            undo.append(self._words.correct(b"q" + admission, b"", [(known, 1, 0, False) for known in scopes]))
        return undo

    def _admitted(self, answer: bytes, scopes: Sequence[Known]) -> None:
        (fits,) = self._learn(scopes, answer, _ONE)
        if not fits:
            raise _refusal([known.account.refusal(1, None, 1) for known in scopes], scopes)

    def _reserved(self, answer: bytes, scopes: Sequence[Known], model: Known | None, requests: int) -> int:
        """A refusal is told by the balances before the admission's request was given back, as it was decided."""
        everyone = [*scopes] if model is None else [*scopes, model]
        fits, tokens = self._learn(everyone, answer, _TWO)
        if fits == 1:
            return tokens
        found = [known.account.refusal(requests, tokens, 0) for known in scopes]
        if model is not None:
            found.append(model.account.refusal(1, tokens, 1))
        raise _refusal(found, everyone)

    def _learn(self, scopes: Sequence[Known], answer: bytes, head: struct.Struct) -> tuple[int, ...]:
        """What an answer says of its scopes. Returns its head."""
        now, at = self.now(), head.size
        for known in scopes:
            known.learn(now, _account.unpack_from(answer, at))
            at += _account.size
        return head.unpack_from(answer)


def _refusal(found: Iterable[LimitExceeded | None], scopes: Sequence[Known]) -> LimitExceeded:
    """The reason; where another node goes by other limits, it may be one that ours do not have."""
    refused = bucket.longest([one for one in found if one is not None])
    return refused or LimitExceeded(scopes[0].scope, "requests", limit=0, used=0, requested=1, wait=bucket.SLOT_HINT)


def _budgeted(scopes: Iterable[Known]) -> list[Known]:
    return [known for known in scopes if known.budgeted]


def _follow(account: bucket.Account, requests: int, more: int, now: int) -> None:
    """What the server was told, so that what is told of it is true before the next answer."""
    if requests:
        account.give_request()
    if more > 0:
        account.advance(now)
        account.take(0, more, 0)
    elif more < 0:
        account.give_tokens(-more)
