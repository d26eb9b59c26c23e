"""The closed set of outcomes: every error of the product has one, the same wherever it is made, and the page says which."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import msgspec
import pytest

from caches.errors import CacheAway, ExactStoreAway
from gateway.dispatch.fault import Fault, decoded, encoded
from gateway.errors import ApiError, internal_error
from gateway.outcomes import OUTCOMES
from gateway.refusals import PERSONAL, REFUSALS, TABLE, refusal
from limits.types import LimitExceeded, Scope
from limits.waiting import QueueFull, QueueTimeout, WaitTooLong
from routing.types import EndpointNotServed, ModelNotAllowed, UnknownModel, UnknownTier

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = [path for path in (ROOT / "gateway").rglob("*.py") if "lab" not in path.parts]


@cache
def made() -> dict[str, set[str]]:
    """Of each code, as far as it is written out, the outcomes that its errors are made with."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in PRODUCT:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or len(call.args) < 3:
                continue
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            status, code = call.args[0], call.args[1]
            if name not in ("ApiError", "__init__") or not isinstance(code, ast.Constant):
                continue
            told = [keyword.value for keyword in call.keywords if keyword.arg == "outcome"]
            assert all(isinstance(one, ast.Constant) for one in told), f"{path}:{call.lineno}: an outcome is written out"
            low = isinstance(status, ast.Constant) and status.value < 500
            found[code.value].add(told[0].value if told else "client_error" if low else "upstream_error")
    return found


def test_every_code_has_one_outcome():
    """Wherever an error is made: who counts by code and who counts by outcome see the same requests."""
    found = made() | {"too_many_connections": {"rejected"}}  # set a line later: such a connection has no request yet
    assert len(found) > 40
    assert {code: outcomes for code, outcomes in found.items() if len(outcomes) > 1} == {}
    assert set().union(*found.values()) <= set(OUTCOMES)


def test_the_page_says_which():
    """docs/log.md has a line for each outcome, and on it the codes that do not follow from their status."""
    page = (ROOT / "docs" / "log.md").read_text(encoding="utf-8")
    section = page[page.index("## Outcomes") : page.index("## Codes")]
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*) \|$", section[section.index("|---") :], re.MULTILINE))
    assert tuple(rows) == OUTCOMES
    named = {code: outcome for outcome, text in rows.items() for code in re.findall(r"`([a-z_]+)`", text)}
    for code, outcomes in made().items():
        [outcome] = outcomes
        if outcome not in ("client_error", "upstream_error"):
            assert named.get(code, "rejected" if code == "too_many_connections" else None) == outcome, code


SAMPLES = {
    CacheAway: [CacheAway("timeout")],
    ExactStoreAway: [ExactStoreAway("timeout")],
    LimitExceeded: [
        LimitExceeded(Scope("k", "key", 1), resource, limit=1, used=1, requested=1, wait=1.0, never=never)
        for resource in ("requests", "tokens", "parallel")
        for never in (False, True)
    ],
    QueueFull: [QueueFull(tenant=tenant, retry_after=1.0) for tenant in (True, False)],
    QueueTimeout: [QueueTimeout(1.0)],
    WaitTooLong: [WaitTooLong(tenant=tenant, retry_after=1.0, expected=9.0, most=5.0) for tenant in (True, False)],
    UnknownModel: [UnknownModel("m")],
    ModelNotAllowed: [ModelNotAllowed("m")],
    EndpointNotServed: [EndpointNotServed("m", "chat")],
    UnknownTier: [UnknownTier("t", ("small",))],
}
"""Of those that are not made from nothing."""


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.__name__)
def test_every_refusal_of_the_leaves_is_an_answer_with_an_outcome(kind):
    """Whatever a leaf can raise: the table has it, its answer has a status, a code and an outcome, and survives a link."""
    for error in SAMPLES.get(kind) or [kind()]:
        answer = refusal(error)
        assert answer.status >= 400
        assert answer.code
        assert answer.outcome in OUTCOMES
        again = decoded(encoded(answer))
        assert (again.status, again.code, again.outcome) == (answer.status, answer.code, answer.outcome)
    assert kind in TABLE


def test_what_concerns_one_request_alone_is_a_refusal():
    """Others who wait for the same answer ask again, and each is told by the same table."""
    assert set(PERSONAL) <= set(REFUSALS)


def test_an_outcome_from_elsewhere_is_one_of_them():
    """What another process says is checked as it is read."""
    fault = msgspec.json.encode({**msgspec.to_builtins(Fault.of(internal_error())), "outcome": "unheard_of"})
    with pytest.raises(msgspec.ValidationError):
        decoded(fault)


@pytest.mark.parametrize(
    ("status", "outcome"), [(400, "client_error"), (409, "client_error"), (500, "upstream_error"), (503, "upstream_error")]
)
def test_an_error_that_says_nothing_has_the_outcome_of_its_status(status, outcome):
    """Below 500 it is the request's fault."""
    assert ApiError(status, "x", "x").outcome == outcome
