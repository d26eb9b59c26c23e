import pytest

from limits.types import LimitExceeded, Scope
from limits.waiting import Priority, QueueBounds, QueueFull, QueueTimeout, SlotAsk


@pytest.mark.parametrize("priority", ["realtime", 0, 1.0, None, True, (0,), {"class": 1}])
def test_priority_of_another_type_is_refused(priority):
    """Only a Priority is one, so an order never compares what a client wrote."""
    with pytest.raises(TypeError, match="priority must be a Priority"):
        SlotAsk(priority, "acme", 1, 1, 10.0)


@pytest.mark.parametrize(("tokens", "size"), [(-1, 0), (0, -1)])
def test_ask_cannot_make_room(tokens, size):
    """An ask with a negative amount is refused: it would make room in the queue."""
    with pytest.raises(ValueError, match="negative"):
        SlotAsk(Priority.BATCH, "acme", tokens, size, 10.0)


@pytest.mark.parametrize("limits", [{"rpm": -1}, {"tpm": -1}, {"max_parallel": -1}])
def test_negative_limit_is_refused(limits):
    """A limit below zero is a mistake in the configuration."""
    with pytest.raises(ValueError, match="tenant 'acme' is negative"):
        Scope("t:acme", "tenant", name="acme", **limits)


@pytest.mark.parametrize(
    "change",
    [
        {"max_requests": -1},
        {"max_bytes": -1},
        {"max_tokens": -1},
        {"max_wait": (1.0, -1.0, 1.0)},
        {"weights": (4, 0, 1)},
        {"tenant_share": 0.0},
        {"tenant_share": 1.5},
    ],
)
def test_senseless_bounds_are_refused(change):
    """Bounds that would starve a class or hold nothing are a mistake in the configuration."""
    bounds = {"max_requests": 10, "max_bytes": 10, "max_tokens": 10, "max_wait": (1.0, 1.0, 1.0)}
    with pytest.raises(ValueError):
        QueueBounds(**(bounds | change))


def test_messages_say_what_whose_and_when():
    """The message of a refusal names the resource, whose limit it is, the numbers, and when to come back."""
    scope = Scope("t:acme", "tenant", tpm=100, name="acme")
    short = LimitExceeded(scope, "tokens", limit=100, used=90, requested=20, wait=6.0)
    assert str(short) == "tokens per minute of tenant acme: limit 100, used 90, requested 20; try again in 6.000 s"
    never = LimitExceeded(scope, "tokens", limit=100, used=0, requested=200, wait=0.0, never=True)
    assert str(never).endswith("requested 200; it can never fit")
    slot = LimitExceeded(Scope("k", "key"), "parallel", limit=1, used=1, requested=1, wait=1.0)
    assert str(slot).startswith("parallel requests of key: limit 1")
    assert str(QueueFull(tenant=True, retry_after=3.2)) == "the tenant holds its share of the queue; try again in 3 s"
    assert str(QueueFull(tenant=False, retry_after=3.2)) == "the queue is full; try again in 3 s"
    assert str(QueueTimeout(1.5)) == "no slot came free within 1.500 s"
