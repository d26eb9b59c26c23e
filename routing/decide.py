"""One model out of those that may answer, the reason, and who comes next.

The order, and the reason that each step gives
1. A pinned model is taken as it is: `pinned`. It is never refused for a capability or for its context; its backend says so.
2. Capabilities, then context, thin out the candidates. Unknown is not lacking. When a step would leave nobody it is passed over:
   nobody can, and the backend may say it (for context: those with the largest are kept).
3. A tier override obeys: `override`. It wins over the score, not over what the request needs: when its tier was thinned out, the
   nearest tier left answers, and the reason is what thinned it.
4. One tier left by step 2: `capability` or `context`, and nobody is asked how hard the request is. One tier from the start:
   `default`.
5. A turn of a tool loop goes to the model that answers the ask it serves, if that is left and has a replica: `session`.
6. The classifier: `score`, or `default` when it does not know; `budget` where there is no room for that in a target.
7. The conversation (`sessions`): up at once, down late. Where that keeps it from what step 6 wants: `session`. Not while the cut
   is above all scores: where a target lets nobody up for what he asks, nobody stays up for what he asked before.
   Small talk moves no conversation, and one that begins with it holds no tier yet.
8. A tier that is wanted and that step 2 took away is again replaced by the nearest one left, for the reason that took it.
9. The load (`load`): what step 6 decided alone may borrow one tier up, and by its score spill one tier down: `load`.
10. The health: models without a ready replica are passed over in the order of succession: `fallback`. When all are, none is.

Nearest is the cheapest tier that is dearer, else the dearest that is cheaper. Within a tier the first model in config order
answers. Next come its tier's other models, then the tiers along the fallback map, then the others from cheap to dear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from routing.aims import Cut
from routing.load import OFF, LoadRules, Look, Near, PoolLoad, moved, nobody_near, unknown
from routing.sessions import Held, Sticky, Turned, turn
from routing.types import Decision, Model, Needs, Reason, Resolution, Target, UnknownTier, Verdict

# The prompt's tokens are estimated from its bytes. Code and dense JSON have more tokens a byte than prose, so a prompt is taken
# to be an eighth longer, and a chat template to add a few dozen tokens, before a context is believed to hold it.
MARGIN_SHARE = 8
MARGIN_TOKENS = 32


_NOT_ASKED = Verdict(None)
_STICKY = Sticky()


def able(model: Model, needs: Needs) -> bool:
    """Whether the model is not known to lack something that the request needs."""
    return model.capabilities is None or needs.capabilities <= model.capabilities


def fits(model: Model, needs: Needs) -> bool:
    """Whether the model's context, if known, holds the prompt with its margin and all the output that was asked for."""
    return model.context is None or room(needs) <= model.context


def room(needs: Needs) -> int:
    """Tokens of context that the request is believed to take. At least one is needed for an answer of unknown length."""
    margin = needs.prompt_tokens // MARGIN_SHARE + MARGIN_TOKENS
    return needs.prompt_tokens + margin + (needs.max_tokens if needs.max_tokens is not None else 1)


def nothing_held() -> None:
    """Of a conversation that begins, or of which nobody knows."""


def as_pinned(resolution: Resolution, pinned: Target, needs: Needs) -> Decision:
    """Step 1: nothing else counts."""
    spare = tuple([t for t in resolution.candidates[1:] if able(t.model, needs) and fits(t.model, needs)])
    return Decision(pinned, "pinned", None, spare)


def decide(
    resolution: Resolution,
    needs: Needs,
    verdict: Callable[[], Verdict],
    *,
    override: str | None,
    default_tier: str,
    cut: Cut,
    order: Sequence[str],
    fallback: Mapping[str, str],
    talk: Callable[[], Held | None] = nothing_held,
    sticky: Sticky = _STICKY,
    load: Look = unknown,
    rules: LoadRules = OFF,
    near: Near = nobody_near,
) -> Decision:
    """Where the request goes. `verdict` and `talk`, which tells what the conversation holds, are called only if the answer is
    still open. `order` is the tiers from cheap to dear.
    """
    if resolution.pinned is not None:
        return as_pinned(resolution, resolution.pinned, needs)
    candidates = resolution.candidates
    tiers = tiers_of(candidates, order)
    if override is not None and override not in tiers:
        raise UnknownTier(override, tiers)
    capable = _capable(candidates, needs)
    left = _roomy(capable, needs)
    capable_tiers = tiers if capable is candidates else tiers_of(capable, order)
    left_tiers = capable_tiers if left is capable else tiers_of(left, order)
    judged, held, easy = _NOT_ASKED, None, 0
    turned: Turned | None = None
    reason: Reason
    wanted = ""
    if override is not None:
        tier, reason = override, "override"
    elif len(left_tiers) == 1:
        tier, reason = left_tiers[0], _forced(tiers, capable_tiers)
    else:
        held = talk()
        if held is not None and held.model and (same := _same(held.model, left, load)) is not None:
            rest = [target for target in _ranked(left, same.model.tier, left_tiers, fallback) if target is not same]
            keeps = same.model.tier if held.tier and held.tier not in tiers else held.tier
            return Decision(
                same, "session", None, tuple(rest), keeps=keeps, easy=held.easy, held=held, turned="looped", tiers=tiers
            )  # fmt: skip
        judged = verdict()
        wanted, reason = wanted_tier(judged, tiers, default_tier, cut)
        tier = wanted
        if held is not None and cut.threshold <= 1.0:
            tier, easy, turned = turn(held, wanted, tiers, sticky, known=reason == "score" and not judged.idle)
            reason = reason if tier == wanted else "session"
    if tier not in left_tiers:
        if tier in tiers:
            reason = "context" if tier in capable_tiers else "capability"
        tier = _nearest(tier, list(dict.fromkeys((*order, *tiers))), left_tiers)
    keeps, shift = "" if judged.idle and (held is None or not held.tier) else tier, None
    if reason in ("score", "budget") or (reason == "default" and judged.tier is None):
        settled = held is not None and held.tier == tier
        shift = moved(tier, judged.score, left_tiers, _by_tier(left, load), rules, near, settled=settled)
        if shift is not None:
            tier, reason = shift[0], "load"
            keeps = keeps and min(keeps, tier, key=tiers.index)
    ranked = _ranked(left, tier, left_tiers, fallback)
    if _away(ranked[0], load) and (passed := _unready(ranked, load)):
        ranked, reason = [*ranked[passed:], *ranked[:passed]], "fallback"
    return Decision(
        ranked[0], reason, judged.score, tuple(ranked[1:]), judged.terms, wanted, keeps, easy, held, turned,
        None if shift is None else shift[1], tiers,
    )  # fmt: skip


