"""The section `routing` of config.yaml: how a model name becomes a model, and how `auto` chooses."""
# ruff: noqa: RUF009 - key() and its siblings return dataclasses.field(), which is what belongs there

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gateway.config import types as t
from gateway.config.fields import key, section
from gateway.config.kinds import Choice, Duration, Number, Text, Whole
from gateway.config.secret import Secret
from gateway.config.tls import BackendTls


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    kind: Annotated[str, Choice("classifier kind", ("fixed", "rules", "learned", "embedding", "remote"))] = key(
        "rules", "How `auto` rates a request."
    )
    tier: t.Name | None = key(None, "kind fixed: the tier of every request.")
    policy: t.File | None = key(
        None, "kind learned: a file of `tiergate calibrate` or of `make route-weights`; null: what ships."
    )
    threshold: t.Share | None = key(
        None, "The score from which a request goes up a tier; null: 0.5, or of kind learned the middle of its scores."
    )
    default_tier: t.Name | None = key(None, "Where a request goes that the classifier cannot rate; default: the dearest tier.")
    url: t.HttpUrl | None = key(None, "kind remote: where the newest ask is posted to, as `http://10.0.0.9:8000/classify`.")
    api_key: t.HiddenText = key(Secret(), "kind remote: its bearer token.")
    tls: BackendTls | None = key(None, "kind remote: TLS to an https URL; null: the system's CAs.")
    model: t.Line = key("", "kind remote: sent as `model`; empty: nothing is.")
    field: Annotated[str, Text(shortest=1, longest=64)] = key("input", "kind remote: the field that the ask is sent in.")
    score: Annotated[str, Text(shortest=1, longest=200)] = key(
        "data.0.probs.1", "kind remote: where in its answer the score is, 0 easy to 1 hard: names and places, dots between."
    )
    max_chars: t.Count = key(4000, "kind remote: the longest ask; of a longer one its beginning and its end are sent.")
    examples: Mapping[t.Name, tuple[Annotated[str, Text(shortest=1, longest=400)], ...]] = section(
        dict, "kind embedding: phrases such as each tier is to answer; it needs two tiers that have some."
    )
    likeness: t.Share = key(0.4, "kind embedding: an ask that is less like all examples is one that it does not know.")
    deadline: t.Seconds = key(0.05, "kind remote and embedding: for a score; later the other one judges.")
    instead: Annotated[str, Choice("instead", ("rules", "nobody"))] = key(
        "rules", "kind remote and embedding: who judges where there was no score in time; nobody: the default tier has it."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    enabled: bool = key(False, "Write down what shows how good each tier is on the requests of `auto`.")
    path: t.File = key(Path("data/routing"), "Folder of what is written down, and of the policies that come of it.")
    share: t.Share = key(
        0.0, "Of those requests, how many are also asked of the other tier, unseen by the client; 0.02 is a start."
    )
    per_minute: Annotated[int, Whole(0, 100_000)] = key(10, "Such questions at most.")
    tokens_per_minute: Annotated[int, Whole(1, 1_000_000_000)] | None = key(
        None, "Tokens of such questions at most, prompts and the longest answers; null: no such bound."
    )
    judge: t.ModelName | None = key(None, "A model that compares two answers where nothing cheaper can tell; null: none.")
    keep: Annotated[str, Choice("kept", ("text", "grams"))] = key(
        "text", "What is kept of a request: what the person asked, or only hashes of its words."
    )
    tenants: tuple[t.Name, ...] = key((), "Those whose requests are learned from; empty: all.")
    max_age: t.Seconds = key(30 * 86_400.0, "How long a line is kept, and up to a day more.")
    max_bytes: t.Bytes = key(64 * 2**20, "Of all lines; the oldest go first.")
    calibrate: Annotated[float, Duration(3600.0, 30 * 86_400.0)] | None = key(
        None, "How often `tiergate calibrate` runs by itself: `24h`; null: when it is called."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    large: t.Share | None = key(None, "At most this share of the requests goes to the tiers above the cheapest.")
    quality: t.Share | None = key(
        None, "kind learned: this share of the dearest tier's quality is kept, as the classifier expects it."
    )
    threshold: t.Share | None = key(None, "The score from which a request goes up; means another share on other traffic.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    check: Annotated[str, Choice("check", ("samples", "models", "logprobs"))] = key(
        "samples", "How an answer of the small tier is checked: two of one model or of two must agree, or one be certain enough."
    )
    certainty: t.Share = key(0.9, "check logprobs: the mean probability that its tokens must have had.")
    temperature: Annotated[float, Number(0.1, 2.0)] = key(
        0.7, "check samples: of the second answer to a request that wants the most likely one (temperature 0)."
    )
    floor: t.Share = key(0.7, "How likely the small tier must be good enough; below it the dear one is asked at once.")
    price: Annotated[float, Number(1.0, 1000.0)] = key(10.0, "How many times dearer a call of the dear tier is.")
    max_tokens: t.Count = key(2048, "Requests for longer answers are not tried.")
    charge: Annotated[str, Choice("charge", ("both", "answered"))] = key(
        "both", "What a tenant pays of a request that goes up: both tiers' tokens, or those of the one that answered."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    target: Target | None = key(None, "What decides between its tiers: one of these; null: `classifier.threshold`.")
    models: tuple[t.ModelName, ...] | None = key(None, "Models that may answer; null: all.")
    cascade: Cascade | None = key(None, "Short answers that can be checked are asked of the cheapest tier first; null: none are.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    enabled: bool = key(True, "Conversations stay on their tier. Off: each request stands for itself.")
    easy_turns: Annotated[int, Whole(0, 100)] = key(3, "Easy turns in a row that stay up, before a conversation may go down.")
    move_tokens: Annotated[int, Whole(0, 100_000_000)] = key(
        4096, "Tokens that going down may cost: those which the tier has read, and the other would compute."
    )
    loop_turns: Annotated[int, Whole(1, 10_000)] = key(
        100, "Turns of a tool loop that go to the model of its first; then its ask is judged once more."
    )
    warm: t.Seconds = key(300.0, "Since the last turn; later its engines are taken to have dropped what they read.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    wait: t.Seconds = key(1.0, "The expected wait for a slot from which on a tier is overloaded.")
    waits: Mapping[t.Name, t.Seconds] = section(dict, "The same of single tiers.")
    band: t.Share = key(
        0.5, "The share of a tier's work, from its cut on, that goes down where its wait is twice as long as that; 0: none does."
    )
    idle: t.Share = key(0.25, "The share of a dearer tier's slots that stay free, when easy work borrows some; 1: it never does.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    auto: t.ModelName = key("auto", 'The model name that means "you choose".')
    aliases: Mapping[t.ModelName, t.ModelName] = section(dict, "Other names for models, adapters or `auto`.")
    routes: Mapping[t.ModelName, Route] = section(
        dict,
        "More model names that mean `auto`, each with settings of its own; `auto` may be among them (docs/routing.md).",
    )
    classifier: Classifier = section(Classifier, "How `auto` rates a request.")
    tiers: tuple[t.Name, ...] = key((), "Tiers from cheap to dear; default: small, medium, large, then as they appear.")
    sessions: Sessions = section(Sessions, "What a conversation holds.")
    load: Load = section(Load, "What full tiers make of a choice by score.")
    fallback: Mapping[t.Name, t.Name] = section(dict, "Under `auto`: the tier that takes over when a tier fails.")
    learning: Learning = section(Learning, "Learning on own traffic; see learning.md.")
