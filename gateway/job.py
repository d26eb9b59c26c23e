"""What a request asks for, once it is understood: its body, its own headers' wishes, and what its key entitles it to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from msgspec import Struct, field

from caches.directives import BadDirective, Directives, directives
from caches.policy import Use
from caches.semantic.partition import Split
from caches.semantic.types import Asked, Found
from gateway.auth import Principal
from gateway.call import Call, Failures, Station
from gateway.dispatch.types import Ticket, WorkAsk, WorkScope
from gateway.endpoints import Endpoint
from gateway.errors import ApiError
from gateway.exchange import Work
from gateway.inflate import encoding_of
from gateway.multipart import boundary
from gateway.wire import Ask
from limits.waiting import Priority
from routing.types import Decision, Needs, Resolution, Target, Verdict
from routing.whose import Names

_PRIORITIES = {"realtime": Priority.REALTIME, "standard": Priority.STANDARD, "batch": Priority.BATCH}
_PASSED_ON = frozenset({b"user-agent", b"traceparent", b"tracestate", b"baggage"})
_IDENTITY = b"accept-encoding: identity\r\n"
_JSON = b"content-type: application/json\r\n" + _IDENTITY
_MAX_SESSION = 256
_CLIENTS_OWN = frozenset({b"x-stainless-read-timeout", b"x-stainless-timeout"})
"""In which OpenAI's SDKs say, in seconds, how long they wait for an answer to begin."""
_WISHES = frozenset(
    {
        b"x-tiergate-priority",
        b"x-tiergate-tier",
        b"x-tiergate-session",
        b"x-tiergate-deadline-ms",
        b"x-tiergate-cache",
        b"cache-control",
    }
)
_READ = _PASSED_ON | _CLIENTS_OWN | _WISHES | {b"content-encoding"}
_MAX_PATIENCE = 86_400.0
_MAX_DIGITS = 20

Headers = Sequence[tuple[bytes, bytes]]
"""As they came, names in lower case."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the request's own headers ask for. `deadline` in seconds from its arrival."""

    priority: Priority
    tier: str | None
    session: str | None
    deadline: float | None
    cache: Directives


class Reading(Struct):
    """What the headers of a request say: its wishes, the header lines that go upstream, how its body comes."""

    wishes: Wishes
    passed: bytes
    encoding: bytes | None  # of the body, where it comes compressed
    content_type: bytes
    patience: float  # seconds that its client waits for an answer to begin, as far as it said


Identity = tuple[str, str, str | None]
"""What a prompt's chain is keyed with: the model, the name that it is served by, and its tenant's salt."""


class Plan(Struct):
    """One model's part: what is sent, and what has to be held meanwhile."""

    target: Target
    station: Station
    call: Call
    ask: WorkAsk
    bill: Callable[[int], int] = int  # of what it cost, what its tenant pays


class Job(Struct):  # made in a third of the time that a dataclass takes
    """One request, ready to be answered."""

    exchange_id: str
    arrived: float
    endpoint: Endpoint
    ask: Ask
    principal: Principal
    resolution: Resolution
    needs: Needs
    wishes: Wishes
    headers: bytes  # header lines that go upstream
    prompt_bytes: int = 0  # of prompt text
    ready_tokens: int = 0  # of the prompt that have no text: see `gateway.prompt`
    patience: float = math.inf  # seconds from its arrival that its client waits for an answer to begin
    work: Work = field(default_factory=Work)
    failures: Failures = field(default_factory=Failures)
    ticket: Ticket | None = None  # once it is admitted
    use: Use | None = None  # of the cache
    key: bytes | None = None  # in the cache, where it has a part in it
    decision: Decision | None = None
    names: tuple[Names | None] | None = None  # of its conversation, once they were looked for
    verdict: Verdict | None = None  # of the classifier, where it was asked
    foreseen: Verdict | None = None  # of one that has to be awaited, once it was
    cut: float | None = None  # the score from which it goes up a tier, where that is to be chosen
    plan: Plan | None = None  # of the model that is asked now, or first
    waiting: WorkScope | None = None  # while it waits for a slot
    shared: bool = False  # others may join the work
    split: Split | None = None  # its question, where the meaning of that may be compared
    barred: str = ""  # why it may not, for a tenant who wants it
    asked: Asked | None = None  # the same, once it was put to the semantic cache
    nearly: Found | None = None  # a kept answer that was nearly served
    known_as: str = ""  # the id that its client was told
    chained: tuple[Ask, Identity, bytes] | None = None  # the chain of a long prompt, made ahead: see `gateway.chains`

    @property
    def admitted(self) -> Ticket:
        """Its ticket: there is one from its admission on."""
        assert self.ticket is not None, "asked for before it was admitted"
        return self.ticket

    @property
    def session(self) -> str | None:
        """The session as replicas are chosen by it: one tenant's is never another's."""
        return f"{self.principal.tenant}\0{self.wishes.session}" if self.wishes.session else None

    def raise_priority(self, priority: int) -> None:
        """Somebody of a higher class waits for the same answer."""
        raised = Priority(priority)
        self.wishes = replace(self.wishes, priority=raised)
        if self.plan is not None:
            self.plan.ask.priority = raised
        if self.waiting is not None:
            self.waiting.raise_priority(raised)


