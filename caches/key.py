"""Which requests are the same request.

The key is a keyed digest over the scope, the endpoint, every model that may answer (with its version; LoRA adapters are
models here), the tier override and the *whole* body, less a short list of fields that cannot change the answer. A list of
fields to leave out ages well: a field that appears next year splits the cache instead of joining two requests that differ.

Two spellings of one JSON value give one key: the order of an object's keys, white space, string escapes, `1`, `1.0` and
`1e0`, `-0.0` and `0`. At the top level null means "not given" for the fields that the API says so of. Everything else
counts: the order of arrays, any other null, `true` against `1`, `"1"` against `1`. Text is left as it is: two Unicode normal
forms are two prompts to a tokenizer, so they are two keys. (Of bodies with more than 10,000 values the spelling of numbers may
count as well: such a body misses what was kept for its twin.)

Whatever `msgspec.json.decode` can return can be keyed, however deeply it nests.

The body is written as MessagePack: in one pass, without escapes, and a value of it never runs into the next. Integers that
MessagePack has no room for are extensions of it. Of a long body that spelling's SHA-256 is in the key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b, sha256
from itertools import repeat
from typing import Any

import msgspec

from caches.scope import Scope

ECHOED = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prompt_cache_options",
    }
)
"""Fields that do not change what a model says, but that an answer of `/v1/responses` repeats: there they are part of the key,
or one user would be told the name of another."""

IGNORED = ECHOED | {
    "model",  # the candidates stand for it: an alias and its model share answers
    "stream",  # an answer is kept once and replayed in either wire format
    "stream_options",
    "stream_interval",  # how many tokens vLLM puts into one event
    "request_id",
    "session_id",  # of vLLM: which requests belong together
    "priority",
    "cache_salt",
    "kv_transfer_params",
    "ec_transfer_params",
}
"""The top-level fields that are no part of a key."""

NULLABLE = frozenset(
    {
        "allowed_token_ids", "audio", "background", "best_of", "chat_template", "chat_template_kwargs",
        "context_management", "conversation", "dimensions", "documents", "echo", "frequency_penalty", "include",
        "instructions", "logit_bias", "logprob_token_ids", "logprobs", "max_completion_tokens", "max_output_tokens",
        "max_tokens", "max_tool_calls", "media_io_kwargs", "min_p", "mm_processor_kwargs", "modalities", "moderation",
        "n", "padding", "parallel_tool_calls", "prediction", "presence_penalty", "previous_input_messages",
        "previous_response_id", "prompt", "prompt_embeds", "prompt_logprobs", "reasoning", "reasoning_effort",
        "repetition_detection", "repetition_penalty", "response_format", "return_prompt_text", "return_token_ids",
        "return_token_offsets", "return_tokens_as_token_ids", "seed", "stop", "stop_sequences", "stop_token_ids",
        "structured_outputs", "suffix", "system", "temperature", "text", "thinking", "thinking_token_budget", "tools",
        "top_k", "top_logprobs", "top_p", "truncate_prompt_tokens", "truncation_side", "use_activation", "verbosity",
        "vllm_xargs", "watermarking",
    }
)  # fmt: skip
"""The top-level fields whose null is the same as their absence, by the references of the APIs or vLLM 0.32's own defaults.

