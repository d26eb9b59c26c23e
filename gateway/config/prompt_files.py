"""The files of prompts that replicas read ahead."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec

MOST_BYTES = 256 * 1024
_MOST_DEPTH = 64


def read_text(path: Path) -> str:
    """A text file as it is, white space included. ValueError says what is wrong, and shows nothing of what is in it."""
    try:
        text = _bytes_of(path).decode()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    if not text.strip():
        raise ValueError("has nothing but blanks")
    return text


def read_tools(path: Path) -> list[Any]:
    """A JSON list of objects. ValueError as above."""
    try:
        tools = msgspec.json.decode(_bytes_of(path))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(tools, list) or not tools or not all(isinstance(tool, dict) for tool in tools):
        raise ValueError("is no list of tools")
    if _deeper_than(tools, _MOST_DEPTH):
        raise ValueError(f"is nested deeper than {_MOST_DEPTH} levels")
    return tools


def _bytes_of(path: Path) -> bytes:
    """Of a plain file: whoever opens a pipe waits for its other end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot be read: {getattr(error, 'strerror', None) or 'not a path'}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("is no file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise ValueError(f"is larger than {MOST_BYTES // 1024} KiB")
    if not data:
        raise ValueError("is empty")
    return data


def _deeper_than(value: Any, bound: int) -> bool:
    level = [value]
    for _ in range(bound):
        level = [
            child for one in level for child in (one.values() if isinstance(one, dict) else one) if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
