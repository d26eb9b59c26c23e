"""A thread for blocking calls, one after the other, in the order in which they were asked.

A daemon, so a call that hangs (a download, a driver) does not keep the process from ending, as an executor's would. But a process
that ends while one of its threads is in C++ may abort: so at its end it gives the call a moment.
"""

from __future__ import annotations

import asyncio
import atexit
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

_GRACE = 2.0
"""Seconds for the last call, when the process ends."""


class CallThread:
    """Starts with its first call; ends with `close`, after all that was asked before."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, what: Callable[[], T]) -> asyncio.Future[T]:
        """Cancelling what it returns does not end a call that has begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
            atexit.register(self._leave)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            outcome = _outcome(what)
            with suppress(RuntimeError):  # the loop has closed meanwhile: nobody waits
                loop.call_soon_threadsafe(_tell, future, outcome)

        self._calls.put(run)
        return future

    def close(self) -> None:
        self._calls.put(None)

    def _run(self) -> None:
        while (run := self._calls.get()) is not None:
            run()
        atexit.unregister(self._leave)

    def _leave(self) -> None:
        self.close()
        if self._thread is not None:
            self._thread.join(_GRACE)


def _outcome(what: Callable[[], T]) -> tuple[T] | Exception:
    try:
        return (what(),)
    except Exception as error:  # noqa: BLE001 - a thread's edge: it goes to whoever asked
        return error


def _tell(future: asyncio.Future[T], outcome: tuple[T] | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome[0])
