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
from hashlib import blake2b
from typing import Any, NamedTuple

from routing.conversation import Thread, human_text, messages_of

MAX_MESSAGES = 2000
FRONT = 16
NAME_BYTES = 16
TALKING = frozenset({"chat", "completions", "responses", "messages"})
_ASK_BYTES = 8
_IDENTITY = ("user", "safety_identifier", "prompt_cache_key")
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
    goes_on = bool(newest) and _goes_on(messages)
    if session:
        own = _digest(key, NAME_BYTES, "session", tenant, route, session)
        return Names(own, own, _digest(key, _ASK_BYTES, newest), newest, goes_on)
    if not newest:
        return None
    last = thread.ask()
    first, before = (_first(messages), thread.ask()) if last else ("", "")
    said = [value[:_SHOWN] for name in _IDENTITY if isinstance(value := body.get(name), str)]
    who = "talk", tenant, route, *said
    own = _digest(key, NAME_BYTES, *who, first or newest, last, newest)
    if not last:
        return Names(own, b"", own[:_ASK_BYTES], newest, goes_on)
    begun = _digest(key, NAME_BYTES, *who, first if before else last, before, last)
    return Names(own, begun, own[:_ASK_BYTES], newest, goes_on)


def _goes_on(messages: list[Any]) -> bool:
    for message in reversed(messages[-FRONT:]):
        role = message.get("role") if isinstance(message, dict) else None
        if role in _UNSPOKEN:
            continue
        return role != "user" or not human_text(message.get("content"))
    return True


def _first(messages: list[Any]) -> str:
    """The first words of a person's; they stay the same however long the conversation gets."""
    for message in messages[:FRONT]:
        if isinstance(message, dict) and message.get("role") == "user" and (text := human_text(message.get("content"))):
            return text
    return ""


def _digest(key: bytes, size: int, *parts: str | bytes) -> bytes:
    digest = blake2b(digest_size=size, key=key)
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data) + data)
    return digest.digest()
