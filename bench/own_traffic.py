"""A worked example: from an empty log to a calibrated routing policy, with a real gateway before two scripted tiers.

    .venv/bin/python -m bench.own_traffic [--requests 2000] [--share 0.5] [--data DIR] [--json]

The traffic is a made-up support desk: what it is asked, and so how often the small tier is right, shows in the words, in a way
that no public data knows. With `--data` (a folder of public outcomes: mmlu_pro and cascade_answers) the tiers say what an 8B and
a 70B model really said. Some requests are shadowed, the agreement of the answers is written down, `tiergate calibrate` learns of
it, and the gateway takes the new policy over while it runs. What that is worth is measured on requests that came later, by what
was right: the example knows that, the gateway does not.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import yaml

from gateway.app import Gateway
from gateway.config import parse
from gateway.lab.calibrate.measure import Outcomes, Told, measure
from gateway.lab.fake import FakeVLLM, Options
from gateway.lab.routing.metrics import Resamples
from gateway.learning.versions import Versions
from gateway.logs import NullLog
from routing.learned.file import read_policy
from routing.learned.policy import Policy

KEY = "tg-own-traffic"
_AT_ONCE = 8
_PATIENCE = 60.0
_INTENTS = (  # how a request begins, how often it comes, and how often the small tier is right about it
    ("What is the open balance of", 4, 0.97),
    ("How many seats are left in", 4, 0.95),
    ("On which day of the month is the next invoice of", 3, 0.92),
    ("How many tickets did we close for", 3, 0.9),
    ("What is left to pay after the voided credit note of", 2, 0.55),
    ("How many days of the trial were paused for", 1, 0.5),
    ("What is the pro rata charge after the plan change of", 2, 0.25),
    ("What is the reverse charge across both entities of", 1, 0.15),
    ("How many minutes of downtime count against the clause of", 1, 0.2),
)
_NAMES = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Ginkgo", "Hazel", "Ivy", "Juniper")
_PLACES = (
    "in the north region",
    "for the reseller",
    "on the legacy contract",
    "in the sandbox",
    "for the parent account",
    "this quarter",
)
_LARGE = 0.95


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, what each tier says to it, and whether that is right."""

    text: str
    match: str  # a part of it that no other request has
    small: str
    large: str
    small_right: bool
    large_right: bool


def desk(count: int, seed: int) -> list[Asked]:
    """The support desk."""
    draw = random.Random(seed)
    asks = []
    for number in range(count):
        intent, _, easy = draw.choices(_INTENTS, weights=[often for _, often, _ in _INTENTS])[0]
        ticket = f"Ticket {seed:03d}{number:06d}."
        text = f"{intent} {draw.choice(_NAMES)} {draw.choice(_PLACES)}? {ticket} Answer with one number."
        right = draw.randrange(10, 100)
        small, large = draw.random() < easy, draw.random() < _LARGE
        said = [str(right) if good else f"The answer is {right + draw.randrange(1, 9)}." for good in (small, large)]
        asks.append(Asked(text, ticket, said[0], said[1], small, large))
    return asks


def public(
    folder: Path, count: int, seed: int, small: str = "llama-3.1-8b-instruct", large: str = "llama-3.1-70b-instruct"
) -> list[Asked]:
    """Examination questions, and what two models of one family answered."""
    answers = {row["id"]: row for row in _rows(folder / "cascade_answers.jsonl.gz") if row["dataset"] == "mmlu_pro"}
    asks = []
    for row in _rows(folder / "mmlu_pro.jsonl.gz"):
        known = answers.get(row["id"])
        said = {} if known is None else known["answers"]
        if known is not None and said.get(small) and said.get(large):
            gold, mark = known["gold"], f"[{row['id']}]"
            asks.append(
                Asked(f"{row['prompt']}\n{mark}", mark, said[small], said[large], said[small] == gold, said[large] == gold)
            )
    random.Random(seed).shuffle(asks)
    return asks[:count]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


