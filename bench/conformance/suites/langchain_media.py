"""A picture, a sound and a document, of the sizes of a client's, in place of those that LangChain's tests fetch."""

from __future__ import annotations

import io
import random
import struct
import wave
import zlib
from typing import Any

import httpx

_SIDE, _SECONDS, _RATE = 256, 2, 16_000


def get(url: str, **_: Any) -> httpx.Response:
    """As httpx.get, from nowhere."""
    made = {"png": _picture, "wav": _sound, "pdf": _document}
    return httpx.Response(200, content=made[url.rpartition(".")[2]]())


def _picture() -> bytes:
    """A PNG of noise, some 200 KB."""
    chance = random.Random(1)
    rows = b"".join(b"\0" + chance.randbytes(3 * _SIDE) for _ in range(_SIDE))
    head = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def _sound() -> bytes:
    """A WAV of noise, 64 KB."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(_RATE)
        out.writeframes(random.Random(1).randbytes(2 * _RATE * _SECONDS))
    return file.getvalue()


def _document() -> bytes:
    """A PDF of one empty page."""
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>",
    )
    body = b"%PDF-1.4\n" + b"".join(b"%d 0 obj%b endobj\n" % (at, one) for at, one in enumerate(objects, 1))
    return body + b"trailer<</Root 1 0 R>>\n%%EOF\n"
