"""What can go wrong between this gateway and a replica.

    UpstreamError             .sent: were request bytes handed to an open socket, so that the replica may have begun?
    ├── ConnectFailed         refused, unreachable, name unknown, TLS failed                        sent is False
    ├── ConnectionBroken      closed or reset before the answer was complete                        sent is True
    ├── UpstreamTimeout       .phase says which timer ran out                    sent is False while connecting
    └── BadResponse           not HTTP, or larger than the bounds                                   sent is True

Rules: no URL, address, header or body byte is ever part of a message, so that an error may be logged as it is.
"""

from __future__ import annotations

from typing import Literal

Phase = Literal["connect", "first_token", "between_tokens", "provider", "total"]


class UpstreamError(Exception):
    """A request to a replica failed."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class ConnectFailed(UpstreamError):  # noqa: N818 - named for what happened
    """No connection was made: nothing of the request left this process.

    `ours`: this process lacked what a connection takes (descriptors, ports), which says nothing about the replica.
    """

    def __init__(self, message: str, *, ours: bool = False) -> None:
        super().__init__(message, sent=False)
        self.ours = ours


class ConnectionBroken(UpstreamError):  # noqa: N818 - named for what happened
    """The connection ended before the answer did."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True)


class UpstreamTimeout(UpstreamError):  # noqa: N818 - named for what happened
    """A deadline passed. The replica may be healthy and busy, so this is no proof of a broken one."""

    def __init__(self, phase: Phase, *, sent: bool) -> None:
        super().__init__(f"the {phase} deadline passed", sent=sent)
        self.phase: Phase = phase


class BadResponse(UpstreamError):  # noqa: N818 - named for what happened
    """The peer answered with something that is not HTTP/1, or that is larger than allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True)