async def example(
    asks: Sequence[Asked], later: Sequence[Asked], folder: Path, share: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Serves `asks`, calibrates, and measures on `later`. `folder` is empty."""
    fakes = {name: FakeVLLM(_scripted(folder, name, asks)) for name in ("small", "large")}
    async with fakes["small"], fakes["large"]:
        path = folder / "config.yaml"
        path.write_text(_config(folder, {name: fake.url for name, fake in fakes.items()}, share))
        gateway = Gateway(parse(path.read_text(), path), NullLog())
        await gateway.start()
        try:
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{gateway.port}", timeout=_PATIENCE, trust_env=False
            ) as client:
                before = await _serve(client, asks, gateway)
                say(f"{len(asks)} requests were served by the policy {before}; calibrating")
                await gateway.parts.behind.settled()
                await asyncio.to_thread(gateway.parts.journal.close)
                report = await _calibrate(path)
                after = await _policy_of(client, report["new"]["version"] if report["swapped"] else before)
                say(f"the policy {after} is in force")
        finally:
            await gateway.stop()
    versions = Versions(folder / "own" / "policies")
    made = versions.manifest().find(report["new"]["version"])
    policies = {"before": _shipped(), **({} if made is None else {"after": read_policy(versions.data(made))})}
    return {"calibration": report, "in_force": after, "later": {name: _worth(policy, later) for name, policy in policies.items()}}


def _scripted(folder: Path, tier: str, asks: Sequence[Asked]) -> Options:
    path = folder / f"{tier}.json"
    path.write_text(json.dumps([{"match": one.match, "content": one.small if tier == "small" else one.large} for one in asks]))
    return Options(script=str(path))


def _config(folder: Path, urls: dict[str, str], share: float) -> str:
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    return yaml.safe_dump(
        {
            "server": {"port": 0},
            "models": [
                {"name": f"{tier}-model", "tier": tier, "served_name": "fake", "context": 32768,
                 "replicas": [{"name": tier, "url": url}]}
                for tier, url in urls.items()
            ],
            "routing": {
                "classifier": {"kind": "learned"},
                "learning": {"enabled": True, "share": share, "per_minute": 100_000, "path": str(folder / "own")},
            },
            "cache": {"secret": "example"},
            "keys": {"path": str(folder / "keys.json")},
            "plans": {"all": {"priority": "realtime"}},
            "tenants": [{"name": "desk", "plan": "all", "keys": [{"id": "k", "sha256": digest}]}],
        }
    )  # fmt: skip


async def _serve(client: httpx.AsyncClient, asks: Sequence[Asked], gateway: Gateway) -> str:
    """Each once, a few at a time, in their order; the policy that the last answer named."""
    lanes = gateway.parts.lanes.values()
    async with asyncio.timeout(_PATIENCE):
        while not all(replica.up for lane in lanes for replica in lane.pool.replicas):  # noqa: ASYNC110 - once, at the start
            await asyncio.sleep(0.01)
    waiting, version = iter(asks), ""

    async def serve() -> None:
        nonlocal version
        for one in waiting:
            answer = await _ask(client, one.text)
            version = answer.headers.get("x-tiergate-policy", "")

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(serve())
    return version


async def _ask(client: httpx.AsyncClient, text: str) -> httpx.Response:
    body = {"model": "auto", "max_tokens": 16, "messages": [{"role": "user", "content": text}]}
    answer = await client.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {KEY}"})
    answer.raise_for_status()
    return answer


async def _calibrate(config: Path) -> dict[str, Any]:
    """As an operator would."""
    command = [sys.executable, "-m", "gateway.cli", "calibrate", "--config", str(config), "--json"]
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    said, _ = await child.communicate()
    if child.returncode != 0:
        raise RuntimeError(f"tiergate calibrate has failed: {said.decode(errors='replace')}")
    report: dict[str, Any] = json.loads(said)
    return report


async def _policy_of(client: httpx.AsyncClient, wanted: str) -> str:
    """The policy that answers name, once it is the one wanted."""
    async with asyncio.timeout(_PATIENCE):
        while (version := str((await _ask(client, "hello")).headers.get("x-tiergate-policy", ""))) != wanted:  # noqa: ASYNC110 - once
            await asyncio.sleep(0.1)
    return version


def _shipped() -> Policy:
    from routing.learned.shipped import shipped  # noqa: PLC0415 - read when it is needed

    return shipped()


def _worth(policy: Policy, later: Sequence[Asked]) -> dict[str, float | None]:
    was = Outcomes(np.array([float(one.small_right) for one in later]), np.array([float(one.large_right) for one in later]))
    figures, _ = measure(Told.of([policy.judge(one.text) for one in later]), was, Resamples(len(later)))
    return {
        "apgr": figures.apgr.value, "apgr_low": figures.apgr.low, "apgr_high": figures.apgr.high, "ece": figures.ece.value,
        "kept": figures.kept, "unknown": figures.unknown,
    }  # fmt: skip


def _table(found: dict[str, Any]) -> str:
    report, later = found["calibration"], found["later"]
    lines = [
        f"{report['labels']} labels; held out {report['held_out']}: {report['why']}; in force: {found['in_force']}",
        f"{'on later requests, by what was right':40} {'APGR':>24} {'ECE':>8} {'kept small at 95 %':>20}",
    ]
    for name, worth in later.items():
        apgr = (
            "undefined" if worth["apgr"] is None else f"{worth['apgr']:.3f} [{worth['apgr_low']:.3f}, {worth['apgr_high']:.3f}]"
        )
        lines.append(f"{name:40} {apgr:>24} {worth['ece']:8.3f} {worth['kept']:20.3f}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="From an empty log to a calibrated routing policy.")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--share", type=float, default=0.5, help="of the requests that are shadowed (0.5)")
    parser.add_argument("--later", type=int, default=2000, help="requests that the result is measured on")
    parser.add_argument("--data", type=Path, metavar="DIR", help="public outcomes instead of the made-up desk")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    if args.data is None:
        asks, later = desk(args.requests, args.seed), desk(args.later, args.seed + 1)
    else:
        found = public(args.data, args.requests + args.later, args.seed)
        asks, later = found[: args.requests], found[args.requests :]
    with tempfile.TemporaryDirectory(prefix="tg-own-") as folder:
        result = asyncio.run(example(asks, later, Path(folder), args.share, lambda text: print(text, file=sys.stderr)))
    print(json.dumps(result, indent=2) if args.json else _table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
