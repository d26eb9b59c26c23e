"""LiteLLM's two scorers of complexity that ask no model, as its package has them; where it is installed.

litellm keywords   ComplexityRouter: seven weighted dimensions, most of them keywords
litellm tiers      TierSuccessPredictor: success by cohort of prompts, learned from UltraFeedback; 1 - P(lowest tier is enough)
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os

from gateway.lab.routing.scored import Judge
from routing.types import Verdict

_COMPLEXITY = "litellm.router_strategy.complexity_router"


def version() -> str | None:
    """None: not installed."""
    try:
        return importlib.metadata.version("litellm")
    except importlib.metadata.PackageNotFoundError:
        return None


def scorers() -> dict[str, Judge]:
    """Empty where the package is not installed. Raises ImportError where it no longer has them under these names."""
    if version() is None:
        return {}
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else its import asks the network for prices
    try:
        router = importlib.import_module(f"{_COMPLEXITY}.complexity_router").ComplexityRouter("auto", None)
        trained = importlib.import_module(f"{_COMPLEXITY}.tier_predictor")
        kind_of = importlib.import_module("litellm.router_strategy.adaptive_router.classifier").classify_prompt
        predictor = trained.TierSuccessPredictor(trained.resolve_tier_artifact("ultrafeedback"))
    except (AttributeError, TypeError, ValueError) as error:
        raise ImportError(f"this version of litellm keeps its scorers elsewhere: {error}", name="litellm") from error

    def keywords(prompt: str) -> Verdict:
        return Verdict(float(router.classify(prompt)[1]))

    def tiers(prompt: str) -> Verdict:
        return Verdict(1.0 - float(predictor.predict(prompt, kind_of(prompt)).probabilities[1]))

    return {"litellm keywords": keywords, "litellm tiers": tiers}
