"""Answers on their way from the worker that makes them to clients of other workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from gateway.dispatch.case import Case
    from gateway.dispatch.session import Session


class Feeds:
    """The owner's part: who gets which answer."""

    def open(self, maker: Case, subscriber: Session) -> int:  # noqa: ARG002
        return 0

    def said(self, session: Session, message: msgspec.Struct) -> None: ...

    def left(self, session: Session) -> None: ...
