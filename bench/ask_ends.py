"""The two ends that `bench.ask` measures: a worker that asks for a place for each request, a dispatcher that answers at once."""

from __future__ import annotations

import asyncio
import resource
import time

import msgspec

from gateway.dispatch.channel import Channel


class Ask(msgspec.Struct, array_like=True, tag=1, gc=False):
    """As much as a request brings to the decision about it."""

    serial: int
    tenant: str
    key: str
    model: str
    priority: str
    session: str
    fingerprint: bytes
    prompt_tokens: int
    max_tokens: int
    choices: int
    stream: bool
    arrived: float
    deadline: float
    needs: tuple[str, ...]
    blocks: tuple[int, ...]  # hashes of the prompt's first blocks


class Answer(msgspec.Struct, array_like=True, tag=2, gc=False):
    serial: int
    outcome: str
    replica: str
    url: str
    tier: str
    waited: float
    tokens: int
    requests_left: int
    tokens_left: int
    resets: tuple[float, float]


class Done(msgspec.Struct, array_like=True, tag=3, gc=False):
    serial: int
    status: int
    prompt_tokens: int
    completion_tokens: int
    first_token: float


class Count(msgspec.Struct, array_like=True, tag=4, gc=False):
    """What an end has used since it began; sent empty, it asks for that of the other end."""

    cpu: float = 0.0
    messages: int = 0
    writes: int = 0

    def __sub__(self, earlier: Count) -> Count:
        return Count(self.cpu - earlier.cpu, self.messages - earlier.messages, self.writes - earlier.writes)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Ask | Answer | Done | Count).decode


class Answering:
    """The dispatcher's end."""

    def __init__(self) -> None:
        self.channel = Channel(self._on_frames, self._on_closed)
        self.gone = asyncio.Event()
        self._held: dict[int, tuple[asyncio.Task[None], asyncio.Future[None]]] = {}
        self._loop = asyncio.get_running_loop()
        self._messages = 0

    def _on_frames(self, frames: list[bytes]) -> None:
        for frame in frames:
            message = _decode(frame)
            if type(message) is Ask:
                done = self._loop.create_future()
                self._held[message.serial] = self._loop.create_task(self._hold(message, done)), done
            elif type(message) is Done:
                self._held.pop(message.serial)[1].set_result(None)
            else:
                self.channel.send(_encode(Count(_cpu(), self._messages, self.channel.writes)))

    async def _hold(self, ask: Ask, done: asyncio.Future[None]) -> None:
        replica = f"replica-{ask.serial & 7}"
        url = "http://10.0.0.17:8000/v1/chat/completions"
        answer = Answer(ask.serial, "granted", replica, url, "small", 0.0, ask.max_tokens, 599, 99_000, (0.1, 12.5))
        self._messages += 1
        self.channel.send(_encode(answer))
        await done

    def _on_closed(self) -> None:
        for task, _ in self._held.values():
            task.cancel()
        self.gone.set()


class Asking:
    """The worker's end."""

    def __init__(self) -> None:
        self.channel = Channel(self._on_frames, self._on_closed)
        self.waits: list[float] = []  # for each answer, in seconds
        self._serial = 0
        self._messages = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._count: asyncio.Future[Count] | None = None
        self._loop = asyncio.get_running_loop()

    def _on_frames(self, frames: list[bytes]) -> None:
        for frame in frames:
            message = _decode(frame)
            if type(message) is Answer:
                self._waiting.pop(message.serial).set_result(message)
            elif self._count is not None and type(message) is Count:
                self._count.set_result(message)

    def _on_closed(self) -> None:
        for future in self._waiting.values():
            future.set_exception(ConnectionResetError("the other end went away"))

    async def ask(self) -> Answer:
        self._serial = serial = self._serial + 1
        now = time.monotonic()
        answered: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[serial] = answered
        self._messages += 1
        self.channel.send(_encode(_ask(serial, now)))
        answer = await answered
        self.waits.append(time.monotonic() - now)
        return answer

    def done(self, answer: Answer) -> None:
        self._messages += 1
        self.channel.tell(_encode(Done(answer.serial, 200, 412, answer.tokens, self.waits[-1])))

    async def counts(self) -> tuple[Count, Count]:
        """Of this end and of the other."""
        self._count = self._loop.create_future()
        self.channel.send(_encode(Count()))
        theirs = await self._count
        return Count(_cpu(), self._messages, self.channel.writes), theirs


def _ask(serial: int, now: float) -> Ask:
    return Ask(
        serial, "acme", "key-7f3a9c", "llama-3.1-70b-instruct", "interactive", "session-48151623", b"0123456789abcdef" * 2,
        412, 256, 1, True, now, now + 30.0, ("tools", "json"), tuple(range(serial << 32, (serial << 32) + 8)),
    )  # fmt: skip


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
