"""Which requests are the same request.

The key is a keyed digest over the tenant, the endpoint, every model that may answer (with its version), the tier
override and the *whole* body, less a short list of fields that cannot change what the model says. A list of fields to
leave out ages well: a field that appears next year splits the cache instead of joining two requests that differ.

Two spellings of one JSON value give one key: the order of an object's keys, white space, string escapes, `1`, `1.0` and
`1e0`, `-0.0` and `0`. A null at the top level means "not given". Everything else counts: the order of arrays, a null
further down, `true` against `1`, `"1"` against `1`. Text is left as it is: two Unicode normal forms are two prompts to a
tokenizer, so they are two keys.

Whatever `msgspec.json.decode` can return can be keyed, however deeply it nests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

IGNORED = frozenset(
    {
        "model",  # the candidates stand for it: an alias and its model share answers
        "stream",  # an answer is kept once and replayed in either wire format
        "stream_options",
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "request_id",
        "priority",
        "cache_salt",
        "kv_transfer_params",
        "ec_transfer_params",
    }
)
"""The top-level fields that do not change what a model says, and so are no part of a key."""

KEY_BYTES = 24
_LOOKED_AT = 50_000  # members and elements of one field
_KEY_FORMAT = b"tiergate key 1"  # a new number whenever the canonical form changes: old entries then just miss
_ID_FORMAT = b"tiergate id 1"
_LONGEST_SECRET = 64  # what blake2b takes

_encode = msgspec.json.Encoder(order="sorted").encode


def exact_key(
    *,
    secret: bytes,
    tenant: str,
    endpoint: str,
    models: Sequence[tuple[str, str]],
    body: Mapping[str, Any],
    tier: str | None,
) -> bytes:
    """The 24-byte cache key of a request. `models`: every candidate as (name, version), in the order of preference."""
    identity = _encode((tenant, endpoint, models, tier))
    # The length in front keeps the two parts apart, whatever either holds.
    digest = blake2b(len(identity).to_bytes(8, "big"), digest_size=KEY_BYTES, key=_fit(secret), person=_KEY_FORMAT)
    digest.update(identity)
    digest.update(canonical(body))
    return digest.digest()


def entry_id(secret: bytes, key: bytes) -> str:
    """The id that a client sees: it tells nothing about the request to anybody without the secret."""
    return "ce-" + blake2b(key, digest_size=12, key=_fit(secret), person=_ID_FORMAT).hexdigest()


def canonical(body: Mapping[str, Any]) -> bytes:
    """One spelling of the body, without the ignored fields and the top-level nulls."""
    kept: dict[str, Any] = {}
    respell = False
    for name, value in body.items():
        if value is None or name in IGNORED:
            continue
        kind = type(value)
        if kind is float and value.is_integer():
            kept[name] = int(value)
            continue
        if kind is dict or kind is list:
            respell = respell or _holds_whole_float(value)
        kept[name] = value
    if not respell:
        try:
            return _encode(kept)
        except RecursionError:  # deep nesting on a deep stack; `_spell` needs no stack and writes the same bytes
            pass
    return _spell(kept)


def _fit(secret: bytes) -> bytes:
    if not secret:
        raise ValueError("a cache key needs a secret")
    return secret if len(secret) <= _LONGEST_SECRET else blake2b(secret, digest_size=_LONGEST_SECRET).digest()


def _holds_whole_float(value: Any) -> bool:
    """Whether a float somewhere inside should be spelled as an integer: rare, so it is looked for before it is mended."""
    containers, left = [value], _LOOKED_AT
    while containers:
        node = containers.pop()
        left -= len(node)
        if left < 0:
            return False  # so much that looking costs more than a miss: it is keyed as it is spelled
        for item in node.values() if type(node) is dict else node:
            kind = type(item)
            if kind is str or kind is int:
                continue
            if kind is dict or kind is list:
                containers.append(item)
            elif kind is float and item.is_integer():
                return True
    return False


def _spell(value: Any) -> bytes:
    """What the encoder writes, with whole floats as integers, and without recursion."""
    out: list[bytes] = []
    todo: list[Iterator[tuple[bytes, Any]]] = [iter(((b"", value),))]
    closers: list[bytes] = [b""]
    while todo:
        for lead, item in todo[-1]:
            if type(item) is dict:
                out.append(lead + b"{")
                todo.append(_members(item))
                closers.append(b"}")
                break
            if type(item) is list:
                out.append(lead + b"[")
                todo.append(_elements(item))
                closers.append(b"]")
                break
            whole = type(item) is float and item.is_integer()
            out.append(lead + _encode(int(item) if whole else item))
        else:
            todo.pop()
            out.append(closers.pop())
    return b"".join(out)


def _members(node: dict[str, Any]) -> Iterator[tuple[bytes, Any]]:
    lead = b""
    for name in sorted(node):
        yield lead + _encode(name) + b":", node[name]
        lead = b","


def _elements(node: list[Any]) -> Iterator[tuple[bytes, Any]]:
    lead = b""
    for item in node:
        yield lead, item
        lead = b","
