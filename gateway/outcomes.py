"""How requests end. A closed set, and each request is in exactly one: `gateway.edge` sets it, once, and counts it, once.

ok               answered as it was asked; also where the client left when the answer had said that it is whole
client_error     the request itself: malformed, unknown, not allowed, or refused by the backend with a 400, 413 or 422
limited          a limit of its tenant, ours or the backend's own 429
rejected         nothing was wrong with it, but there is no room, no replica, no owner, or the end of the process
timeout          its time ran out in the queue or at a replica
upstream_error   no replica could answer; also a fault of our own
broken_stream    its answer had begun, and did not come to its end
client_gone      the client left before its answer was whole
"""

from __future__ import annotations

from typing import Literal, get_args

RequestOutcome = Literal["ok", "client_error", "limited", "rejected", "timeout", "upstream_error", "broken_stream", "client_gone"]
OUTCOMES: tuple[RequestOutcome, ...] = get_args(RequestOutcome)
