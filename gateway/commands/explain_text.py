"""An explanation for people to read."""

from __future__ import annotations

from gateway.explanation import Attempt, Balance, CacheView, Explanation, Limit, Route, RouteTarget, ScopeView
from gateway.units import format_duration
from limits.view import PlaceView

_SHOWN_BODY = 2_000


def text(told: Explanation) -> str:
    lines = [
        ("request", f"{told.endpoint}, model {told.requested!r}{', streamed' if told.stream else ''}"),
        ("caller", _caller(told)),
    ]
    if told.cache is not None:
        lines += [*_needs(told), *_cache(told), *_route(told)]
        for attempt in told.attempts:
            lines += _attempt(attempt, told)
        lines.append(("class", f"{told.priority}, weight {told.weight}"))
        if told.live:
            lines.append(("limits", f"kept in {told.limits_store}"))
            for one in told.budgets:
                used = f"{one.used} of {one.limit} tokens used, until {one.ends_at:%Y-%m-%d %H:%M} UTC"
                lines.append(("", f"budget of {one.kind} {one.name}, {one.period}: {used}"))
        else:
            lines.append(("now", "not known: this asks no running gateway, so no balance, queue or replica; --live asks it"))
        lines += _upstream(told)
    if told.refusal is not None:
        unless = "unless the cache holds the answer, " if told.refusal.code == "not_cached" else ""
        when = "as things stand now, " if told.refusal.now else ""
        lines.append(("refused", f"{unless}{when}{told.refusal.status} {told.refusal.code}: {told.refusal.message}"))
    if told.microseconds:
        lines.append(("times", ", ".join(f"{name} {micros:g} µs" for name, micros in told.microseconds.items())))
    return _printable("\n".join(f"{label:10}{text}" for label, text in lines))


