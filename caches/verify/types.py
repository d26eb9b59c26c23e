"""What a verifier is, for whoever asks it."""

from __future__ import annotations

from typing import Protocol


class VerifierAway(Exception):  # noqa: N818 - it names what happened
    """It did not say in time. `reason` is a word for a header: `loading`, `timeout`, `breaker`, `overload`, `failed`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Verifier(Protocol):
    """`all`: it is also asked about what would be served without it."""

    all: bool

    async def approves(self, question: str, kept: str, *, scope: str = "") -> bool:
        """Whether the answer to a kept question may serve another one; what it cannot read whole may not.

        Raises VerifierAway. Work is shared between equal pairs of one `scope` only.
        """
        ...

    async def open(self) -> None:
        """Load whatever it runs. Raises VerifierAway when that fails; it goes on trying by itself."""
        ...

    async def close(self) -> None: ...
