"""Looking a name up, with a deadline that holds.

The event loop's own look-up runs in a pool of threads that the loop waits for when it closes, so a resolver that hangs
would keep the command alive long after its answer was printed. A daemon thread is left behind instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

Found = tuple[int, int, int, tuple[str | int | bytes, ...]]
"""Family, kind, protocol, address: what `socket` takes."""


async def look_up(host: str, port: int, seconds: float, *, passive: bool = False) -> list[Found]:
    """Where a stream to `host` may go. TimeoutError after so many seconds; OSError when there is no such name."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Found] | OSError] = loop.create_future()

    def settle(result: list[Found] | OSError) -> None:
        if not answer.done():
            answer.set_result(result)

    def work() -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, _look_up(host, port, passive=passive))

    threading.Thread(target=work, name="name", daemon=True).start()
    async with asyncio.timeout(seconds):
        result = await answer
    if isinstance(result, OSError):
        raise result
    return result


def _look_up(host: str, port: int, *, passive: bool) -> list[Found] | OSError:
    flags = socket.AI_PASSIVE if passive else 0
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError:
        return OSError(socket.EAI_NONAME, "not a name")
    except OSError as error:
        return error
    return [(family, kind, protocol, address) for family, kind, protocol, _, address in found]
