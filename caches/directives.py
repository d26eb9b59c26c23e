"""What a request's headers say about caching: `x-tiergate-cache`, and `cache-control` as far as HTTP defines it for requests.

    no-cache           a fresh answer, which replaces the one that is kept      also max-age=0
    no-store           the answer is not kept                                   also ttl=0
    only-if-cached     no model is asked
    max-age=N          no answer that is older than N seconds, nor a stale one
    store              keep the answer although it is not deterministic         x-tiergate-cache only
    ttl=N              keep it for at most N seconds                            x-tiergate-cache only
    tag=NAME           what it can be flushed by; up to eight                   x-tiergate-cache only

`ttl` and `tag` are said of an answer that is made for this request, not of one that is there already.

What is not known, or makes no sense, is ignored in `cache-control`, which proxies and libraries write, and refused in our own:
whoever mistypes a tag would find out when the flush that needed it takes nothing, and whoever writes `nostore` or `no-store=1`
did not mean "store it".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_TAGS = 8

_MOST_DIRECTIVES = 32  # in one header
_TAG = re.compile(r"(?!c[es]-)[A-Za-z0-9._:-]{1,64}")
_SWITCHES = frozenset({"no-cache", "no-store", "only-if-cached", "store"})
_SECONDS = frozenset({"max-age", "ttl"})
_LONGEST_NUMBER = 11  # digits
_HTTP = frozenset({"no-cache", "no-store", "only-if-cached", "max-age"})


class BadDirective(ValueError):  # noqa: N818 - named for what came
    """A directive of ours that makes no sense. The message is for the client."""


@dataclass(frozen=True, slots=True)
class Directives:
    """What the client said about caching. `max_age` and `ttl` in seconds."""

    no_cache: bool = False
    no_store: bool = False
    only_if_cached: bool = False
    store: bool = False
    max_age: int | None = None
    ttl: int | None = None
    tags: tuple[str, ...] = ()


PLAIN = Directives()


def directives(x_tiergate_cache: str | None, cache_control: str | None) -> Directives:
    """Read both headers as comma lists, names in any case. Raises BadDirective."""
    if not x_tiergate_cache and not cache_control:
        return PLAIN
    reading = _Reading()
    for part in (cache_control or "").split(",", _MOST_DIRECTIVES)[:_MOST_DIRECTIVES]:
        name, value = _split(part)
        if name in _HTTP and _makes_sense(name, value):
            reading.take(name, value or "")
    ours = (x_tiergate_cache or "").split(",", _MOST_DIRECTIVES)
    if len(ours) > _MOST_DIRECTIVES:
        raise BadDirective(f"x-tiergate-cache may hold at most {_MOST_DIRECTIVES} directives.")
    for part in ours:
        name, value = _split(part)
        if name not in _FORMS:
            if name or value is not None:
                raise BadDirective(f"x-tiergate-cache: no such word. It takes {', '.join(sorted(_FORMS))}, between commas.")
            continue
        if not _makes_sense(name, value):
            raise BadDirective(f"x-tiergate-cache: {_FORMS[name]}.")
        reading.take(name, value or "")
    said = reading.said()
    return PLAIN if said == PLAIN else said


_FORMS = {
    **{name: f"`{name}` takes no value" for name in _SWITCHES},
    **{name: f"`{name}` must be a whole number of seconds, as in `{name}=60`" for name in _SECONDS},
    "tag": "a `tag` must be 1 to 64 of the characters A-Z a-z 0-9 . _ : -, and not begin as our ids do, with `ce-` or `cs-`",
}


def _split(part: str) -> tuple[str, str | None]:
    """`Max-Age = "00"` → `max-age`, `00`."""
    name, equals, value = part.partition("=")
    return name.strip().lower(), value.strip().strip('"') if equals else None


def _makes_sense(name: str, value: str | None) -> bool:
    """Whether a known directive has the form that its name asks for."""
    if name in _SWITCHES:
        return value is None
    if name in _SECONDS:
        return value is not None and value.isascii() and value.isdecimal() and len(value) <= _LONGEST_NUMBER
    return value is not None and _TAG.fullmatch(value) is not None


class _Reading:
    """Directives while they are read: of two numbers the stricter one counts."""

    __slots__ = ("_least", "_said", "_tags")

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._least: dict[str, int] = {}
        self._tags: dict[str, None] = {}

    def take(self, name: str, value: str) -> None:
        if name in _SECONDS:
            self._least[name] = min(int(value), self._least.get(name, int(value)))
        elif name == "tag":
            self._tags[value] = None
        else:
            self._said.add(name)

    def said(self) -> Directives:
        if len(self._tags) > MOST_TAGS:
            raise BadDirective(f"x-tiergate-cache: an answer has at most {MOST_TAGS} tags.")
        max_age, ttl = self._least.get("max-age"), self._least.get("ttl")
        return Directives(
            no_cache="no-cache" in self._said or max_age == 0,
            no_store="no-store" in self._said or ttl == 0,
            only_if_cached="only-if-cached" in self._said,
            store="store" in self._said,
            max_age=max_age or None,
            ttl=ttl or None,
            tags=tuple(self._tags),
        )
