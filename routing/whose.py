"""Which conversation a request belongs to, and which ask in it it serves: names that the next turn finds again.

Rules
- A session that the client names is a conversation. Else the conversation names itself: by its first ask, the one before the
  newest, and the newest. The next turn has the same three in it, with one more behind them; so it finds what the last turn left.
- Only what people said counts, as `conversation` reads it. What programs put in between changes from turn to turn: reminders,
  cache marks, results that are cut short, reasoning that is left out.
- A name is a keyed digest over the tenant and the route: one tenant's is never another's, it is as long whatever was said, and
  without the key nobody can tell from it what was said, or make one.
- Two conversations of one tenant that begin with the same words are one until they part. Clients that say who their user is
  (`user`, `safety_identifier`) or which conversation it is (`prompt_cache_key`) are told apart by that, too.
- Bounded: MAX_MESSAGES messages back, FRONT from the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from routing.conversation import Thread, human_text, messages_of

MAX_MESSAGES = 2000
FRONT = 16
NAME_BYTES = 16
TALKING = frozenset({"chat", "completions", "responses", "messages"})
_ASK_BYTES = 8
_IDENTITY = ("user", "safety_identifier", "prompt_cache_key")
_IDENTIFYING = frozenset(_IDENTITY)
_SHOWN = 512  # characters of such a field that count: it is a client's
_UNSPOKEN = ("system", "developer")


class Names(NamedTuple):
    """`own` is where this request's turn is kept, `before` where its last one was; empty: there was none. `ask` names the newest
    ask, whose words are `newest`. `goes_on`: its newest message is no person's, so it goes on with an ask that was begun.
    """

    own: bytes
    before: bytes
    ask: bytes
    newest: str
    goes_on: bool


def names_of(
    key: bytes, tenant: str, route: str, body: Mapping[str, Any], endpoint: str, session: str | bytes | None = None
) -> Names | None:
    """None: nobody has said anything, and no session is named; or nobody talks there. `key`: 16 to 64 bytes of our own."""
    if endpoint not in TALKING:
        return None
    messages = messages_of(body, endpoint)
    thread = Thread(messages, MAX_MESSAGES)
    newest = thread.ask()
    goes_on = bool(newest) and thread.end != len(messages) and _goes_on(messages[thread.end :])
    if session:
        named = begin(key, "session", tenant, route)
        _add(named, session)
        own, ask = named.digest(), blake2b(_bytes(newest), digest_size=_ASK_BYTES, key=key).digest()
        return Names(own, own, ask, newest, goes_on)
    if not newest:
        return None
    last = thread.ask()
    who = begin(key, "talk", tenant, route)
    if not _IDENTIFYING.isdisjoint(body):
        for name in _IDENTITY:
            if isinstance(value := body.get(name), str):
                _add(who, value[:_SHOWN])
    if not last:
        _add(who, newest)
        own = who.digest()
        return Names(own, b"", own[:_ASK_BYTES], newest, goes_on)
    first, before = _first(messages), thread.ask()
    begun = who.copy()
    for said in (first, before, last) if before else (last,):
        _add(begun, said)
    for said in (first, last, newest):
        _add(who, said)
    own = who.digest()
    return Names(own, begun.digest(), own[:_ASK_BYTES], newest, goes_on)


def _goes_on(behind: list[Any]) -> bool:
    """Whether anything in these messages, behind the newest words of a person's, is no system prompt; there are never many."""
    return len(behind) >= FRONT or not all(isinstance(message, dict) and message.get("role") in _UNSPOKEN for message in behind)


def _first(messages: list[Any]) -> str:
    """The first words of a person's; they stay the same however long the conversation gets."""
    for message in messages[:FRONT]:
        if isinstance(message, dict) and message.get("role") == "user" and (text := human_text(message.get("content"))):
            return text
    return ""


def begin(key: bytes, kind: str, tenant: str, route: str) -> blake2b:
    """A digest that has taken these in, to go on with."""
    return _begun(key, kind, tenant, route).copy()


@lru_cache(4096)
def _begun(key: bytes, kind: str, tenant: str, route: str) -> blake2b:
    digest = blake2b(digest_size=NAME_BYTES, key=key)
    for part in (kind, tenant, route):
        _add(digest, part)
    return digest


def _add(digest: blake2b, part: str | bytes) -> None:
    data = _bytes(part)
    digest.update(b"%d:%b" % (len(data), data))


def _bytes(part: str | bytes) -> bytes:
    return part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
