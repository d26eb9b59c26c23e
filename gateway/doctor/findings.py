"""What a check has to say: one line, with a place in the config and a sentence on how to mend it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from gateway.config.problems import Path, nearest, quote, render_path

Severity = Literal["ok", "warn", "fail"]
_MOST_NAMES = 12
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """`where` is the config's key, empty for what no key decides."""

    severity: Severity
    where: Path
    what: str
    mend: str = ""

    @property
    def key(self) -> str:
        return render_path(self.where)


def ok(where: Path, what: str, mend: str = "") -> Finding:
    return Finding("ok", where, what, mend)


def warn(where: Path, what: str, mend: str) -> Finding:
    return Finding("warn", where, what, mend)


def fail(where: Path, what: str, mend: str) -> Finding:
    return Finding("fail", where, what, mend)


def listed(names: Collection[str]) -> str:
    """Names that somebody else sent, as `"a", "b" and 3 more`."""
    some = [quote(name) for name in list(names)[:_MOST_NAMES]]
    more = len(names) - len(some)
    return ", ".join(some) + (f" and {more} more" if more > 0 else "") or "nothing"


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?`, or nothing."""
    best = nearest(word, list(known)[:1000])
    return f"; did you mean {quote(best)}?" if best is not None and best != word else ""


def shown(data: bytes, secret: str = "") -> str:
    """Bytes that somebody else sent: one short printable line, without the secret that they may echo."""
    text = data[: 4 * _LONGEST].decode("utf-8", "replace")
    if secret:
        text = text.replace(secret, "***")
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
