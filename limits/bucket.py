"""What one scope has spent: two token buckets, requests and tokens, and a count of parallel slots.

Rules of this file
- The burst is so many seconds of the limit, in whole requests and tokens and one at least, and refill is continuous.
- Integers only. Time is whole microseconds, and one request or token is `UNIT`: what a limit of one a minute refills
  in UNIT microseconds. So a limit of L refills L a microsecond, and nothing is ever rounded in a balance.
- What is kept is what was *spent*, not what is left: a scope that spent nothing is like one that was never seen,
  and may be forgotten.
- Spending may pass the burst (a debt); giving back stops at nothing spent.
- An unlimited resource costs nothing: unit, rate and burst are all 0, so that it always fits, without a branch.

A refund returns what was debited, whatever refilled meanwhile. So from any moment at which the bucket was full, all
that was really used stays within burst + rate x time; within a shorter span, a tenant who reserved much more than it
used can spend again what it got back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

from limits.types import BURST, LimitExceeded, Resource, Scope, Standing, at_once

UNIT = 60_000_000
LARGEST = 1 << 40
"""No request uses more tokens than this. A larger number is cut to it, so that arithmetic and messages stay small."""
SLOT_HINT = 1.0
"""Seconds to wait for a parallel slot: nobody knows when one comes free."""


class Account:
    """The spending of one scope, true at `at` microseconds; `advance` brings it up to now."""

    __slots__ = (
        "at",
        "key",
        "max_parallel",
        "most_requests",
        "most_tokens",
        "parallel",
        "request_burst",
        "request_rate",
        "request_unit",
        "requests",
        "scope",
        "token_burst",
        "token_rate",
        "token_unit",
        "tokens",
    )

    def __init__(self, scope: Scope, now: int) -> None:
        self.at = now
        self.requests = 0
        self.tokens = 0
        self.parallel = 0
        self.key = b""  # its name in a vault, where there is one
        self._limit(scope)

    def _limit(self, scope: Scope) -> None:
        self.scope = scope
        self.request_rate, self.request_unit, self.request_burst = _terms(scope.rpm, scope.burst)
        self.token_rate, self.token_unit, self.token_burst = _terms(scope.tpm, scope.burst)
        self.most_requests, self.most_tokens = self.request_burst // UNIT, self.token_burst // UNIT  # whole ones
        self.max_parallel = sys.maxsize if scope.max_parallel is None else scope.max_parallel

    def adopt(self, scope: Scope, now: int) -> None:
        """Go on under other limits. Spending stays, but a lower limit makes no debt of what was none."""
        self.advance(now)
        request_debt = max(0, self.requests - self.request_burst)
        token_debt = max(0, self.tokens - self.token_burst)
        self._limit(scope)
        self.requests = min(self.requests, self.request_burst + request_debt) if self.request_unit else 0
        self.tokens = min(self.tokens, self.token_burst + token_debt) if self.token_unit else 0

    def advance(self, now: int) -> None:
        """Refill up to now. A clock that went back refills nothing."""
        elapsed = now - self.at
        if elapsed <= 0:
            return
        self.at = now
        if self.requests:
            left = self.requests - elapsed * self.request_rate
            self.requests = left if left > 0 else 0
        if self.tokens:
            left = self.tokens - elapsed * self.token_rate
            self.tokens = left if left > 0 else 0

    def fits(self, requests: int, tokens: int | None, slots: int) -> bool:
        """Whether the demand passes now. 0 requests ask nothing; 0 tokens pass unless there is a debt, None always."""
        return not (
            (requests and self.requests + requests * self.request_unit > self.request_burst)
            or (tokens is not None and self.tokens + tokens * self.token_unit > self.token_burst)
            or (slots and self.parallel >= self.max_parallel)
        )

    def take(self, requests: int, tokens: int, slots: int) -> None:
        """Debit, into debt if need be. Only right after `advance`."""
        self.requests += requests * self.request_unit
        self.tokens += tokens * self.token_unit
        self.parallel += slots

    def give_request(self) -> None:
        """Give one request back. Right at any time: refilling before or after it comes to the same."""
        self.requests = max(0, self.requests - self.request_unit)

    def give_tokens(self, tokens: int) -> None:
        """Give tokens back, likewise at any time."""
        back = tokens * self.token_unit
        if self.tokens > back:
            self.tokens -= back
        else:
            self.tokens = 0

    def refusal(self, requests: int, tokens: int | None, slots: int) -> LimitExceeded | None:
        """Why the demand does not fit; of several reasons the one that lasts longest."""
        found = []
        if requests and self.requests + requests * self.request_unit > self.request_burst:
            found.append(self._short("requests", self.requests, requests, self.request_rate, self.request_burst))
        if tokens is not None and self.tokens + tokens * self.token_unit > self.token_burst:
            found.append(self._short("tokens", self.tokens, tokens, self.token_rate, self.token_burst))
        if slots and self.parallel >= self.max_parallel:
            never = self.max_parallel == 0
            wait = 0.0 if never else SLOT_HINT
            found.append(
                LimitExceeded(
                    self.scope,
                    "parallel",
                    limit=self.max_parallel,
                    used=self.parallel,
                    requested=slots,
                    wait=wait,
                    never=never,
                )
            )
        return longest(found)

    def _short(self, resource: Resource, spent: int, wanted: int, limit: int, burst: int) -> LimitExceeded:
        never = wanted * UNIT > burst
        lacking = spent + wanted * UNIT - burst
        # Up to the next microsecond, and one more for what a caller's sum of two floats may lose.
        wait = 0.0 if never else (-(-lacking // limit) + 1) / 1e6 if limit else SLOT_HINT
        used = -(-spent // UNIT)
        return LimitExceeded(self.scope, resource, limit=limit, used=used, requested=wanted, wait=wait, never=never)

    def idle(self) -> bool:
        """Nothing spent and nothing held: forgetting it loses nothing."""
        return not (self.parallel or self.requests or self.tokens)


def _terms(limit: int | None, burst: float) -> tuple[int, int, int]:
    """Rate, unit and burst of a limit."""
    if limit is None:
        return 0, 0, 0
    return limit, UNIT, (limit if burst == BURST else at_once(limit, burst)) * UNIT  # which is quick where a minute is the burst


def longest(refusals: Iterable[LimitExceeded]) -> LimitExceeded | None:
    """The refusal to tell: one that no waiting mends, else the one with the longest wait."""
    return max(refusals, key=lambda refusal: (refusal.never, refusal.wait), default=None)


def foreseen(
    accounts: Sequence[Account], model: Account | None, tokens: int | None, fit: Callable[[int], int], *, clamp: bool
) -> LimitExceeded | None:
    """Why a request would be refused now, by accounts that are advanced: at its admission, or at its reservation of `tokens`, of
    which budgets hold what `fit` says, if not by raising. Nothing is spent. None: it reserves nothing.
    """
    refused = longest([one for account in accounts if (one := account.refusal(1, None, 1)) is not None])
    if refused is not None or tokens is None:
        return refused
    try:
        tokens = fit(min(max(tokens, 0), LARGEST))
    except LimitExceeded as short:
        return short
    if clamp:
        tokens = clamped(tokens, accounts if model is None else [*accounts, model])
    found = [account.refusal(0, tokens, 0) for account in accounts]
    found += [] if model is None else [model.refusal(1, tokens, 1)]
    return longest([one for one in found if one is not None])


def clamped(tokens: int, accounts: Iterable[Account]) -> int:
    """Cut down to the smallest burst. A limit of 0 is a closed door, not a burst to shrink to."""
    for account in accounts:
        if 0 < account.token_burst < tokens * UNIT:
            tokens = account.most_tokens
    return tokens


def standing(accounts: Iterable[Account]) -> Standing:
    """Where the tightest of these accounts stands; they were advanced to the same moment."""
    requests = tokens = None
    fewest = least = 0
    for account in accounts:
        if account.request_unit:
            left = account.request_burst - account.requests
            if requests is None or left < fewest:
                requests, fewest = account, left
        if account.token_unit:
            left = account.token_burst - account.tokens
            if tokens is None or left < least:
                tokens, least = account, left
    rate = remaining = reset = burst = None
    if requests is not None:
        rate, burst = requests.request_rate, requests.most_requests
        remaining = fewest // UNIT if fewest > 0 else 0
        reset = requests.requests / rate / 1e6 if rate else 0.0
    if tokens is None:
        return Standing(rate, remaining, reset, request_burst=burst)
    limit = tokens.token_rate
    left, full = least // UNIT if least > 0 else 0, tokens.tokens / limit / 1e6 if limit else 0.0
    return Standing(rate, remaining, reset, limit, left, full, burst, tokens.most_tokens)
