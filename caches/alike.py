"""The short way through a run of chunks that differ in their text alone, as nearly all of a stream do.

Their other bytes are those of the chunk before, and what those say is known: null and scalars, which a second telling does not
change. So the text is all that is read, and that of many at once.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import msgspec

_BACKSLASH = 92
_ENDING = 4  # events: why it ended, the usage, [DONE], and nothing behind the last blank line
_texts = msgspec.json.Decoder(str)
_text = _texts.decode
_PLAIN_DELTA = re.compile(rb'"delta": ?\{ ?"content": ?"((?:[^"\\]|\\.)*+)" ?\}')


def texts_after(chunk: dict[str, Any], events: list[bytes], at: int) -> tuple[list[str], int]:
    """The texts of the events from there on that are like the one before, which told that chunk, in one or more pieces; where the
    others begin.
    """
    event = events[at - 1]
    if not _is_plain(chunk, event):
        return [], at
    found = _PLAIN_DELTA.search(event)
    if found is None or chunk["choices"][0]["delta"]["content"] != _text(
        b'"%b"' % found[1]
    ):  # a name twice: the other one counts
        return [], at
    texts = _alike(events, at, event[: found.start(1)], event[found.end(1) :])
    return _read(texts, at) if texts else ([], at)


def _alike(events: list[bytes], at: int, before: bytes, after: bytes) -> list[bytes]:
    """What is between those two in each of the events from there on, as far as they have both."""
    first, last = len(before), -len(after)
    ending = len(events) - _ENDING
    if ending - at > _ENDING:  # nearly always all but the last are alike: that is seen at once, at a third of the cost
        run = events[at:ending]
        texts = [event[first:last] for event in run]
        if b"\n\n".join(run) == b"%b%b%b" % (before, (after + b"\n\n" + before).join(texts), after):
            return texts + _alike(events, ending, before, after)
    texts, least = [], first - last
    for event in islice(events, at, None):
        if not (event.endswith(after) and event.startswith(before) and len(event) >= least):
            break
        texts.append(event[first:last])
    return texts


def _is_plain(chunk: dict[str, Any], event: bytes) -> bool:
    """Whether it has one choice, whose delta is one text, and beside these scalars alone."""
    choices = chunk.get("choices")
    if type(choices) is not list or len(choices) != 1:
        return False
    piece = choices[0]
    if type(piece) is not dict or "text" in piece or type(piece.get("index")) is not int:
        return False
    delta = piece.get("delta")
    if type(delta) is not dict or len(delta) != 1 or "content" not in delta:
        return False
    return event.count(b"{") == 3 and event.count(b"[") == 1  # of text that has some, too, the next one is tried


def _read(texts: list[bytes], at: int) -> tuple[list[str], int]:
    """All of them, or those before the first that is no JSON."""
    whole = b"".join(texts)
    try:
        if whole.isascii() and _BACKSLASH not in whole:  # read as one: no quote can begin in one text and end in another
            return [_text(b'"%b"' % whole)], at + len(texts)
        read = _texts.decode_lines(b'"%b"' % b'"\n"'.join(texts))  # no string goes past the end of its line
        if len(read) == len(texts):
            return read, at + len(read)
    except msgspec.MsgspecError:
        pass
    read = []
    for text in texts:
        try:
            read.append(_text(b'"%b"' % text))
        except msgspec.MsgspecError:
            break
    return read, at + len(read)
