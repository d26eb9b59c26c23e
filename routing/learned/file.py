"""A policy as one compact file: a line of JSON, then everything else packed and compressed.

A file may be damaged or hostile: sizes are checked before anything is built, what comes out of compression is bounded, and the
line carries the digest of the rest. Nothing in it is code, and no text of the training is in it, only hashes of its words.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from array import array
from typing import Any

from routing.grams import AMOUNTS
from routing.learned.policy import Head, Policy

_MAGIC = "tiergate-policy-1"
MOST_GRAMS = 400_000
MOST_PRIOR = 4096
MOST_LINE = 4096
MOST_BASE = 4 * 2**20


class BadPolicy(ValueError):  # noqa: N818 - says what is the matter
    """A file that is no policy of this version of the format."""


def write_policy(policy: Policy) -> bytes:
    order = sorted(range(len(policy.keys)), key=policy.keys.__getitem__)
    keys = [policy.keys[place] for place in order]
    gaps = [key - before for before, key in zip([0, *keys], keys, strict=False)]
    planes = b"".join(bytes(gap >> shift & 255 for gap in gaps) for shift in (0, 8, 16, 24))
    weights = [bytes(head.weights[place] & 255 for place in order) for head in (policy.gap, policy.mean)]
    numbers = [policy.unmet, policy.familiar, policy.strange, *policy.usual, *policy.spread]
    for head in (policy.gap, policy.mean):
        numbers += [head.bias, head.step, head.base, *head.amounts]
    base = b"" if policy.base is None else write_policy(policy.base)
    prior = [value for pair in policy.prior for value in pair]
    packed = zlib.compress(
        planes
        + bytes(policy.idf[place] for place in order)
        + weights[0]
        + weights[1]
        + struct.pack(f"<{len(numbers)}d", *numbers)
        + struct.pack(f"<{len(prior)}f", *prior)
        + base,
        9,
    )
    line = {
        "format": _MAGIC,
        "version": policy.version,
        "grams": len(keys),
        "prior": len(policy.prior),
        "base": len(base),
        "amounts": list(AMOUNTS),
        "sha256": hashlib.sha256(packed).hexdigest(),
    }
    return json.dumps(line).encode() + b"\n" + packed


def read_policy(data: bytes, *, alone: bool = False) -> Policy:
    """Raises BadPolicy. `alone`: it may have no base."""
    end = data.find(b"\n", 0, MOST_LINE)
    if end < 0:
        raise BadPolicy("this is no policy: its first line is not one")
    line = _line(data[:end])
    packed = data[end + 1 :]
    if hashlib.sha256(packed).hexdigest() != line.get("sha256"):
        raise BadPolicy("the policy is damaged: its digest is not that of its content")
    grams, prior = _count(line, "grams", MOST_GRAMS), _count(line, "prior", MOST_PRIOR)
    base = _count(line, "base", 0 if alone else MOST_BASE)
    half, many = 3 + len(AMOUNTS), len(AMOUNTS)
    numbers = 3 + 2 * many + 2 * half
    size = 7 * grams + 8 * numbers + 8 * prior + base
    raw = _inflated(packed, size)
    values = struct.unpack_from(f"<{numbers}d", raw, 7 * grams)
    pairs = struct.unpack_from(f"<{2 * prior}f", raw, 7 * grams + 8 * numbers)
    if not all(map(math.isfinite, (*values, *pairs))):
        raise BadPolicy("the policy holds numbers that are none")
    heads = values[3 + 2 * many :]
    return Policy(
        version=str(line.get("version"))[:64],
        keys=_keys(raw, grams),
        idf=raw[4 * grams : 5 * grams],
        unmet=values[0],
        gap=_head(heads[:half], raw[5 * grams : 6 * grams]),
        mean=_head(heads[half:], raw[6 * grams : 7 * grams]),
        familiar=values[1],
        usual=values[3 : 3 + many],
        spread=values[3 + many : 3 + 2 * many],
        strange=values[2],
        prior=tuple(zip(pairs[::2], pairs[1::2], strict=True)),
        base=read_policy(raw[size - base :], alone=True) if base else None,
    )


def _line(text: bytes) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict) or line.get("format") != _MAGIC:
        raise BadPolicy(f"this is no policy of the format {_MAGIC}")
    if line.get("amounts") != list(AMOUNTS):
        raise BadPolicy("the policy was trained by another version, with other amounts: train it anew")
    return line


def _count(line: dict[str, Any], name: str, most: int) -> int:
    count = line.get(name)
    if type(count) is not int or not 0 <= count <= most:
        raise BadPolicy(f"the policy's {name} must be a number from 0 to {most}")
    return count


def _inflated(packed: bytes, size: int) -> bytes:
    try:
        raw = zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error as error:
        raise BadPolicy("the policy is damaged: it cannot be unpacked") from error
    if len(raw) != size:
        raise BadPolicy("the policy is damaged: it has not the size that it says")
    return raw


def _keys(raw: bytes, grams: int) -> array[int]:
    keys = array("I" if array("I").itemsize == 4 else "L")
    total = 0
    for low, second, third, high in zip(*(raw[plane * grams : (plane + 1) * grams] for plane in range(4)), strict=True):
        total += low | second << 8 | third << 16 | high << 24
        if total > 0xFFFFFFFF:
            raise BadPolicy("the policy is damaged: a gram is out of range")
        keys.append(total)
    return keys


def _head(values: tuple[float, ...], weights: bytes) -> Head:
    return Head(values[0], values[1], array("b", weights), values[3:], values[2])