def tier_for(score: float, threshold: float, tiers: Sequence[str]) -> str:
    """The cheapest tier below the threshold; from it upwards the dearer ones share the rest of the scale evenly."""
    if score < threshold or len(tiers) == 1:
        return tiers[0]
    dearer = len(tiers) - 1
    step = (1.0 - threshold) / dearer
    rank = int((score - threshold) / step) if step > 0 else dearer - 1
    return tiers[1 + min(rank, dearer - 1)]


def tiers_of(targets: Iterable[Target], order: Sequence[str]) -> tuple[str, ...]:
    """The targets' tiers from cheap to dear; one that the order does not name comes last."""
    return _in_order(tuple([target.model.tier for target in targets]), tuple(order))


@lru_cache(1024)  # a config has few tiers, so there are few ways to name some of them
def _in_order(present: tuple[str, ...], order: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(tier for tier in order if tier in present), *present]))


def _capable(candidates: tuple[Target, ...], needs: Needs) -> tuple[Target, ...]:
    if not needs.capabilities:
        return candidates
    return tuple(target for target in candidates if able(target.model, needs)) or candidates


def _roomy(candidates: tuple[Target, ...], needs: Needs) -> tuple[Target, ...]:
    wanted = room(needs)
    for target in candidates:
        context = target.model.context
        if context is not None and context < wanted:
            break
    else:
        return candidates
    fitting = tuple([target for target in candidates if (context := target.model.context) is None or wanted <= context])
    if fitting:
        return fitting
    largest = max(target.model.context or 0 for target in candidates)
    return tuple(target for target in candidates if target.model.context == largest)


def wanted_tier(judged: Verdict, tiers: Sequence[str], default_tier: str, cut: Cut) -> tuple[str, Reason]:
    """The tier for an ask by itself."""
    if judged.score is not None:
        return judged.tier or tier_for(judged.score, cut.threshold, tiers), "score"
    if judged.tier is None and default_tier != tiers[0] and not cut.lets_up(judged.small, judged.large):
        return tiers[0], "budget"
    return judged.tier or default_tier, "default"


def _forced(tiers: Sequence[str], capable_tiers: Sequence[str]) -> Reason:
    """Why only one tier is left."""
    if len(tiers) == 1:
        return "default"
    return "capability" if len(capable_tiers) == 1 else "context"


def _nearest(wanted: str, ladder: Sequence[str], left: Sequence[str]) -> str:
    """The cheapest tier left that is not cheaper than the one wanted, else the dearest."""
    dearer = ladder[ladder.index(wanted) :] if wanted in ladder else ladder
    return next((tier for tier in dearer if tier in left), left[-1])


def _ranked(targets: tuple[Target, ...], tier: str, tiers: Sequence[str], fallback: Mapping[str, str]) -> list[Target]:
    """The targets of the tier, then along the fallback map, then of the other tiers from cheap to dear."""
    if len(targets) == 2 and len(tiers) == 2:  # a third of what the whole way takes, and the commonest of all
        return [*targets] if targets[0].model.tier == tier else [targets[1], targets[0]]
    succession = [tier]
    following = fallback.get(tier)
    while following is not None and following not in succession:
        succession.append(following)
        following = fallback.get(following)
    for other in tiers:
        if other not in succession:
            succession.append(other)
    return [target for tier in succession for target in targets if target.model.tier == tier]


def _same(model: str, left: tuple[Target, ...], load: Look) -> Target | None:
    """The target of that name, where it can still be asked."""
    target = next((target for target in left if target.name == model), None)
    return None if target is None or _away(target, load) else target


def _away(target: Target, load: Look) -> bool:
    pool = load(target.model.name)
    return pool is not None and not pool.ready


def _unready(ranked: list[Target], load: Look) -> int:
    """How many of the first have no replica; 0 where none has one."""
    for place, target in enumerate(ranked):
        if not _away(target, load):
            return place
    return 0


def _by_tier(left: tuple[Target, ...], load: Look) -> Callable[[str], PoolLoad | None]:
    """The load of a tier: of its first model that has a replica, which would answer."""

    def look(tier: str) -> PoolLoad | None:
        pools: list[PoolLoad] = []
        for target in left:
            if target.model.tier == tier:
                pool = load(target.model.name)
                if pool is None or pool.ready:
                    return pool
                pools.append(pool)
        return pools[0]

    return look
