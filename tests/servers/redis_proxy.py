"""What stands between a gateway and a Redis, and can be slow, deaf or cut; and what stands in a Redis' place."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Proxy:
    """Passes bytes on to a Unix socket. `delay` holds every piece back; where `deaf` says so, nothing is passed on.

    `hold` keeps back answers on connections that use scripts.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self.delay = 0.0
        self.deaf: Callable[[bytes], bool] = lambda _: False  # of a connection, by what it first sent
        self.hold: asyncio.Event | None = None  # what answers to scripts wait for
        self.held = 0
        self.url = ""
        self.accepted = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """End all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            self._tasks.discard(task)
            return
        self._writers |= {writer, far_writer}
        sent = bytearray()
        try:
            await asyncio.gather(
                self._pass(reader, far_writer, sent, ours=True), self._pass(far_reader, writer, sent, ours=False)
            )
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for one in (writer, far_writer):
                one.transport.abort()
                self._writers.discard(one)
            self._tasks.discard(task)

    async def _pass(self, reader, writer, sent: bytearray, *, ours: bool) -> None:
        while data := await reader.read(65536):
            if ours and len(sent) < 4096:
                sent += data
            if self.delay:
                await asyncio.sleep(self.delay)
            if not ours and self.hold is not None and (b"EVAL" in sent or b"LOAD" in sent):
                self.held += 1
                await self.hold.wait()
            if not self.deaf(bytes(sent)):
                writer.write(data)
                await writer.drain()
        raise ConnectionResetError

    async def close(self) -> None:
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxy(target: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    made = Proxy(target)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    made.url = f"redis://127.0.0.1:{port}/0" if tls is None else f"rediss://localhost:{port}/0"
    try:
        yield made
    finally:
        server.close()
        await made.close()


@asynccontextmanager
async def impostor(answer: bytes | None, *, polite: bool = False, ends: bool = False) -> AsyncIterator[str]:
    """Says the same to whatever it is asked; None: nothing. `polite`: it says hello as a Redis does. `ends`: it then hangs up."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while data := await reader.read(65536):
                hello = polite and b"CLIENT" in data
                if hello:
                    writer.write(b"+OK\r\n" * data.count(b"CLIENT"))
                elif answer is not None:
                    writer.write(answer)
                await writer.drain()
                if ends and not hello:
                    break
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