Not `tool_choice` (absent it is "auto" as soon as there are tools, null it is not) nor `truncation` (vLLM truncates at null).
"""

KEY_BYTES = 24
_IGNORED_OF = {"responses": IGNORED - ECHOED}
_NULLABLE_OF = {"completions": NULLABLE - {"max_tokens"}}  # absent it is 16, null (to vLLM) as many as there is room for
_LOOKED_AT = 10_000  # members and elements
_LOOKS = 250  # at what may be a float, before walking is cheaper
_KEY_FORMAT = b"tiergate key 3"  # a new number whenever the canonical form changes: old entries then just miss
_ID_FORMAT = b"tiergate id 2"
_LONG = 65_536  # bytes past which a body stands in its key as its SHA-256, for which processors have instructions
_NEVER = b"\xc1"  # the one byte that no MessagePack begins with
_LONGEST_SECRET = 64  # what blake2b takes
_AS_IT_IS = _NEVER + b"repr"
_FLOAT = b"\xcb"  # how MessagePack begins a float; elsewhere it is rare
_FOUR = b"\x94"  # how MessagePack begins an array of so many
_BIG = 1  # the extension that an integer of more than 64 bits is

_encode = msgspec.msgpack.Encoder(order="sorted").encode
_number = struct.Struct(">d").unpack_from


def exact_key(
    *,
    secret: bytes,
    scope: Scope,
    endpoint: str,
    models: Sequence[tuple[str, str]],
    body: Mapping[str, Any],
    tier: str | None,
) -> bytes:
    """The 24-byte cache key of a request. `models`: every candidate as (name, version), in the order of preference."""
    return key_of(secret, identity(scope, endpoint, models, tier), body, endpoint)


def identity(scope: Scope, endpoint: str, models: Sequence[tuple[str, str]], tier: str | None) -> bytes:
    """The part of a key that is no part of the body."""
    return identity_of_scope(scope) + identity_of_asked(endpoint, models, tier)


def identity_of_scope(scope: Scope) -> bytes:
    """Its first half: there are as many as scopes."""
    return _FOUR + _encode(scope.tag)


def identity_of_asked(endpoint: str, models: Sequence[tuple[str, str]], tier: str | None) -> bytes:
    """Its second half: all tenants that may call the same have the same."""
    return _encode(endpoint) + _encode(models) + _encode(tier)


def key_of(secret: bytes, identity: bytes, body: Mapping[str, Any], endpoint: str) -> bytes:
    """`exact_key`, of an `identity` that is there already."""
    spelled = canonical(body, endpoint)
    if len(spelled) > _LONG:
        spelled = _NEVER + sha256(spelled).digest()
    return blake2b(identity + spelled, digest_size=KEY_BYTES, key=_fit(secret), person=_KEY_FORMAT).digest()


def entry_id(secret: bytes, key: bytes) -> str:
    """The id that a client sees: it tells nothing about the request to anybody without the secret."""
    told = _ids(secret).copy()
    told.update(key)
    return "ce-" + told.hexdigest()


@lru_cache(8)
def _ids(secret: bytes) -> blake2b:
    """What every id of a secret begins with: half of its cost."""
    return blake2b(digest_size=12, key=_fit(secret), person=_ID_FORMAT)


def _fit(secret: bytes) -> bytes:
    if not secret:
        raise ValueError("a cache key needs a secret")
    return secret if len(secret) <= _LONGEST_SECRET else blake2b(secret, digest_size=_LONGEST_SECRET).digest()


def canonical(body: Mapping[str, Any], endpoint: str) -> bytes:
    """One spelling of the body, without the ignored fields and the nulls that mean nothing."""
    ignored, nullable = _IGNORED_OF.get(endpoint, IGNORED), _NULLABLE_OF.get(endpoint, NULLABLE)
    kept: dict[str, Any] = {}
    for name, value in body.items():
        if name in ignored or (value is None and name in nullable):
            continue
        kept[name] = int(value) if type(value) is float and value.is_integer() else value
    try:
        spelled = _encode(kept)
    except RecursionError:  # `_spell` needs no stack, has integers of any size, and else writes the same bytes
        return _spell(kept)
    except OverflowError:
        return _spell(kept) if _look(kept)[0] else _AS_IT_IS + repr(kept).encode()
    return _spell(kept) if _looks_like_whole_float(spelled) and all(_look(kept)) else spelled


def _looks_like_whole_float(spelled: bytes) -> bool:
    """Whether there are bytes that would be a whole float, if they are a float: seldom, so that the body is seldom walked."""
    at = -1
    for _ in range(_LOOKS):
        at = spelled.find(_FLOAT, at + 1)
        if not 0 <= at <= len(spelled) - 9:
            return False
        if _number(spelled, at + 1)[0].is_integer():
            return True
    return True


def _look(value: Any) -> tuple[bool, bool]:
    """Whether it is little enough to be spelled in Python, and whether a float in it is to be spelled as an integer.

    What is more is keyed as it came: two spellings of it miss each other, which costs less than looking.
    """
    containers, left, found = [value], _LOOKED_AT, False
    while containers:
        node = containers.pop()
        left -= len(node)
        if left < 0:
            return False, found
        for item in node.values() if type(node) is dict else node:
            kind = type(item)
            if kind is str or kind is int:
                continue
            if kind is dict or kind is list:
                containers.append(item)
            elif kind is float and item.is_integer():
                found = True
    return True, found


def _spell(value: Any) -> bytes:
    """What the encoder writes, with whole floats as integers, integers of any size, and without recursion."""
    out: list[bytes] = []
    todo: list[Iterator[tuple[bytes, Any]]] = [iter(((b"", value),))]
    while todo:
        for lead, item in todo[-1]:
            if type(item) is dict:
                out.append(lead + _head(len(item), 0x80, b"\xde", b"\xdf"))
                todo.append(_members(item))
                break
            if type(item) is list:
                out.append(lead + _head(len(item), 0x90, b"\xdc", b"\xdd"))
                todo.append(zip(repeat(b""), item))
                break
            out.append(lead + _scalar(item))
        else:
            todo.pop()
    return b"".join(out)


def _members(node: dict[str, Any]) -> Iterator[tuple[bytes, Any]]:
    for name in sorted(node):
        yield _encode(name), node[name]


def _head(count: int, short: int, medium: bytes, long: bytes) -> bytes:
    """How a map or an array of so many begins."""
    if count < 16:
        return bytes((short | count,))
    return medium + count.to_bytes(2, "big") if count < 65_536 else long + count.to_bytes(4, "big")


def _scalar(item: Any) -> bytes:
    if type(item) is float and item.is_integer():
        item = int(item)
    try:
        return _encode(item)
    except OverflowError:
        return _encode(msgspec.msgpack.Ext(_BIG, item.to_bytes(item.bit_length() // 8 + 1, "big", signed=True)))
