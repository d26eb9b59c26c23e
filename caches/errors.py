"""What a subscriber of a flight may hear instead of an answer, beside the producer's own exception."""

from __future__ import annotations


class Orphaned(Exception):  # noqa: N818 - a state of the subscriber, to be acted on
    """The flight ended without this subscriber's fault, and before it was given anything: join again."""

    def __init__(self, *, spent: bool) -> None:
        super().__init__("the shared request ended early; ask again")
        self.spent = spent


class FlightLagged(Exception):  # noqa: N818 - says what happened
    """The subscriber read so slowly that the record could no longer hold what it had not had."""


class FlightCancelled(Exception):  # noqa: N818 - says what happened
    """The producer was cancelled by somebody else than its subscribers, as when the process stops."""


class CacheAway(Exception):  # noqa: N818 - it names what happened
    """What was to be changed in a store could not be. `reason`: why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ExactStoreAway(CacheAway):
    """The store did not answer, or not as it must. `reason` is a word for a header: `timeout`, `breaker`, `failed`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the store of exact answers is away: {reason}")
        self.reason = reason
