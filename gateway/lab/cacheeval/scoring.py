"""What a policy does with labelled pairs: counts, by category, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.lab.cacheeval.judge import Judge
from gateway.lab.cacheeval.pairs import Data, Pair
from gateway.lab.cacheeval.policies import ALL, Policy, Ruling, Verdict
from gateway.lab.cacheeval.vectors import Vectors
from gateway.lab.cacheeval.wilson import Share

EXAMPLES = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    pair: Pair
    cosine: float | None
    barred: str = ""  # why the cache may not compare them at all: `history`, `no vector`


@dataclass(slots=True)
class Count:
    wanted: int = 0
    served: int = 0  # of the wanted
    traps: int = 0
    wrong: int = 0  # traps that were served

    def add(self, *, same: bool, served: bool) -> None:
        self.wanted += same
        self.traps += not same
        self.served += same and served
        self.wrong += served and not same

    @property
    def shares(self) -> tuple[Share, Share, Share]:
        """Served of the wanted, served of the traps, and right ones of all that were served."""
        return Share(self.served, self.wanted), Share(self.wrong, self.traps), Share(self.served, self.served + self.wrong)


@dataclass(slots=True)
class Score:
    policy: str
    total: Count = field(default_factory=Count)
    categories: dict[str, Count] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)  # wanted ones, by what refused them
    stopped: Counter[str] = field(default_factory=Counter)  # traps, by what refused them
    asked: int = 0  # pairs that went to the judge
    examples: list[dict[str, object]] = field(default_factory=list)  # traps that were served

    def add(self, pair: Pair, cosine: float | None, why: str, *, served: bool) -> None:
        self.total.add(same=pair.same, served=served)
        self.categories.setdefault(pair.category, Count()).add(same=pair.same, served=served)
        if not served:
            (self.refused if pair.same else self.stopped)[why] += 1
        elif not pair.same and len(self.examples) < EXAMPLES:
            self.examples.append({"stored": pair.a, "asked": pair.b, "cosine": cosine, "category": pair.category})


def candidates(data: Data, vectors: Vectors) -> list[Candidate]:
    """Pairs as the cache sees them."""
    return [_candidate(pair, vectors) for pair in data.pairs]


def _candidate(pair: Pair, vectors: Vectors) -> Candidate:
    if pair.barred:
        return Candidate(pair, None, pair.barred)
    cosine = vectors.cosine(pair.a, pair.b)
    return Candidate(pair, cosine, "" if cosine is not None else "no vector")


def score(policy: Policy, seen: Sequence[Candidate], judge: Judge | None = None) -> Score:
    found = Score(policy.name)
    for it in seen:
        ruling = rule(policy, it)
        served = ruling.verdict is Verdict.SERVE
        if judge is not None and ruling.verdict is Verdict.GREY:
            found.asked += 1
            served = judge.approves(it.pair.b, it.pair.a, same=it.pair.same)
        found.add(it.pair, it.cosine, ruling.why or ruling.verdict, served=served)
    return found


def rule(policy: Policy, it: Candidate) -> Ruling:
    if it.cosine is None:
        return Ruling(Verdict.REFUSE, ALL, it.barred)
    return policy.decide(it.cosine, it.pair.b, it.pair.a)
