"""The one request that a new replica has to answer before it is given a client's.

An engine's first request pays for what was put off at its start: kernels compiled, memory and graphs laid out. A client
should not be the one who waits for that. `/health` says nothing of it, and neither of a served name that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A POST below the replica's base path; any 2xx has passed. After `attempts` failures the replica serves all the same:
    a warm-up that is wrong for an engine must not keep it out for ever. One that it refuses with 401, 403 or 404 does.
    """

    path: str
    body: bytes
    timeout: float = 30.0
    attempts: int = 5
