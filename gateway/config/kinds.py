"""The kinds of value that a key of the config may have: text in, value out, and back to text for the effective config.

A kind is written beside the type, `port: Annotated[int, Whole(0, 65535)]`. `read` raises `Unfit` with a message in
which `{}` stands for the value: the reader fills it in, unless the value is from the environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

from gateway import units

_WHOLE = re.compile(r"[+-]?\d[\d_]{0,17}", re.ASCII)
_ENDLESS = 10**15  # nothing that is counted here is more
_NUMBER = re.compile(r"[+-]?\d{1,18}(\.\d{1,18})?", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+\-]{0,199}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+/\-]{0,199}")
_PATTERN = re.compile(r"[A-Za-z0-9._:@+/\-*?\[\]!]{1,200}")
_HOST = re.compile(r"[A-Za-z0-9._\-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")
_GLOB = frozenset("*?[")
_TRUE, _FALSE = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})
_LONGEST_URL = 2000
_LAST_MOMENT = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


class Unfit(ValueError):  # noqa: N818 - it is a verdict on a value, read as one: `raise Unfit("expected …")`
    """The text is no value of this kind."""


def split_url(text: str) -> SplitResult | None:
    """The parts of an absolute URL in visible ASCII, or None."""
    if len(text) > _LONGEST_URL or not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        return None
    try:
        parts = urlsplit(text)
        usable = bool(parts.scheme) and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def is_host(host: str) -> bool:
    """A name that can be looked up, or an address."""
    try:
        host.encode("idna")  # which knows how long a label may be
    except UnicodeError:
        return False
    return _HOST.fullmatch(f"[{host}]" if ":" in host else host) is not None


def is_pattern(name: str) -> bool:
    """Whether a model's name is a glob."""
    return not _GLOB.isdisjoint(name)


class Kind(Protocol):
    """`expects` completes "expected …"; `read` gives the value or raises Unfit; `show` is what YAML prints."""

    @property
    def expects(self) -> str: ...

    def read(self, text: str) -> object: ...

    def show(self, value: Any) -> object: ...


class _Shown:
    """Values that YAML shows as they are."""

    __slots__ = ()

    def show(self, value: Any) -> object:
        return value


@dataclass(frozen=True, slots=True)
class Text(_Shown):
    """Any printable line."""

    shortest: int = 0
    longest: int = 500
    expects: str = "a text"

    def read(self, text: str) -> str:
        if not self.shortest <= len(text) <= self.longest or not text.isprintable():
            raise Unfit(f"expected a text of {self.shortest} to {self.longest} printable characters")
        return text


@dataclass(frozen=True, slots=True)
class Label(_Shown):
    """A name that may stand in headers, metrics and scope ids. `slash`: a model's name, which may hold `/`."""

    slash: bool = False

    @property
    def expects(self) -> str:
        return f"a name of letters, digits and . _ - : @ +{' /' if self.slash else ''}"

    def read(self, text: str) -> str:
        if not (_MODEL if self.slash else _WORD).fullmatch(text):
            raise Unfit(f"expected {self.expects} (at most 200), got {{}}")
        return text


@dataclass(frozen=True, slots=True)
class Pattern(_Shown):
    """A model's name, or a glob over such names."""

    expects: str = 'a model name or a pattern such as "qwen*"'

    def read(self, text: str) -> str:
        if not _PATTERN.fullmatch(text):
            raise Unfit(f"expected {self.expects}, got {{}}")
        return text


@dataclass(frozen=True, slots=True)
class Flag(_Shown):
    expects: str = "true or false"

    def read(self, text: str) -> bool:
        word = text.lower()
        if word not in _TRUE | _FALSE:
            raise Unfit("expected true or false, got {}")
        return word in _TRUE


@dataclass(frozen=True, slots=True)
class Whole(_Shown):
    """A whole number; `built`: more is known, but not built yet."""

    low: int = 1
    high: int = _ENDLESS
    built: int | None = None

    @property
    def expects(self) -> str:
        return (
            f"a whole number, at least {self.low}" if self.high == _ENDLESS else f"a whole number from {self.low} to {self.high}"
        )

    def read(self, text: str) -> int:
        if not _WHOLE.fullmatch(text) or (value := int(text.replace("_", ""))) < self.low:
            raise Unfit(f"expected {self.expects}, got {{}}")
        if value > self.high:
            bound = f" and at most {self.high:_}" if self.high == _ENDLESS else ""
            raise Unfit(f"expected {self.expects}{bound}, got {{}}")
        if self.built is not None and value > self.built:
            raise Unfit(f"more than {self.built} is not built yet")
        return value


@dataclass(frozen=True, slots=True)
class Fraction(_Shown):
    expects: str = "a number from 0 to 1"

    def read(self, text: str) -> float:
        if not _NUMBER.fullmatch(text) or not 0 <= float(text) <= 1:
            raise Unfit(f"expected {self.expects}, got {{}}")
        return float(text)


@dataclass(frozen=True, slots=True)
class Number(_Shown):
    """Bounds are inclusive."""

    least: float
    most: float

    @property
    def expects(self) -> str:
        return f"a number from {self.least:g} to {self.most:g}"

    def read(self, text: str) -> float:
        if not _NUMBER.fullmatch(text) or not self.least <= float(text) <= self.most:
            raise Unfit(f"expected {self.expects}, got {{}}")
        return float(text)


_TEN_YEARS = 315_360_000.0


