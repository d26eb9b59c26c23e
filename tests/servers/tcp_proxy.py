"""A TCP proxy that can do what a network does: stall, be slow, cut, refuse."""

import asyncio
import contextlib


class Proxy:
    """`open` is the gate that every piece passes; `delay` is what each piece waits for besides, in seconds."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.port = 0
        self.delay = 0.0
        self.open = asyncio.Event()
        self.open.set()
        self.refuses = False
        self._server = None
        self._tasks = set()

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        self._server.close()
        await self.cut()
        await self._server.wait_closed()

    async def cut(self):
        """Reset every connection that is open now."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        there = None
        try:
            if not self.refuses:
                back, there = await asyncio.open_connection("127.0.0.1", self.target)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass(reader, there))
                    group.create_task(self._pass(back, writer))
        except (asyncio.CancelledError, OSError, ExceptionGroup):
            pass
        finally:
            self._tasks.discard(task)
            for end in (writer, there):
                if end is not None:
                    end.transport.abort()

    async def _pass(self, reader, writer):
        while data := await reader.read(65536):
            await self.open.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
