r"""A multipart/form-data body: read just far enough to know the model, and edited in that one field.

Rules of this file
1. Everything but the value of `model` goes upstream byte for byte, under the client's own content-type line.
2. We and the backend must see the same fields, or a tenant could name one model to us and another to it. So the form is
   read strictly: what two readers could understand in two ways is a 400, not a guess. No text before the first boundary or
   after the last one, no boundary that something other than a line end or `--` follows, no folded or doubled
   `Content-Disposition`, no escapes or parameters that we do not know in it, no other charset, no second `model`.
3. Looking for a boundary is a search for bytes, linear in the body; parts and their heads are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.errors import ApiError
from gateway.wire import Ask

_MAX_PARTS = 128
_MAX_HEAD = 8_192
_MAX_FLAG = 16
_MAX_MODEL = 512
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_TYPE = re.compile(rb"multipart/form-data[ \t]*(;.*)", re.IGNORECASE)
_PARAMETER = re.compile(rb'[ \t]*;[ \t]*(%b)=(?:(%b)|"([^"\\\r\n]*)")[ \t]*' % (_TOKEN, _TOKEN))
_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_DISPOSITION = re.compile(rb"form-data((?:[ \t]*;.*)?)", re.IGNORECASE)
_OPTION = re.compile(rb'[ \t]*;[ \t]*(name|filename\*?)[ \t]*=[ \t]*(?:(%b)|"((?:[^"\\\r\n]|\\(?!"))*)")' % _TOKEN, re.IGNORECASE)
_HEADER = re.compile(rb"(%b):[ \t]*([^\r\n\0]*)" % _TOKEN)
_TRUE = frozenset({b"true", b"1", b"t", b"y", b"yes", b"on"})  # what pydantic, which vLLM reads forms with, takes for true


class FormAsk(Ask):
    """One parsed form. `span` is where the model's name lies in the body; `missing`: the path names it, and the form does not."""

    span: tuple[int, int] = (0, 0)
    missing: bytes = b""  # the boundary line under which a `model` field can be put in front


def parse(raw: bytes, content_type: bytes, model: str | None = None) -> FormAsk:
    """Parse a form. `model` is the one that the path names (the Azure form). Raises ApiError 400 and 415."""
    delimiter = b"\r\n--" + boundary(content_type)
    found: dict[bytes, tuple[int, int]] = {}
    for name, is_file, start, end in _parts(raw, delimiter):
        if name not in (b"model", b"stream"):
            continue
        if name in found:
            raise _wrong(f"the field `{name.decode()}` is there twice", "duplicate_key")
        if is_file:
            raise _wrong(f"the field `{name.decode()}` is a file")
        found[name] = (start, end)
    start, end = found.get(b"stream", (0, 0))
    stream = end - start <= _MAX_FLAG and raw[start:end].strip().lower() in _TRUE
    if b"model" not in found and model is not None:
        return FormAsk(raw, {}, {}, None, model, stream, include_usage=True, missing=delimiter[2:])
    span = found.get(b"model", (0, 0))
    name_given = _model(raw, span)
    return FormAsk(raw, {"model": name_given}, {}, None, model or name_given, stream, include_usage=True, span=span)


def edit(ask: FormAsk, model: str) -> bytes:
    """The form as it goes upstream; an unedited one is the very same object."""
    if ask.missing:
        head = b'%b\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n' % (ask.missing, model.encode())
        return head + ask.raw
    if ask.fields["model"] == model:
        return ask.raw
    start, end = ask.span
    view = memoryview(ask.raw)
    return b"".join((view[:start], model.encode(), view[end:]))


def boundary(content_type: bytes) -> bytes:
    """The boundary that a content-type names. ApiError 415 when it is no form, 400 when the boundary is not usable."""
    form = _TYPE.fullmatch(content_type.strip())
    if form is None:
        raise ApiError(415, "unsupported_media_type", "Send this request as multipart/form-data, with its boundary.")
    found: dict[bytes, bytes] = {}
    at, parameters = 0, form.group(1)
    while at < len(parameters):
        one = _PARAMETER.match(parameters, at)
        name = b"" if one is None else one.group(1).lower()
        if one is None or name in found:
            raise _wrong("its content-type is not well formed")
        found[name] = one.group(2) or one.group(3) or b""
        at = one.end()
    charset = found.pop(b"charset", b"utf-8").lower()
    text = found.pop(b"boundary", b"")
    if found or charset not in (b"utf-8", b"us-ascii"):
        raise _wrong("its content-type has parameters other than the boundary")
    if _BOUNDARY.fullmatch(text) is None:
        raise _wrong("its boundary is missing, or is none of 1 to 70 allowed characters")
    return text


def _parts(raw: bytes, delimiter: bytes) -> Iterator[tuple[bytes, bool, int, int]]:
    """(name, is it a file, where the value begins, where it ends) of every part."""
    if not raw.startswith(delimiter[2:]):
        raise _wrong("it does not begin with its boundary")
    at = len(delimiter) - 2
    for _ in range(_MAX_PARTS):
        if raw.startswith(b"--", at):
            if raw[at + 2 : at + 5] not in (b"", b"\r\n"):
                raise _wrong("something follows its last boundary")
            return
        if not raw.startswith(b"\r\n", at):
            raise _wrong("a boundary is not followed by a line end")
        head_end = raw.find(b"\r\n\r\n", at, at + _MAX_HEAD)
        if head_end < 0:
            raise _wrong(f"the head of a part does not end within {_MAX_HEAD} bytes")
        if raw.find(delimiter, at, head_end) >= 0:
            raise _wrong("a boundary stands in the head of a part")
        end = raw.find(delimiter, head_end + 2)  # an empty value's boundary shares a line end with the head
        if end < head_end + 4:
            raise _wrong("its last boundary is missing" if end < 0 else "a part has no value")
        name, is_file = _disposition(raw[at + 2 : head_end])
        yield name, is_file, head_end + 4, end
        at = end + len(delimiter)
    raise _wrong(f"it has more than {_MAX_PARTS} parts")


def _disposition(head: bytes) -> tuple[bytes, bool]:
    """The name of a part, and whether it is a file."""
    value: bytes | None = None
    for line in head.split(b"\r\n"):
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _wrong("the head of a part is not well formed")
        if header.group(1).lower() == b"content-disposition":
            if value is not None:
                raise _wrong("a part has two dispositions")
            value = header.group(2)
    form = None if value is None else _DISPOSITION.fullmatch(value.rstrip(b" \t"))
    if form is None:
        raise _wrong("a part is not form-data")
    options = _options(form.group(1))
    name = options.get(b"name")
    if name is None or b"\\" in name:
        raise _wrong("a part has no plain name")
    return name, len(options) > 1


def _options(text: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(text):
        one = _OPTION.match(text, at)
        name = b"" if one is None else one.group(1).lower()
        if one is None or name in found:
            raise _wrong("the disposition of a part is not well formed")
        found[name] = one.group(2) if one.group(2) is not None else one.group(3)
        at = one.end()
    return found


def _model(raw: bytes, span: tuple[int, int]) -> str:
    start, end = span
    try:
        text = raw[start:end].decode() if end - start <= 4 * _MAX_MODEL else ""
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or not 0 < len(text) <= _MAX_MODEL:
        message = f"The form must name a model: a field `model` of 1 to {_MAX_MODEL} characters."
        raise ApiError(400, "missing_model", message, param="model")
    return text


def _wrong(what: str, code: str = "invalid_form") -> ApiError:
    return ApiError(400, code, f"The multipart form is not understood: {what}.")
