"""What a vLLM engine tells of its prefix cache, read: batches of events in msgpack, as `--kv-events-config` publishes them.

Only what a request can find again is taken: blocks in the engine's own memory (not those offloaded elsewhere), of the one group
layers that attends to everything. Kinds of events that are not known are passed over. Anything else that does not fit is
`Garbage`: the batch may have said something that mattered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from caches.tokens import STEP, ids_of

Hash = int | bytes

MOST_BLOCK = 1 << 16  # tokens
MOST_EVENTS = 1 << 13  # of a batch, which is what one step of an engine did
_LONGEST_HASH = 64
_NAMES = {
    "BlockStored": (
        "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
        "group_idx", "kv_cache_spec_kind",
    ),
    "BlockRemoved": ("block_hashes", "medium", "group_idx"),
    "AllBlocksCleared": (),
}  # fmt: skip
_WHOLE = frozenset({None, "full_attention", "mla_attention"})
_decode = msgspec.msgpack.Decoder().decode


class Garbage(Exception):  # noqa: N818 - it names what came
    """No batch of events."""


@dataclass(slots=True)
class Stored:
    """Blocks, each behind the one before, the first behind `parent`. `ids`: their tokens, packed.

    `strange`: by block, what it depends on that is neither token, adapter nor salt, such as an image.
    """

    hashes: list[Hash]
    parent: Hash | None
    ids: bytes
    size: int  # tokens of a block
    lora: str | None = None
    salt: str | None = None
    group: int | None = None
    strange: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Removed:
    hashes: list[Hash]
    group: int | None = None


@dataclass(slots=True)
class Cleared:
    """All of them."""


Event = Stored | Removed | Cleared


def read_batch(payload: bytes) -> tuple[float, list[Event]]:
    """(When it was made by the engine's clock, its events). Raises Garbage."""
    try:
        when, events = _decode(payload)[:2]
        return float(when), _events(events)
    except Garbage:
        raise
    except (msgspec.DecodeError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise Garbage(type(error).__name__) from None


def _events(told: Any) -> list[Event]:
    if len(told) > MOST_EVENTS:
        raise Garbage("too many events")
    return [event for one in told if (event := _event(one)) is not None]


def _event(told: Any) -> Event | None:
    if isinstance(told, list):  # as engines before 0.11 wrote them, and others still do
        kind, fields = told[0], dict(zip(_NAMES.get(told[0], ()), told[1:], strict=False))
    else:
        kind, fields = told["type"], told
    if kind == "AllBlocksCleared":
        return Cleared()
    if fields.get("medium") not in (None, "GPU") or fields.get("locality") not in (None, "LOCAL"):
        return None
    if kind == "BlockStored":
        return _stored(fields)
    return Removed(_hashes(fields["block_hashes"]), _group(fields)) if kind == "BlockRemoved" else None


def _stored(fields: Mapping[str, Any]) -> Stored | None:
    hashes, size, tokens, lora = (
        _hashes(fields["block_hashes"]),
        fields["block_size"],
        fields["token_ids"],
        fields.get("lora_name"),
    )
    if type(size) is not int or not 0 < size <= MOST_BLOCK or not (lora is None or isinstance(lora, str)):
        raise Garbage("block size or adapter")
    if fields.get("kv_cache_spec_kind") not in _WHOLE or size % STEP or len(tokens) != size * len(hashes):
        return None  # layers that look back over a window only, and whose blocks may be left out in between
    parent = fields["parent_block_hash"]
    stored = Stored(hashes, None if parent is None else _hash(parent), ids_of(tokens), size, lora, None, _group(fields))
    for at, extras in enumerate(fields.get("extra_keys") or ()):
        for nth, extra in enumerate(extras or ()):
            if isinstance(extra, str):
                if nth or extra != lora:
                    stored.salt = extra
            else:
                stored.strange[at] = stored.strange.get(at, b"") + msgspec.msgpack.encode(extra)
    return stored


def _hashes(told: Any) -> list[Hash]:
    return [_hash(one) for one in told]


def _hash(told: Any) -> Hash:
    if type(told) is int or (isinstance(told, bytes) and len(told) <= _LONGEST_HASH):
        return told
    raise Garbage("block hash")


def _group(fields: Mapping[str, Any]) -> int | None:
    group = fields.get("group_idx")
    if group is None or type(group) is int:
        return group
    raise Garbage("group")
