"""The body of a request: parsed once, kept as bytes, and edited only where the closed list says.

Rules of this file
1. What a client sent goes upstream byte for byte. The only edits are at the top level of the JSON object: `model`
   replaced, `stream_options.include_usage` set on streams of chat and completions (and its `continuous_usage_stats`, which
   means nothing without it, left out where it was the client's only word), `cache_salt` and `priority` set where
   a pool wants them and the endpoint reads them, and the privileged fields below deleted. Nothing else is touched, not
   even white space. (The one field of a form that is replaced is in `multipart`.)
2. A duplicate key at the top level is refused: two readers of one body could disagree about which counts. Below it the last
   one counts, here and in engines whose reader is Python's, as vLLM's is.
3. A body is hostile: size is bounded by the server, how much it holds by `bounds`, depth and types here. Whatever is wrong is
   a 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from gateway.bounds import refuse_too_much
from gateway.errors import ApiError

MAX_DEPTH = 128
MAX_N = 128
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_NOTHING: frozenset[str] = frozenset()
PRIVILEGED = frozenset({"priority", "cache_salt", "request_id", "kv_transfer_params", "ec_transfer_params"})
"""Fields that steer the engine itself: a tenant's own are deleted."""

_EACH_CHUNK = "continuous_usage_stats"

_FIELDS = msgspec.json.Decoder(dict[str, Any])
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OPEN = re.compile(rb"[ \t\r\n]*\{[ \t\r\n]*")
_KEY = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_NEXT = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")
_CLOSE = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*")
_SMALL = 16_384  # past it walking a body is cheaper than writing it anew
_TINY = 1_024  # bytes
_MAX_KEYS = 1_000  # of the top level

_Values = Mapping[str, msgspec.Raw]
"""The members of the top level, each value as the bytes that stand in the body."""

_Layout = Callable[[_Values], bytes]
"""Writes members in one of the usual ways."""


class Ask(msgspec.Struct):
    """One parsed request body."""

    raw: bytes
    fields: dict[str, Any]
    values: _Values
    layout: _Layout | None  # the one that writes `values` as `raw`, where one does
    model: str  # as the client calls it: the body's, or the path's
    stream: bool
    include_usage: bool  # the client itself asked for the usage chunk

    @property
    def usage_in_each_chunk(self) -> bool:
        """The client wants what others who ask the same do not."""
        return self.include_usage and bool(self.fields["stream_options"].get(_EACH_CHUNK))

    def integer(self, name: str) -> int | None:
        """A count that the client gave: never negative, None when absent. ApiError 400 for anything that is no integer."""
        value = self.fields.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ApiError(400, "invalid_type", f"`{name}` must be an integer.", param=name)
        return max(0, value)

    def maximum(self, name: str) -> int | None:
        """A bound that the client named, None when it names none. A negative one is none: to some engines -1 is endless."""
        value = self.integer(name)
        return None if value == 0 and self.fields[name] < 0 else value


def parse(raw: bytes, model: str | None = None, fields: dict[str, Any] | None = None) -> Ask:
    """Parse a body. `model` is the one that the path names (the Azure form). Raises ApiError 400.

    `fields` is what `decode` made of it, where that was a step of its own, behind one that refused too much.
    """
    if fields is None:
        refuse_too_much(raw)
        fields = decode(raw)
    if _may_be_deep(raw) and _deeper_than(fields, MAX_DEPTH):
        raise _too_deep()
    values = _RAW.decode(raw)
    layout: _Layout | None = None
    if len(raw) <= _SMALL:
        layout = _PLAIN if _PLAIN(values) == raw else _spaced if _spaced(values) == raw else None
    if layout is None:
        _members(raw, values)
    name = fields.get("model") if model is None else model
    if not isinstance(name, str) or not name or len(name) > 512:
        raise ApiError(400, "missing_model", "`model` must name a model: a string of 1 to 512 characters.", param="model")
    stream = fields.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise ApiError(400, "invalid_type", "`stream` must be true or false.", param="stream")
    options = fields.get("stream_options")
    include_usage = options is not None and isinstance(options, dict) and options.get("include_usage") is True
    ask = Ask(raw, fields, values, layout, name, bool(stream), include_usage)
    for count in ("n", "best_of"):
        if count in fields and (ask.integer(count) or 0) > MAX_N:
            raise ApiError(400, "too_many_choices", f"`{count}` may be at most {MAX_N}.", param=count)
    return ask


