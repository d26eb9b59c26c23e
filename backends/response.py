"""Reading one HTTP/1 answer after another from the bytes of a connection. No I/O.

The parser is llhttp, in its strict mode; its callbacks only note what they saw.

Rules:
- `QUIET` bytes without a byte of body are not an answer. This bounds heads, interim answers, chunk extensions and trailers.
- Interim (1xx) answers are skipped. A protocol switch, which nobody asked for, is not an answer.
- Anything after the end of an answer means that the connection cannot be trusted with another one.
"""

from __future__ import annotations

from collections.abc import Callable

import httptools

QUIET = 65_536


class Refused(Exception):  # noqa: N818 - it stops the parser and never leaves this module
    """What the parser would accept and we do not."""


class Response:
    """Lasts as long as its connection; `begin` makes it ready for the next answer."""

    __slots__ = (
        "_bodiless",
        "_chunk",
        "_feed",
        "_fields",
        "_parser",
        "_quiet",
        "complete",
        "headers",
        "on_body",
        "pieces",
        "reusable",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0  # 0: the head is not there yet
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []  # body bytes of the last `feed`; the caller clears it
        self.complete = False
        self.reusable = False  # may the connection carry another answer after this one?
        self.on_body = self.pieces.append  # called by the parser: a list's own method is the cheapest
        self._fields: list[tuple[bytes, bytes]] = []
        self._bodiless = False
        self._chunk = False
        self._quiet = 0
        self._parser = httptools.HttpResponseParser(self)
        self._feed: Callable[[bytes], None] = self._parser.feed_data

    def begin(self, *, bodiless: bool) -> None:
        """The next answer; `bodiless` to a HEAD request."""
        self.status = 0
        self.complete = self.reusable = False
        self._fields = []
        self._bodiless = bodiless
        self._chunk = True
        self._quiet = 0

    def feed(self, data: bytes) -> str | None:
        """Read on. A reason: this is no answer, and what came of it before is all that there will be."""
        self._quiet += len(data)
        try:
            self._feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.reusable = False
            return None if self.complete else f"not HTTP: {error.__context__ or error}"
        if self.pieces:
            self._quiet = 0
        elif self._quiet > QUIET and not self.complete:
            return "too many bytes without a body"
        return None

    def between_chunks(self, data: bytes) -> bool:
        """Whether a chunk begins with what follows `data`, the last that was read. No part of its head was in there."""
        return not self._chunk and data.endswith(b"\n") and not self.complete

    def ends_with_the_connection(self) -> bool:
        """A body that has neither a length nor chunks."""
        return self.status != 0 and not any(
            name == b"content-length" or (name == b"transfer-encoding" and value.lower().endswith(b"chunked"))
            for name, value in self.headers
        )

    def close(self) -> None:
        """No more answers."""
        del self._parser, self._feed  # it refers to us: without this only the cycle collector would free both

    # ---- called by the parser

    def on_message_begin(self) -> None:
        if self.complete:
            raise Refused

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        fields, self._fields = self._fields, []  # trailers go nowhere
        if self._quiet > QUIET and sum(len(name) + len(value) for name, value in fields) > QUIET:
            raise Refused("the head is too large")
        if 100 <= status < 200 and status != 101:
            return
        if not 200 <= status < 600:
            raise Refused("a status that nobody asked for")
        self.status = status
        self.headers = fields
        if self._bodiless:
            self.complete = True
            raise Refused  # the parser would wait for a body
        self.reusable = self._parser.should_keep_alive()

    def on_chunk_header(self) -> None:
        self._chunk = True

    def on_chunk_complete(self) -> None:
        self._chunk = False

    def on_message_complete(self) -> None:
        if self.status:
            self.complete = True