def read_headers(headers: Headers, principal: Principal, endpoint: Endpoint) -> Reading:
    """One walk over the headers, before the body is asked for. Raises ApiError 400 and 415.

    The body of a JSON endpoint is JSON whatever its content-type says; a form's content-type names the boundary.
    """
    ours: dict[bytes, str] = {}
    passed = [_JSON]
    encoding: bytes | None = None
    content_type, patience = b"", math.inf
    if endpoint.multipart:
        content_type = next((value for name, value in headers if name == b"content-type"), b"")
        boundary(content_type)
        passed = [_IDENTITY, b"content-type: %b\r\n" % content_type]
    for name, value in headers:
        if name not in _READ:
            continue
        if name in _PASSED_ON:
            passed.append(b"%b: %b\r\n" % (name, value))
        elif name in _WISHES:
            said = value.decode("latin-1").strip()
            ours[name] = f"{ours[name]}, {said}" if name in ours else said  # as one list: RFC 9110, 5.3
        elif name == b"content-encoding":
            if encoding is not None:
                raise ApiError(415, "unsupported_encoding", "Send the request body with one content-encoding.")
            encoding = encoding_of(value)
        else:
            patience = min(patience, patience_of(value))
    wishes = _wishes(ours, principal) if ours else _PLAIN[principal.priority]
    return Reading(wishes, b"".join(passed), encoding, content_type, patience)


def patience_of(value: bytes) -> float:
    """Seconds that a client waits, as its SDK says by itself: what is no such number says nothing, and is nobody's mistake."""
    if len(value) > _MAX_DIGITS or not value.replace(b".", b"", 1).isdigit():
        return math.inf
    seconds = float(value)
    return seconds if 0 < seconds <= _MAX_PATIENCE else math.inf


def _wishes(ours: dict[bytes, str], principal: Principal) -> Wishes:
    session = ours.get(b"x-tiergate-session")
    if session is not None and len(session) > _MAX_SESSION:
        raise ApiError(400, "invalid_header", f"x-tiergate-session may have at most {_MAX_SESSION} characters.")
    return Wishes(
        priority=_priority(ours.get(b"x-tiergate-priority"), principal),
        tier=ours.get(b"x-tiergate-tier") or None,
        session=session or None,
        deadline=_deadline(ours.get(b"x-tiergate-deadline-ms")),
        cache=_directives(ours),
    )


def _directives(ours: dict[bytes, str]) -> Directives:
    try:
        return directives(ours.get(b"x-tiergate-cache"), ours.get(b"cache-control"))
    except BadDirective as bad:
        raise ApiError(400, "invalid_header", str(bad)) from None


_NO_DIRECTIVES = directives(None, None)
_PLAIN = {priority: Wishes(priority, None, None, None, _NO_DIRECTIVES) for priority in Priority}


def _priority(wanted: str | None, principal: Principal) -> Priority:
    """The tenant's class is a ceiling: what is above it gets the ceiling."""
    if not wanted:
        return principal.priority
    priority = _PRIORITIES.get(wanted.lower())
    if priority is None:
        raise ApiError(400, "invalid_header", "x-tiergate-priority must be realtime, standard or batch.")
    return max(priority, principal.priority)


def _deadline(value: str | None) -> float | None:
    if not value:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 9 or int(value) == 0:
        raise ApiError(400, "invalid_header", "x-tiergate-deadline-ms must be a whole number of milliseconds above 0.")
    return int(value) / 1000
