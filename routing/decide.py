"""One model out of those that may answer, the reason, and who comes next.

The order, and the reason that each step gives
1. A pinned model is taken as it is: `pinned`. It is never refused for a capability or for its context; its backend says so.
2. Capabilities, then context, thin out the candidates. Unknown is not lacking. When a step would leave nobody it is passed over:
   nobody can, and the backend may say it (for context: those with the largest are kept).
3. A tier override obeys: `override`. It wins over the score, not over what the request needs: when its tier was thinned out, the
   nearest tier left answers, and the reason is what thinned it.
4. One tier left by step 2: `capability` or `context`, and nobody is asked how hard the request is. One tier from the start:
   `default`.
5. The classifier: `score`, or `default` when it does not know. A tier that it wants and step 2 took away is again replaced by the
   nearest one left, for the reason that took it.

Nearest is the cheapest tier that is dearer, else the dearest that is cheaper. Within a tier the first model in config order
answers. Next come its tier's other models, then the tiers along the fallback map, then the others from cheap to dear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from routing.types import Decision, Model, Needs, Reason, Resolution, Target, UnknownTier, Verdict

# The prompt's tokens are estimated from its bytes. Code and dense JSON have more tokens a byte than prose, so a prompt is taken
# to be an eighth longer, and a chat template to add a few dozen tokens, before a context is believed to hold it.
MARGIN_SHARE = 8
MARGIN_TOKENS = 32


_NOT_ASKED = Verdict(None)


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


def decide(
    resolution: Resolution,
    needs: Needs,
    verdict: Callable[[], Verdict],
    *,
    override: str | None,
    default_tier: str,
    threshold: float,
    order: Sequence[str],
    fallback: Mapping[str, str],
) -> Decision:
    """Where the request goes. `verdict` is called only if the answer is still open. `order` is the tiers from cheap to dear."""
    if resolution.pinned is not None:
        spare = tuple(t for t in resolution.candidates[1:] if able(t.model, needs) and fits(t.model, needs))
        return Decision(resolution.pinned, "pinned", None, spare)
    candidates = resolution.candidates
    tiers = _tiers(candidates, order)
    if override is not None and override not in tiers:
        raise UnknownTier(override, tuple(tiers))
    capable = _capable(candidates, needs)
    left = _roomy(capable, needs)
    capable_tiers = tiers if capable is candidates else _tiers(capable, order)
    left_tiers = capable_tiers if left is capable else _tiers(left, order)
    judged = _NOT_ASKED
    reason: Reason
    if override is not None:
        tier, reason = override, "override"
    elif len(left_tiers) == 1:
        tier, reason = left_tiers[0], _forced(tiers, capable_tiers)
    else:
        judged = verdict()
        tier, reason = _wanted(judged, tiers, default_tier, threshold)
    if tier not in left_tiers:
        if tier in tiers:
            reason = "context" if tier in capable_tiers else "capability"
        tier = _nearest(tier, list(dict.fromkeys((*order, *tiers))), left_tiers)
    ranked = _ranked(left, tier, left_tiers, fallback)
    return Decision(ranked[0], reason, judged.score, tuple(ranked[1:]), judged.terms)


def tier_for(score: float, threshold: float, tiers: Sequence[str]) -> str:
    """The cheapest tier below the threshold; from it upwards the dearer ones share the rest of the scale evenly."""
    if score < threshold or len(tiers) == 1:
        return tiers[0]
    dearer = len(tiers) - 1
    step = (1.0 - threshold) / dearer
    rank = int((score - threshold) / step) if step > 0 else dearer - 1
    return tiers[1 + min(rank, dearer - 1)]


def _tiers(targets: Iterable[Target], order: Sequence[str]) -> list[str]:
    """The targets' tiers from cheap to dear; one that the order does not name comes last."""
    present = [target.model.tier for target in targets]
    tiers = [tier for tier in order if tier in present]
    for tier in present:
        if tier not in tiers:
            tiers.append(tier)
    return tiers


def _capable(candidates: tuple[Target, ...], needs: Needs) -> tuple[Target, ...]:
    if not needs.capabilities:
        return candidates
    return tuple(target for target in candidates if able(target.model, needs)) or candidates


def _roomy(candidates: tuple[Target, ...], needs: Needs) -> tuple[Target, ...]:
    wanted = room(needs)
    fitting = [target for target in candidates if target.model.context is None or wanted <= target.model.context]
    if fitting:
        return candidates if len(fitting) == len(candidates) else tuple(fitting)
    largest = max(target.model.context or 0 for target in candidates)
    return tuple(target for target in candidates if target.model.context == largest)


def _wanted(judged: Verdict, tiers: list[str], default_tier: str, threshold: float) -> tuple[str, Reason]:
    if judged.score is None:
        return judged.tier or default_tier, "default"
    return judged.tier or tier_for(judged.score, threshold, tiers), "score"


def _forced(tiers: list[str], capable_tiers: list[str]) -> Reason:
    """Why only one tier is left."""
    if len(tiers) == 1:
        return "default"
    return "capability" if len(capable_tiers) == 1 else "context"


def _nearest(wanted: str, ladder: list[str], left: list[str]) -> str:
    """The cheapest tier left that is not cheaper than the one wanted, else the dearest."""
    dearer = ladder[ladder.index(wanted) :] if wanted in ladder else ladder
    return next((tier for tier in dearer if tier in left), left[-1])


def _ranked(targets: tuple[Target, ...], tier: str, tiers: list[str], fallback: Mapping[str, str]) -> list[Target]:
    """The targets of the tier, then along the fallback map, then of the other tiers from cheap to dear."""
    succession = [tier]
    following = fallback.get(tier)
    while following is not None and following not in succession:
        succession.append(following)
        following = fallback.get(following)
    for other in tiers:
        if other not in succession:
            succession.append(other)
    return [target for tier in succession for target in targets if target.model.tier == tier]
