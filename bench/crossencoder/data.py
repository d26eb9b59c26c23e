"""Pairs to train on, to choose a threshold with, and to tell the figures of: kept apart by a hash that never changes.

Labelled pairs that share a text stay together, so nothing that is told of was seen in any form. Blocks of groups.txt are trained
on, or chosen with. Never here: Quora's pairs (not free), PAWS-X and LCQMC (Chinese, which MiniLM does not read).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

from bench.crossencoder.edits import MANNERS, MATTERS, any_of
from bench.crossencoder.slots import SLOTS
from gateway.lab.cacheeval.clusters import Union
from gateway.lab.cacheeval.formats import load
from gateway.lab.cacheeval.pairs import Pair as Labelled

GROUPS = Path(__file__).with_name("groups.txt")
DRAWS = 16  # pairs of one meaning
AGAIN = 6  # times that a labelled pair is trained on, each time in another manner
_SLOT = re.compile(r"\{(\w+?)(\d?)\}")

Block = list[list[str]]  # meanings, each in its wordings


class Part(StrEnum):
    TRAIN = "train"
    CHOOSE = "choose"
    TELL = "tell"


@dataclass(frozen=True, slots=True)
class Pair:
    a: str
    b: str
    same: bool


def part_of(key: str, choose: float, tell: float) -> Part:
    share = int.from_bytes(hashlib.sha256(f"cross-encoder {key}".encode()).digest()[:4]) / 2**32
    return Part.TELL if share < tell else Part.CHOOSE if share < tell + choose else Part.TRAIN


def labelled(file: Path, part: Part) -> list[Labelled]:
    """Of a set of labelled pairs: 45 % to train on, 15 % to choose with, 40 % to tell of."""
    pairs = load(file).pairs
    union = Union()
    for pair in pairs:
        union.join(pair.a, pair.b)
    groups: dict[str, list[Labelled]] = {}
    for pair in pairs:
        groups.setdefault(union.find(pair.a), []).append(pair)
    named = {min(text for pair in group for text in (pair.a, pair.b)): group for group in groups.values()}
    return [pair for name, group in named.items() if part_of(name, 0.15, 0.4) is part for pair in group]


def blocks(part: Part) -> list[Block]:
    """Of groups.txt: seven eighths to train on, an eighth to choose with."""
    texts = [block for block in GROUPS.read_text().split("\n\n") if not block.startswith("#")]
    chosen = [block.strip() for block in texts if part_of(block.strip().split("|")[0], 0.125, 0.0) is part]
    return [[[wording.strip() for wording in line.split("|")] for line in block.splitlines()] for block in chosen]


def drawn(some: list[Block], draws: int, random: Random) -> list[Pair]:
    """About as many right pairs as traps."""
    return [_pair(block, meaning, random) for block in some for meaning in block for _ in range(draws)]


def _pair(block: Block, meaning: list[str], random: Random) -> Pair:
    one, other = random.sample(meaning, 2)
    values = filling("".join(wording for line in block for wording in line), random)
    kind = random.random()
    if kind < 0.5:
        b = other if kind < 0.42 else one
        made = _mannered(_filled(b, values), random, 0.5 if b is other else 1.0)
        return Pair(_filled(one, values), made, same=True)
    stored, asked = _filled(one, values), _filled(random.choice((one, other)), values)
    if kind < 0.68:
        b = random.choice((one, other))
        asked = _filled(b, refilled(b, values, random))
    elif kind < 0.84 and len(block) > 1:
        asked = _filled(random.choice(random.choice([it for it in block if it is not meaning])), values)
    else:
        asked = any_of(MATTERS, asked, random) or asked
    if asked in {_filled(wording, values) for wording in meaning}:  # nothing to change: a right pair after all
        return Pair(stored, asked, same=True)
    return Pair(stored, _mannered(asked, random, 0.25), same=False)


def filling(text: str, random: Random) -> dict[str, str]:
    """A value for each slot; {city} and {city2} never the same one."""
    names = {(name, number) for name, number in _SLOT.findall(text)}
    kinds = sorted({name for name, _ in names})
    values: dict[str, str] = {}
    for kind in kinds:
        values[kind], values[f"{kind}2"] = random.sample(SLOTS[kind], 2)
    return values


def refilled(text: str, values: dict[str, str], random: Random) -> dict[str, str]:
    """Another value for one slot of the text; two of a kind change places as often as not."""
    names = sorted({f"{name}{number}" for name, number in _SLOT.findall(text)})
    if not names:
        return values
    name = random.choice(names)
    kind = name.rstrip("2")
    if f"{kind}2" in names and random.random() < 0.5:
        return {**values, kind: values[f"{kind}2"], f"{kind}2": values[kind]}
    return {**values, name: random.choice([it for it in SLOTS[kind] if it not in (values[kind], values[f"{kind}2"])])}


def _filled(text: str, values: dict[str, str]) -> str:
    made = _SLOT.sub(lambda slot: values[slot[1] + slot[2]], text)
    return made if made[-1:] in "?.!" or not made.startswith(("Ways", "Show")) else f"{made}."


def _mannered(text: str, random: Random, share: float) -> str:
    while random.random() < share:
        text = any_of(MANNERS, text, random) or text
        share /= 3
    return text


def taught(pairs: list[Labelled], random: Random) -> list[Pair]:
    """Labelled pairs in several manners, and what the rules make of their texts."""
    made = []
    for pair in pairs:
        for _ in range(AGAIN):
            made.append(Pair(pair.a, _mannered(pair.b, random, 0.3), pair.same))
            if pair.same and (asked := any_of(MATTERS, random.choice((pair.a, pair.b)), random)) is not None:
                made.append(Pair(random.choice((pair.a, pair.b)), asked, same=False))
            else:
                made.append(Pair(pair.a, _mannered(pair.a, random, 1.0), same=True))
    return made
