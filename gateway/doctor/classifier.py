"""Asks the remote classifier to rate a sentence, and judges how that went."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from gateway.build.classify import asked_of
from gateway.classify.examples import RatesNothing
from gateway.classify.remote import Remote
from gateway.config import Config
from gateway.config.problems import Path
from gateway.doctor.findings import Finding, fail, ok, warn
from gateway.metrics import Metrics
from routing.asked import Unknown

WHERE: Path = ("routing", "classifier", "url")
SENTENCE = "How long does a parcel to the islands take?"
_TRIES = 3  # the quickest counts


@dataclass(slots=True)
class ClassifierFacts:
    """`result`: what came of it; empty: it was not asked before the time was up."""

    result: str = ""
    score: float | None = None
    seconds: float = float("inf")


async def ask(facts: ClassifierFacts, config: Config, seconds: float) -> None:
    patient = replace(config.routing, classifier=replace(config.routing.classifier, deadline=seconds))
    remote = asked_of(replace(config, routing=patient), RatesNothing(), Unknown(), Metrics(worker=True), time.monotonic)
    if not isinstance(remote, Remote):
        return
    try:
        for _ in range(_TRIES):
            began = time.monotonic()
            facts.score, facts.result = await remote.rate(SENTENCE)
            facts.seconds = min(facts.seconds, time.monotonic() - began)
            if facts.score is None:
                return
    finally:
        await remote.close()


def judge(facts: ClassifierFacts, config: Config) -> list[Finding]:
    own = config.routing.classifier
    if facts.score is None:
        late = facts.result in ("", "timeout")
        what = "the classifier did not answer in time" if late else "the classifier gave no number from 0 to 1"
        return [fail(WHERE, what, f"Look at it, and whether its number is at {own.score}; meanwhile {own.instead} judge.")]
    if facts.seconds > own.deadline / 2:
        what = f"the classifier took {facts.seconds * 1000:.0f} ms for a sentence, and has {own.deadline * 1000:.0f}"
        return [warn(WHERE, what, "Raise routing.classifier.deadline: what is late is judged without it.")]
    return [ok(WHERE, f"the classifier rated a sentence {facts.score:.2f} in {facts.seconds * 1000:.0f} ms")]
