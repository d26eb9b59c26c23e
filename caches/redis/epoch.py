"""Since when a shared server has known what it knows: the mark on everything (see `scripts`, rule 2).

It is there for as long as the server has lost nothing, and one that was wiped has none, or another. Where there is none it is
made, as by a put.
"""

from __future__ import annotations

from redis.asyncio.connection import AbstractConnection

from caches.redis import scripts
from caches.redis.server import Declined, ask
from caches.redis.store import EVERYTHING_FIELD, MARKS


async def read_epoch(connection: AbstractConnection) -> bytes:
    """Empty: there is none, and the server writes nothing."""
    await connection.send_command("HGET", MARKS, EVERYTHING_FIELD)
    known = await connection.read_response()
    if isinstance(known, bytes):
        return known
    made = await ask(connection, scripts.MARK, [MARKS], [EVERYTHING_FIELD])
    return b"" if isinstance(made, Declined) else bytes(made[0])