def decode(raw: bytes) -> dict[str, Any]:
    """The object that a body is. Raises ApiError 400."""
    try:
        fields = _FIELDS.decode(raw)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.ValidationError as error:
        what = "must be a JSON object" if "`object`" in str(error) else "holds a number that is out of range"
        raise ApiError(400, "invalid_json", f"The request body {what}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = " (half of a surrogate pair, as of a cut emoji, is no text)" if _SURROGATE.search(raw) else ""
        raise ApiError(400, "invalid_json", f"The request body is not valid JSON: {error}{hint}.") from None
    if len(fields) > _MAX_KEYS:
        raise ApiError(400, "invalid_json", f"The JSON body has more than {_MAX_KEYS} keys at its top level.")
    return fields


def _may_be_deep(raw: bytes) -> bool:
    """Whether it has so many brackets. Looking for each is a twentieth of looking at every byte, where they are few."""
    if len(raw) <= 2 * MAX_DEPTH:
        return False  # too short, whatever it holds
    if len(raw) <= _TINY:
        return raw.count(b"[") + raw.count(b"{") > MAX_DEPTH
    found = 0
    for bracket in (b"[", b"{"):
        at = raw.find(bracket)
        while at >= 0:
            found += 1
            if found > MAX_DEPTH:
                return True
            at = raw.find(bracket, at + 1)
    return False


def _deeper_than(fields: dict[str, Any], bound: int) -> bool:
    """Is it nested deeper than that? One level after the other, strings and numbers left behind."""
    level: list[Any] = [fields]
    for _ in range(bound):
        level = [
            child
            for one in level
            for child in (one.values() if type(one) is dict else one)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _too_deep() -> ApiError:
    return ApiError(400, "invalid_json", f"The JSON body is nested deeper than {MAX_DEPTH} levels.")


def _spaced(values: _Values) -> bytes:
    """As Python's json writes."""
    return b"{%b}" % b", ".join([b'"%b": %b' % (name.encode(), value) for name, value in values.items()])


_PLAIN: _Layout = msgspec.json.encode
"""It and `_spaced` are the ways in which nearly all clients write: without white space, and Python's. What one of them writes
from the members that the decoder found is the body itself only if no key stands there twice. It costs a sixth of walking a small
body."""


_Member = tuple[str, int, int, int]
"""Where one `"key": value` of the top level lies in the body: name, start of the key, start of the value, end."""


def _members(raw: bytes, values: _Values) -> list[_Member]:
    """The top level's members in order. `raw` is valid JSON by now, so only duplicates can lead the walk astray.

    The decoder keeps the last of two equal keys: the walk then finds other bytes than it was told of, or too many keys. Of
    JSON's values only a number can be the beginning of another, and what follows it there is no comma and no end.
    """
    members: list[_Member] = []
    opening = _OPEN.match(raw)
    position = end = opening.end() if opening else 0
    seen: set[str] = set()
    while len(members) < len(values):
        key = _KEY.match(raw, position)
        name = None if key is None else _name(key.group(1))
        if key is None or name is None or name in seen:
            raise _duplicate(name or "")
        value = memoryview(values[name])
        if not raw.startswith(value, key.end()):
            raise _duplicate(name)
        end = key.end() + len(value)
        members.append((name, position, key.end(), end))
        seen.add(name)
        comma = _NEXT.match(raw, end)
        if (comma is None) != (len(members) == len(values)):
            raise _duplicate(name)
        position = comma.end() if comma else end
    if _CLOSE.fullmatch(raw, end) is None:
        raise _duplicate(members[-1][0] if members else "")
    return members


def _name(key: bytes) -> str:
    return key.decode() if b"\\" not in key else msgspec.json.decode(b'"%b"' % key, type=str)


def _duplicate(name: str) -> ApiError:
    which = f" (near `{name[:64]}`)" if name else ""
    return ApiError(400, "duplicate_key", f"The JSON body has the same key twice at its top level{which}.")


def edit(
    ask: Ask, *, model: str, cache_salt: str | None = None, priority: int | None = None, stream_options: bool = True
) -> bytes:
    """The body as it goes upstream. Untouched bytes stay as they were; an unedited body is the very same object.

    `stream_options`: a stream of this endpoint tells its usage only when asked to.
    """
    fields = ask.fields
    wanted: dict[str, msgspec.Raw] = {}
    if fields.get("model") != model:
        wanted["model"] = _text(model)
    if stream_options and ask.stream and not ask.include_usage:
        options = fields.get("stream_options")
        if not options and (options is None or isinstance(options, dict)):
            wanted["stream_options"] = _WITH_USAGE
        elif isinstance(options, dict):
            kept = {name: value for name, value in options.items() if name != _EACH_CHUNK}
            wanted["stream_options"] = msgspec.Raw(msgspec.json.encode({**kept, "include_usage": True}))
    if cache_salt is not None:
        wanted["cache_salt"] = _text(cache_salt)
    if priority is not None:
        wanted["priority"] = msgspec.Raw(b"%d" % priority)
    deleted = _NOTHING if PRIVILEGED.isdisjoint(fields) else PRIVILEGED.intersection(fields).difference(wanted)
    if not wanted and not deleted:
        return ask.raw
    if ask.layout is None:
        return _spliced(ask, wanted, deleted)
    values = {**ask.values, **wanted}
    for name in deleted:
        del values[name]
    return ask.layout(values)


@lru_cache(maxsize=1024)
def _text(value: str) -> msgspec.Raw:
    """A model's name or a tenant's salt, as JSON: there are as many as the config has."""
    return msgspec.Raw(msgspec.json.encode(value))


_WITH_USAGE = msgspec.Raw(msgspec.json.encode({"include_usage": True}))


def _spliced(ask: Ask, wanted: dict[str, msgspec.Raw], deleted: frozenset[str]) -> bytes:
    """The body of a client that writes in a way of its own: every byte and separator but the members meant is kept."""
    raw, members = memoryview(ask.raw), _members(ask.raw, ask.values)
    pieces: list[bytes | memoryview | msgspec.Raw] = [raw[: members[0][1]] if members else b"{"]
    previous_end = 0
    kept = False
    for name, start, value_start, end in members:
        separator = raw[previous_end:start]
        previous_end = end
        if name in deleted:
            continue
        if kept:
            pieces.append(separator)
        kept = True
        if name in wanted:
            pieces += (raw[start:value_start], wanted.pop(name))
        else:
            pieces.append(raw[start:end])
    for name, value in wanted.items():
        pieces += (b"," if kept else b"", b'"%b":' % name.encode(), value)
        kept = True
    pieces.append(raw[previous_end:] if members else b"}")
    return b"".join(pieces)