@dataclass(frozen=True, slots=True)
class Duration:
    """In seconds; never zero, and at most ten years."""

    shortest: float = 0.001
    longest: float = _TEN_YEARS
    expects: str = "a duration such as 30s, 5m, 1h or 250ms"

    def read(self, text: str) -> float:
        try:
            value = units.parse_duration(text)
        except ValueError:
            raise Unfit(f"expected {self.expects}, got {{}}") from None
        if not self.shortest <= value <= self.longest:
            longest = "ten years" if self.longest == _TEN_YEARS else self.show(self.longest)
            raise Unfit(f"expected a duration from {self.show(self.shortest)} to {longest}, got {{}}")
        return value

    def show(self, value: float) -> str:
        return units.format_duration(value)


@dataclass(frozen=True, slots=True)
class Size:
    """In bytes; never zero."""

    expects: str = "a size such as 64KiB, 16MiB or 1GB"

    def read(self, text: str) -> int:
        try:
            value = units.parse_size(text)
        except ValueError:
            raise Unfit(f"expected {self.expects}, got {{}}") from None
        if not 1 <= value <= 2**50:
            raise Unfit("expected a size from 1 byte to 1024 TiB, got {}")
        return value

    def show(self, value: int) -> str:
        return units.format_size(value)


@dataclass(frozen=True, slots=True)
class Choice(_Shown):
    """One of a closed set. `planned` words are known, and an error that says so."""

    what: str
    built: tuple[str, ...]
    planned: tuple[str, ...] = ()

    @property
    def expects(self) -> str:
        return f"one of {', '.join(self.built)}" if len(self.built) > 1 else self.built[0]

    def read(self, text: str) -> str:
        if text in self.built:
            return text
        if text in self.planned:
            raise Unfit(f"{self.what} {{}} is not built yet; built: {', '.join(self.built)}")
        raise Unfit(f"unknown {self.what} {{}}; expected {self.expects}")


@dataclass(frozen=True, slots=True)
class Url(_Shown):
    """An http(s) address without user, query or fragment. Never repeated in a message: it may hold a password."""

    expects: str = "a URL such as http://10.0.0.11:8000/v1"

    def read(self, text: str) -> str:
        parts = split_url(text)
        if parts is None or parts.scheme not in ("http", "https") or not is_host(parts.hostname or ""):
            raise Unfit(f"expected {self.expects}")
        if "@" in parts.netloc:
            raise Unfit("a URL must not hold credentials: use api_key")
        if "?" in text or "#" in text:
            raise Unfit("a URL must not hold a query or a fragment")
        return text


@dataclass(frozen=True, slots=True)
class ZmqAddress(_Shown):
    """A ZeroMQ address to connect to."""

    expects: str = "an address such as tcp://10.0.0.11:5557"

    def read(self, text: str) -> str:
        host, _, port = text.removeprefix("tcp://").rpartition(":")
        if text.startswith("ipc:///") and text.isprintable() and len(text) < 100:
            return text
        if not (text.startswith("tcp://") and _HOST.fullmatch(host) and _is_port(port) and int(port)):
            raise Unfit(f"expected {self.expects}, got {{}}")
        return text


@dataclass(frozen=True, slots=True)
class Origin(_Shown):
    """As browsers send it: scheme, host and perhaps a port, in lower case; or `*`."""

    expects: str = 'an origin such as https://app.example.com, or "*"'

    def read(self, text: str) -> str:
        parts = split_url(text)
        usual = {"http": ":80", "https": ":443"}.get(parts.scheme if parts is not None else "")
        if text == "*":
            return text
        if parts is None or usual is None or text != f"{parts.scheme}://{parts.netloc}" or text != text.lower():
            raise Unfit(f"expected {self.expects}: no path, no slash at the end, lower case")
        if not is_host(parts.hostname or "") or "@" in parts.netloc or parts.netloc.endswith((":", usual)):
            raise Unfit(f"expected {self.expects}: a host, without the scheme's own port")
        return text


@dataclass(frozen=True, slots=True)
class Listener(_Shown):
    """`host:port`, or nothing."""

    expects: str = 'a listener such as "127.0.0.1:9090"'

    def read(self, text: str) -> str:
        host, _, port = text.rpartition(":")
        if text and not (_HOST.fullmatch(host) and _is_port(port)):
            raise Unfit(f"expected {self.expects}, got {{}}")
        return text


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536


@dataclass(frozen=True, slots=True)
class Network(_Shown):
    """A network of IP addresses; a single address is one of itself."""

    expects: str = "a network such as 10.0.0.0/8 or fd00::/8"

    def read(self, text: str) -> str:
        try:
            ip_network(text)
        except ValueError as error:
            bits = "; bits after the prefix must be 0" if "host bits" in str(error) else ""
            raise Unfit(f"expected {self.expects}, got {{}}{bits}") from None
        return text


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment as epoch seconds. A date alone is the end of that day, UTC; a time without a zone is UTC."""

    expects: str = "a date such as 2026-12-31, or a time such as 2026-12-31T12:00:00Z"

    def read(self, text: str) -> float:
        try:
            moment = datetime.fromisoformat(text)
            if len(text) <= len("2026-12-31") and moment.time() == time.min:
                moment = moment.replace(hour=23, minute=59, second=59)
            epoch = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            raise Unfit(f"expected {self.expects}, got {{}}") from None
        if not 0 <= epoch < _LAST_MOMENT:
            raise Unfit("expected a moment from 1970 to 9998, got {}")
        return epoch

    def show(self, value: float) -> str:
        return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class FilePath:
    """A path."""

    expects: str = "a path"

    def read(self, text: str) -> Path:
        if not text or len(text) > 1000 or not text.isprintable():
            raise Unfit(f"expected {self.expects}")
        return Path(text)

    def show(self, value: Path) -> str:
        return str(value)
