"""Values that must not be seen, and how they are read: no message about them repeats them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.config.kinds import Unfit, split_url

_LONGEST = 512
_DIGEST = re.compile(r"[0-9A-Fa-f]{64}")


class Secret:
    """A string that does not show itself: `str`, `repr` and formatting give `***`; `reveal()` gives the text."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def shown(self) -> str:
        """What the effective config says: whether there is one, never what it is."""
        return "***" if self._text else ""

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__


class SecretUrl(Secret):
    """A URL that may carry a password: shown without user and password."""

    __slots__ = ()

    def shown(self) -> str:
        parts = urlsplit(self._text)
        host = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=f"***@{host}" if "@" in parts.netloc else host).geturl()


@dataclass(frozen=True, slots=True)
class Hidden:
    """A key or a password: visible ASCII, since it travels in headers."""

    expects: str = "a secret"

    def read(self, text: str) -> Secret:
        if len(text) > _LONGEST or not text.isascii() or not text.isprintable() or " " in text:
            raise Unfit(f"expected at most {_LONGEST} visible ASCII characters")
        return Secret(text)

    def show(self, value: Secret) -> str:
        return value.shown()


@dataclass(frozen=True, slots=True)
class Digest:
    """The hex SHA-256 of an API key. Hidden like the key: a weak key could be guessed from it."""

    expects: str = "64 hex digits: the SHA-256 of the key"

    def read(self, text: str) -> Secret:
        if not _DIGEST.fullmatch(text):
            raise Unfit(f"expected {self.expects}")
        return Secret(text.lower())

    def show(self, value: Secret) -> str:
        return value.shown()


@dataclass(frozen=True, slots=True)
class RedisUrl:
    expects: str = "a URL such as redis://127.0.0.1:6379/0"

    def read(self, text: str) -> SecretUrl:
        parts = split_url(text)
        if parts is None or parts.scheme not in ("redis", "rediss", "unix") or not (parts.hostname or parts.path):
            raise Unfit(f"expected {self.expects}")
        return SecretUrl(text)

    def show(self, value: Secret) -> str:
        return value.shown()
