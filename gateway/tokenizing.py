"""Token ids of a prompt, asked of an engine of the pool: `POST /tokenize`, for pools that place by what engines have cached.

Rules of this file
1. It has a deadline of its own. Past it, or when it fails, the request goes on without. Several failures in a row, and nobody
   is asked for a while. Nobody is asked where no engine of the pool is heard: there is nothing to compare with.
2. What has no token ids that could be compared is not asked about: prompts with images and the like, several prompts at once,
   more than 65,536 tokens, other endpoints than chat and completions.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from backends.client import Deadlines
from backends.errors import UpstreamError
from backends.replica import Replica
from caches.breaker import Breaker, BreakerOpen, BreakerRules
from caches.tokens import MOST_STEPS, STEP, root, token_chain
from gateway.call import Station
from gateway.job import Job
from gateway.metrics import Metrics

_log = logging.getLogger("tiergate.prefix")
_RULES = BreakerRules(failures=5, open_seconds=1.0, max_open_seconds=15.0)
_MOST_TOKENS = MOST_STEPS * STEP
_LARGEST = 2 * 2**20  # bytes of an answer
_CHAT = (
    "messages", "tools", "add_generation_prompt", "continue_final_message", "add_special_tokens", "chat_template",
    "chat_template_kwargs",
)  # fmt: skip


class Answer(msgspec.Struct):
    tokens: list[int]


class NoTokens(Exception):  # noqa: N818 - it names what there is
    """The engine answered something else, and what."""


class Engines(Protocol):
    """The part of `Dispatcher` that is needed here."""

    def several(self, model: str) -> bool: ...
    def hearing(self, model: str) -> bool: ...
    def engines(self, model: str) -> Sequence[Replica]: ...


class Tokens:
    """`salt`: the engines' prefix-cache salt of a tenant. `plain`: how the engines of a model call it without an adapter."""

    def __init__(
        self,
        secret: bytes,
        salt: Callable[[str], str | None],
        engines: Engines,
        plain: Mapping[str, str],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._secret = secret
        self._salt = salt
        self._engines = engines
        self._plain = plain
        self._metrics = metrics
        self._clock = clock
        self._breakers: dict[str, Breaker] = {}
        self._roots: dict[tuple[str | None, str | None], bytes] = {}

    def wanted(self, station: Station) -> bool:
        """Whether anything would come of them."""
        if station.token_timeout is None:
            return False
        return self._engines.hearing(station.name) and self._engines.several(station.name)

    async def of(self, job: Job, station: Station, served_name: str, tokens: int) -> bytes:
        """Packed as by `caches.tokens`; empty where they are not known. `tokens`: how many they are thought to be."""
        question = None if tokens > _MOST_TOKENS else question_of(job.ask.fields, job.endpoint.name, served_name)
        if question is None or station.token_timeout is None:
            self._count(station, "none")
            return b""
        try:
            if isinstance(question, bytes):
                with self._breaker(station.name).attempt():
                    question = await self._ask(station.name, question, station.token_timeout)
            chain = token_chain(self._root(job, station, served_name), question)
        except BreakerOpen:
            self._count(station, "open")
        except (UpstreamError, NoTokens, ValueError):
            self._count(station, "failed")
        else:
            self._count(station, "known")
            return chain
        return b""

    async def _ask(self, model: str, body: bytes, seconds: float) -> list[int]:
        """Raises UpstreamError and NoTokens."""
        engines = self._engines.engines(model)
        if not engines:
            raise NoTokens("no replica is ready")
        replica = min(engines, key=_inflight)
        head = b"POST %b/tokenize%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (
            replica.root.encode(), replica.head_lines, len(body),
        )  # fmt: skip
        deadlines = Deadlines(seconds, None, None, self._clock() + seconds)
        async with replica.client.request(head, body, deadlines) as answer:
            payload = await answer.read(_LARGEST)
            if answer.status != 200:
                raise NoTokens(f"status {answer.status}")
        try:
            tokens = msgspec.json.decode(payload, type=Answer).tokens
        except msgspec.MsgspecError:
            raise NoTokens("no list of tokens") from None
        if not tokens:
            raise NoTokens("no tokens")
        return tokens

    def _root(self, job: Job, station: Station, served_name: str) -> bytes:
        salt = self._salt(job.principal.tenant) if job.endpoint.salted else None
        lora = None if served_name == self._plain[station.name] else served_name
        known = self._roots.get((lora, salt))
        if known is None:
            known = self._roots[lora, salt] = root(self._secret, lora, salt)
        return known

    def _breaker(self, model: str) -> Breaker:
        breaker = self._breakers.get(model)
        if breaker is None:

            def told(error: BaseException | None) -> None:
                if error is not None:
                    _log.warning(
                        "%s: /tokenize was asked in vain (%s); its requests are placed by what was sent where",
                        model, error if isinstance(error, NoTokens) else type(error).__name__,
                    )  # fmt: skip

            breaker = self._breakers[model] = Breaker(self._clock, random.Random(), _RULES, told)
        return breaker

    def _count(self, station: Station, result: str) -> None:
        self._metrics.tokenized.add((station.name, result))


def question_of(fields: Mapping[str, Any], endpoint: str, served_name: str) -> bytes | list[int] | None:
    """What to ask /tokenize; the ids themselves, where the client sent such; None where there is nothing to compare."""
    if endpoint == "completions":
        prompt = fields.get("prompt")
        if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
            return prompt
        if not isinstance(prompt, str):
            return None
        asked: dict[str, Any] = {"prompt": prompt}
        if "add_special_tokens" in fields:
            asked["add_special_tokens"] = fields["add_special_tokens"]
    elif endpoint == "chat" and _is_text(fields.get("messages")):
        asked = {name: fields[name] for name in _CHAT if fields.get(name) is not None}
    else:
        return None
    try:
        return msgspec.json.encode({"model": served_name, **asked})
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeError, TypeError, ValueError):
        return None


def _is_text(messages: object) -> bool:
    """A conversation without images and the like."""
    if not isinstance(messages, list):
        return False
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else message
        if isinstance(content, list) and not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
            return False
    return True


def _inflight(replica: Replica) -> int:
    return replica.inflight