def _printable(text: str) -> str:
    """A request may hold what steers a terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)


def _caller(told: Explanation) -> str:
    if not told.tenant:
        return "nobody: the config has no tenant, so every real call is a 401"
    return f"tenant {told.tenant}, plan {told.plan or 'none'}, key {told.key or 'any without limits of its own'}"


def _needs(told: Explanation) -> list[tuple[str, str]]:
    asked = "not limited" if told.max_tokens is None else f"at most {told.max_tokens}"
    needs = f"{', '.join(told.capabilities) or 'nothing special'}; {told.room} tokens of context"
    return [
        ("tokens", f"prompt about {told.prompt_tokens} (by its bytes alone), answer {asked}"),
        ("needs", needs),
        ("means", f"{_chosen(told) if told.auto else 'pinned:'} {', '.join(told.stands_for)}"),
    ]


def _chosen(told: Explanation) -> str:
    target = None if told.route is None else told.route.target
    return f"{'auto' if target is None else target.route}, one of"


def _cache(told: Explanation) -> list[tuple[str, str]]:
    cache = told.cache
    assert cache is not None
    does = [name for name, on in (("looked up", cache.lookup), ("stored", cache.store), ("shared", cache.share)) if on]
    reason = f" ({cache.reason})" if cache.reason else ""
    known = "" if cache.verdict == "exact" else ", unless it holds the answer"
    lines = [("cache", f"{cache.verdict}{reason}{known}; {', '.join(does)}" if does else f"{cache.verdict}{reason}")]
    if cache.id:
        lines.append(("", f"{cache.id}{'' if cache.stable else ', in this process only: cache.secret is not set'}"))
    return [*lines, *_exact(cache), *_semantic(cache)]


def _exact(cache: CacheView) -> list[tuple[str, str]]:
    exact = cache.exact
    if not cache.id:
        return []
    wishes = [f"none older than {exact.max_age:g} s"] if exact.max_age is not None else []
    wishes += [f"tags {', '.join(exact.tags)}"] if exact.tags else []
    stale = f", stale for {exact.stale:g} s more" if exact.stale else ""
    lines = [("", "; ".join([f"exact: keep {exact.keep}, {_of(exact.scope)}, fresh for {exact.ttl:g} s{stale}", *wishes]))]
    if exact.held is not None:
        held = exact.held
        age = f", {held.age} s old" if held.age is not None else ""
        lines.append(("", f"kept now: {held.state}{age}{f' ({held.reason})' if held.reason else ''}"))
    return lines


def _semantic(cache: CacheView) -> list[tuple[str, str]]:
    semantic = cache.semantic
    if not semantic.eligible:
        return [("", f"semantic: no ({semantic.reason})")] if semantic.reason != "off" else []
    cut = "serves nothing" if semantic.cut is None else f"serves from a score of {semantic.cut:g}"
    lines = [("", f"semantic: yes, {_of(semantic.scope)}, preset {semantic.preset}, {cut}, embedder {semantic.embedder}")]
    lines.append(("", f"partition {semantic.partition}"))
    if semantic.stage is not None:
        lines.append(("", f"turned away now by: {semantic.stage or 'nothing, so it would be embedded'}"))
    return lines


def _of(scope: ScopeView | None) -> str:
    return (
        "" if scope is None else f"shared by scope {scope.name}" if scope.shared else f"of tenant {scope.name or 'nobody'} alone"
    )


def _route(told: Explanation) -> list[tuple[str, str]]:
    route = told.route
    if route is None:
        return []
    score = "" if route.score is None else f", score {route.score:.3f} against {route.threshold:.4g}"
    lines = [("route", f"{route.model}, tier {route.tier}: {route.reason}{score}"), *_judged(route, live=told.live)]
    for term in route.terms:
        weight = f" = {term.weight:+g} x {term.added / term.weight:.2f}" if term.weight else ""
        lines.append(("", f"{term.feature:14}{term.added:+.3f}{weight}"))
    if route.target is not None and route.target.kind != "threshold":
        lines += _target(route.target)
    if route.first:
        then = "one of the dearest tier" if route.model == route.first else route.model
        lines.append(("cascade", f"{route.first} is asked first; {then} if its answer does not stand up"))
    lines += [("", f"not {candidate.model}: {candidate.out}") for candidate in route.candidates if candidate.out]
    return [*lines, *_session(route), *_load(route)]


_UNRATED = {
    "rules": "nothing in it says whether it is easy or hard",
    "learned": "too little of the text is known to say so",
    "embedding": "it is like none of the examples",
    "fixed": "it makes no score",
    "nobody": "so the default tier has it",
}


def _judged(route: Route, *, live: bool) -> list[tuple[str, str]]:
    """Who judged, and what that is about."""
    if not route.classifier:
        only = [("", "nobody judged it: there is one tier to choose from")]
        return only if route.reason in ("default", "capability", "context") else []
    policy = f", policy {route.policy}" if route.policy else ""
    asked = "" if live else "; --live asks the gateway, where that runs"
    failed = f": the config's classifier did not ({route.classifier_failed}{asked})" if route.classifier_failed else ""
    lines = [("", f"judged by {route.classifier}{policy}{failed}")]
    if route.small is not None and route.large is not None:
        lines.append(("", f"good enough: small {route.small:.3f}, large {route.large:.3f}"))
    if any(term.feature == "pleasantry" for term in route.terms):
        lines.append(("", "it is small talk, which asks for nothing"))
    elif route.score is None:
        lines.append(("", _UNRATED.get(route.classifier, "it does not know")))
    return lines


_TURNED = {
    "same": "what this turn wants as well",
    "kept": "it stays there",
    "up": "it goes up at once",
    "down": "it may go down now",
    "looped": "a tool loop goes on with its model",
}


def _session(route: Route) -> list[tuple[str, str]]:
    held = route.session
    if held is None:
        return []
    known = "" if held.kept else ", made out from its earlier asks"
    wanted = f", this turn alone wants {held.wanted}" if held.wanted else ""
    leans = "; the turn goes on with what was said before" if held.leans else ""
    model = f" {held.model}" if held.model else ""
    cost = f"going down costs {held.cost} tokens, at most {held.move_tokens} may be"
    loops = f"; turns of its tool loop: {held.loops}, of which {held.loop_turns} go to its model" if held.loops else ""
    return [
        ("session", f"holds {held.tier or 'no tier'}{known}{wanted}: {_TURNED.get(held.turned, held.turned)}{model}{leans}"),
        ("", f"easy turns in a row: {held.easy}, of which {held.easy_turns} stay; {cost}{loops}"),
    ]


def _load(route: Route) -> list[tuple[str, str]]:
    known = [pool for pool in route.loads if pool.known]
    if not known:
        return []
    move = f"{route.move} to {route.tier}" if route.move else "moves nothing"
    lines = [("load", f"{move}; near its cut is {route.band:.0%} of what lately went up, at most")]
    for pool in known:
        if not pool.ready:
            lines.append(("", f"{pool.model}: no replica"))
            continue
        wait = "not known" if pool.wait is None else f"{pool.wait:.2f} s"
        lines.append(("", f"{pool.model}: {pool.free} of {pool.slots} slots free, wait {wait}, meant {pool.meant:g} s"))
    return lines


def _target(target: RouteTarget) -> list[tuple[str, str]]:
    whose = f"of tenant {target.tenant} under {target.route}" if target.tenant else f"of {target.route}"
    aims = {
        "large": f"at most {target.value:.1%} above the cheapest tier",
        "quality": f"{target.value:.1%} of the dearest tier's quality",
    }
    line = "nobody goes up now" if target.nobody else f"the cut is at {target.cut:.4f} now"
    if target.at_the_cut < 1 and not target.nobody:
        part = f"{target.at_the_cut:.0%} of those with that very score go up"
        line += f", and {part if target.at_the_cut else 'only what is above it goes up'}"
    kept = "" if target.kept is None else f", {target.kept:.1%} of the quality kept, as expected"
    went = "this process has sent none"
    if target.share is not None:
        went = f"{target.share:.1%} of its last {_requests(target.seen)} to go up"
    overall = "" if target.overall is None else f"; {target.overall:.1%} of all {target.sent} since the start went up"
    return [("target", f"{whose}: {aims[target.kind]}; {line}"), ("", f"{went}{kept}{overall}")]


def _requests(count: int) -> str:
    return f"{count} requests were" if count > 1 else "request was"


def _attempt(attempt: Attempt, told: Explanation) -> list[tuple[str, str]]:
    clamped = ", cut down to the burst of its limits" if attempt.clamped else ""
    label, when = _when(attempt, told)
    lines = [(label, f"{attempt.model} ({attempt.tier}), {when}")]
    sized = f"of which {attempt.prompt_tokens} for the prompt, at the {attempt.bytes_per_token:g} bytes a token of this model"
    lines.append(("", f"reserves {attempt.reserved} tokens, {sized}{clamped}"))
    for limit in attempt.limits:
        given = {"rpm": limit.rpm, "tpm": limit.tpm, "max_parallel": limit.max_parallel, "day": limit.day, "month": limit.month}
        amounts = ", ".join(f"{name} {amount}" for name, amount in given.items() if amount is not None)
        burst = "" if limit.rpm is limit.tpm is None else f"; {format_duration(limit.burst)} of it at once"
        lines.append(("", f"limits of {limit.scope} {limit.name}: {amounts or 'none'}{burst}"))
        if limit.balance is not None and not limit.rpm is limit.tpm is limit.max_parallel is None:
            lines.append(("", f"  now: {_balance(limit, limit.balance)}"))
    if attempt.queue is not None:
        lines += _queue(attempt.queue)
    if attempt.never is not None:
        lines.append(("", f"can never pass: {attempt.never.message}"))
    if attempt.refused is not None:
        lines.append(("", f"would be refused now: {attempt.refused.code}"))
    names = ", ".join(replica.name for replica in attempt.replicas)
    order = (
        "in this order" if attempt.ordered else "whoever is best off" + ("" if told.live else " then, which is not known here")
    )
    lines.append(("", f"replicas by {attempt.balance}: {names}{'; ' + order if len(attempt.replicas) > 1 else ''}"))
    for replica in attempt.replicas:
        if replica.cost is not None:
            cost = replica.cost
            parts = (
                f"{cost.waiting} tokens wait there, {cost.uncached} of this prompt are not cached, {cost.inflight} requests run"
            )
            home = "; the home of its session, where half of the prompt counts as cached at least" if cost.home else ""
            lines.append(
                ("", f"{replica.name}: {parts}" if cost.cost is None else f"{replica.name}: cost {cost.cost:g} ({parts}{home})")
            )
    if attempt.foretold is not None:
        far = attempt.foretold
        lines.append(("", f"so far {far.delivered} prompt tokens were cached where {far.expected} were expected"))
    return lines


def _when(attempt: Attempt, told: Explanation) -> tuple[str, str]:
    """Of a cascade the first model to be decided on is not the first to be asked."""
    first = "" if told.route is None else told.route.first
    if first in ("", told.attempts[0].model):
        return "try" if attempt.when == "first" else "then", attempt.when
    if attempt.when == "first":
        return "then", f"when the answer of {first} does not stand up"
    return "then", attempt.when.replace("the first one", told.attempts[0].model)


def _balance(limit: Limit, now: Balance) -> str:
    told = []
    if limit.rpm is not None:
        told.append(f"{now.requests_remaining} requests, all in {now.requests_reset:.1f} s")
    if limit.tpm is not None:
        told.append(f"{now.tokens_remaining} tokens, all in {now.tokens_reset:.1f} s")
    if limit.max_parallel is not None:
        told.append(f"{now.parallel} of {limit.max_parallel} run or wait")
    return "; ".join(told)


def _queue(queue: PlaceView) -> list[tuple[str, str]]:
    depth = ", ".join(f"{name} {count}" for name, count in queue.depth.items())
    wait = "not known yet" if queue.expected_wait is None else f"about {queue.expected_wait:.1f} s"
    ahead = f"served {queue.served:.0f} tokens by weight more than who is next"
    refused = "; it would not be let wait" if queue.refused else ""
    own = []
    if queue.reserved is not None:
        tokens = "" if queue.reserved.tokens_left is None else f", {queue.reserved.tokens_left} of its tokens left"
        own = [("", f"its reserved share: {queue.reserved.used} of {queue.reserved.slots} slots in use{tokens}")]
    return [
        ("", f"slots: {queue.inflight} of {queue.capacity} in use; waiting: {depth}"),
        ("", f"its tenant in its class: {queue.waiting} waiting, {queue.running} running, {ahead}"),
        *own,
        ("", f"expected wait {wait}, at most {queue.max_wait:.1f} s{refused}"),
    ]


def _upstream(told: Explanation) -> list[tuple[str, str]]:
    upstream = told.upstream
    if upstream is None:
        return []
    edited = "edited" if upstream.edited else "as it came"
    body = upstream.body if len(upstream.body) <= _SHOWN_BODY else upstream.body[:_SHOWN_BODY] + "…"
    return [("upstream", f"POST {upstream.path}, {upstream.bytes} bytes, {edited}"), ("", body)]
