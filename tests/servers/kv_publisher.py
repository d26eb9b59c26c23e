"""What an engine publishes of its cache, on real sockets: batches to all who subscribe, and replays to who asks."""

import asyncio
import contextlib

import zmq
from kv_engine import Engine


class Publisher:
    """Tells what its `engine` puts out, as vLLM's publisher does. `lose`: the next batches that nobody is to hear of."""

    def __init__(self, engine=None, ports=(None, None)):
        self.engine = engine or Engine()
        self.lose = 0
        self.replays = 0
        self._context = zmq.Context()
        self._pub, self._router = self._context.socket(zmq.PUB), self._context.socket(zmq.ROUTER)
        self._router.set_hwm(0)  # it shares the loop with who reads, and would drop what does not fit
        self.ports = tuple(self._bind(socket, port) for socket, port in zip((self._pub, self._router), ports, strict=True))
        self._sent = 0
        self._task = asyncio.ensure_future(self._run())

    @property
    def addresses(self):
        return {name: f"tcp://127.0.0.1:{port}" for name, port in zip(("events", "replay"), self.ports, strict=True)}

    def say(self, *frames):
        self._pub.send_multipart(frames)

    async def stop(self):
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._context.destroy(linger=0)

    async def restart(self):
        """The engine dies, and another one has its ports."""
        await self.stop()
        return Publisher(Engine(self.engine.block, self.engine.clock + 100), self.ports)

    def _bind(self, socket, port):
        if port is None:
            return socket.bind_to_random_port("tcp://127.0.0.1")
        socket.bind(f"tcp://127.0.0.1:{port}")
        return port

    async def _run(self):
        while True:
            while self._sent < len(self.engine.out):
                number, self._sent = self._sent, self._sent + 1
                if self.lose:
                    self.lose -= 1
                else:
                    self.say(b"kv", number.to_bytes(8, "big"), self.engine.out[number])
            with contextlib.suppress(zmq.Again):
                who, _, start = self._router.recv_multipart(zmq.NOBLOCK)
                self.replays += 1
                for number, batch in self.engine.replay(int.from_bytes(start, "big")):
                    if number < self._sent:
                        self._router.send_multipart((who, b"", b"kv", number.to_bytes(8, "big"), batch))
                self._router.send_multipart((who, b"", b"", b"\xff" * 8, b""))
            await asyncio.sleep(0.005)
