"""What the end-to-end tests share: requests over bare sockets, answers put together again, a clock that stands still, the CLI."""

import asyncio
import hashlib
import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from caches.types import ExactStore
from gateway.pipeline import Pipeline
from gateway.prompt import TEMPLATE_BYTES
from limits.estimate import prompt_tokens

# pytest knows each conftest.py by its folder; Python knows one module of that name, and it may be another folder's.
_spec = importlib.util.spec_from_file_location("gateway_harness", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
_harness = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _harness  # dataclasses look their module up
_spec.loader.exec_module(_harness)

KEY: str = _harness.KEY
OTHER_KEY: str = _harness.OTHER_KEY
ADMIN_KEY: str = _harness.ADMIN_KEY
config_of: Any = _harness.config_of
Stack = Any
"""The harness's `Stack`, which a test gets from the fixtures `stack` and `start`."""

ROOT = Path(__file__).resolve().parents[2]
CHAT = "/v1/chat/completions"
GREEDY = {"temperature": 0}


def chat(content: str = "hello", **fields: Any) -> dict[str, Any]:
    """The body of a chat request; a field given as None is left out."""
    body = {"model": "small-model", "messages": [{"role": "user", "content": content}], **fields}
    return {name: value for name, value in body.items() if value is not None}


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def tenant(name: str, secret: str, *, plan: str | None = "pro", key_id: str = "k1", **fields: Any) -> dict[str, Any]:
    """A tenant of the config with one key; `key` holds that key's own settings."""
    key = {"id": key_id, "sha256": digest(secret), **fields.pop("key", {})}
    return {"name": name, **({"plan": plan} if plan else {}), "keys": [key], **fields}


ACME = tenant("acme", KEY)
GLOBEX = tenant("globex", OTHER_KEY)


# -- what came back


def payloads(text: str) -> list[Any]:
    """The events of a stream; `[DONE]` as it is."""
    parts = [part for part in text.split("\n\n") if part]
    assert all(part.startswith("data: ") for part in parts), text[-300:]
    return [part[6:] if part == "data: [DONE]" else json.loads(part[6:]) for part in parts]


def said(answer: Any) -> list[dict[str, Any]]:
    """What an answer says, choice by choice, in one form for JSON and for a stream."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return [_whole(choice) for choice in answer.json()["choices"]]
    found: dict[int, dict[str, Any]] = {}
    for chunk in payloads(answer.text):
        for choice in [] if chunk == "[DONE]" else chunk["choices"]:
            _add(found.setdefault(choice["index"], _nothing()), choice)
    return [found[index] for index in sorted(found)]


def _nothing() -> dict[str, Any]:
    return {"content": "", "reasoning": "", "refusal": "", "tools": [], "finish": None, "logprobs": []}


def _whole(choice: dict[str, Any]) -> dict[str, Any]:
    one = _nothing()
    message = choice.get("message", {"content": choice.get("text")})
    for name in ("content", "reasoning", "refusal"):
        one[name] = message.get(name) or ""
    for call in message.get("tool_calls") or []:
        one["tools"].append([call["id"], call["function"]["name"], call["function"]["arguments"]])
    one["finish"] = choice["finish_reason"]
    one["logprobs"] = _tokens(choice)
    return one


def _add(one: dict[str, Any], choice: dict[str, Any]) -> None:
    assert "finish_reason" in choice, "finish_reason is there in every chunk, null until the end"
    delta = choice.get("delta", {"content": choice.get("text")})
    for name in ("content", "reasoning", "refusal"):
        one[name] += delta.get(name) or ""
    for call in delta.get("tool_calls") or []:
        while len(one["tools"]) <= call["index"]:
            one["tools"].append([None, "", ""])
        held, function = one["tools"][call["index"]], call.get("function") or {}
        held[0] = held[0] or call.get("id")
        held[1] += function.get("name") or ""
        held[2] += function.get("arguments") or ""
    one["finish"] = choice["finish_reason"] or one["finish"]
    one["logprobs"] += _tokens(choice)


def _tokens(choice: dict[str, Any]) -> list[Any]:
    logprobs = choice.get("logprobs") or {}
    found = logprobs.get("content") if "content" in logprobs else logprobs.get("tokens")
    return list(found or [])


def usage(answer: Any) -> dict[str, int] | None:
    """The three counts, wherever they stand; None when the answer tells none."""
    bodies = payloads(answer.text) if answer.headers["content-type"].startswith("text/event-stream") else [answer.json()]
    found = [body["usage"] for body in bodies if body != "[DONE]" and body.get("usage")]
    assert len(found) <= 1
    return {name: found[0][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")} if found else None


# -- bare sockets


@dataclass
class Answer:
    """What a bare connection read; shaped like httpx's, as far as `said` and `usage` need it."""

    status_code: int
    headers: dict[str, str]
    content: bytes
    clean: bool = True  # the framing was ended as HTTP wants it

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


def encoded(body: Any) -> bytes:
    """As the requests below carry it."""
    return json.dumps(body, separators=(",", ":")).encode()


def estimate_of(body: Any) -> int:
    """Tokens of the prompt of a chat or a completion, before anything was learned: by the JSON of what the model reads."""
    template = TEMPLATE_BYTES if "messages" in body else 0
    return prompt_tokens(template + sum(len(encoded(body[name])) for name in ("messages", "tools", "prompt") if name in body))


def raw_request(
    body: Any, *, key: str | None = KEY, path: str = CHAT, method: str = "POST", headers: dict[str, str] | None = None
) -> bytes:
    data = body if isinstance(body, bytes) else encoded(body)
    lines = [f"{method} {path} HTTP/1.1", "host: gateway", f"content-length: {len(data)}"]
    lines += [f"authorization: Bearer {key}"] if key is not None else []
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data


@dataclass
class Wire:
    """One connection to a gateway, on which a test does what clients do, politely or not."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, body: Any, **how: Any) -> None:
        self.writer.write(raw_request(body, **how))

    async def head(self) -> int:
        raw = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = raw.split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        return self.status

    async def piece(self) -> bytes:
        """One chunk of a streamed body; b"" is the proper end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def pieces(self) -> list[bytes]:
        """All that is left of a streamed body, to its proper end."""
        found = []
        while piece := await self.piece():
            found.append(piece)
        return found

    async def answer(self) -> Answer:
        """The whole answer."""
        await self.head()
        if "content-length" in self.headers:
            content, clean = await self.reader.readexactly(int(self.headers["content-length"])), True
        else:
            content, clean = b"", True
            try:
                while piece := await self.piece():
                    content += piece
            except (asyncio.IncompleteReadError, ConnectionError):
                clean = False
        return Answer(self.status, self.headers, content, clean)

    def leave(self) -> None:
        self.writer.transport.abort()


async def dial(port: int) -> Wire:
    """A connection that the caller closes with `leave`."""
    return Wire(*await asyncio.open_connection("127.0.0.1", port))


@asynccontextmanager
async def wire(port: int) -> AsyncIterator[Wire]:
    """A connection that is gone afterwards, whatever was under way on it."""
    one = await dial(port)
    try:
        yield one
    finally:
        one.leave()


async def ask(stack: Stack, body: Any, **how: Any) -> Answer:
    """One request on a connection of its own."""
    async with wire(stack.gateway.port) as one:
        one.send(body, **how)
        return await one.answer()


# -- what the fakes and the gateway know


def hold(fake: Any) -> Callable[[], None]:
    """From here on the fake makes no token, until what is returned is called."""
    fake.app.engine.pause()
    resume: Callable[[], None] = fake.app.engine.resume
    return resume


def posts(fake: Any) -> list[Any]:
    """The model calls that a fake received."""
    return [call for call in fake.calls if call.method == "POST"]


async def lines(stack: Stack, count: int) -> list[dict[str, Any]]:
    """The log, once it has `count` lines."""
    await stack.until(lambda: len(stack.log.lines) >= count)
    return stack.log.lines


@dataclass
class Clock:
    """Seconds; it moves when told."""

    now: float

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def freeze_limits(stack: Stack) -> Clock:
    """From here on no token and no request is refilled but by `advance`."""
    clock = Clock(time.monotonic() + 1)
    stack.gateway.parts.limiter._clock = clock
    for worker in getattr(stack.gateway, "workers", ()):
        worker.parts.link.clock = clock
    return clock


def shift_cache(stack: Stack, seconds: float) -> None:
    """For the cache, it is that much later."""
    exact: ExactStore = stack.gateway.parts.exact
    pipeline: Pipeline = stack.gateway.parts.edge._pipeline
    later = lambda: time.time() + seconds  # noqa: E731 - one clock for both
    exact._clock = exact._shelf._clock = later
    pipeline.answers._wall = pipeline.answers.entries._wall = later


async def remaining(stack: Stack, key: str = KEY, **body: Any) -> int:
    """Tokens that the key has left, as a request is told that reserves none: one for a model that does not exist."""
    answer = await ask(stack, chat(**{"model": "no-such-model", **body}), key=key)
    assert answer.status_code == 404
    return int(answer.headers["x-ratelimit-remaining-tokens"])


def station(stack: Stack, model: str = "small-model") -> Any:
    return stack.gateway.parts.lanes[model]


def queued(stack: Stack, model: str = "small-model") -> int:
    return station(stack, model).scheduler.queue.load.requests


_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = _SAMPLE.fullmatch(line)
            assert match, line
            found[match[1], tuple(sorted(_LABEL.findall(match[2] or "")))] = float(match[3])
    return found


async def scrape(stack: Stack) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return samples((await stack.client.get("/metrics")).text)


def total(found: dict[Any, float], name: str, **labels: str) -> float:
    """The sum over all samples of a name that carry these labels."""
    return sum(value for (known, with_), value in found.items() if known == name and labels.items() <= dict(with_).items())


def tokens_told(found: dict[Any, float], log: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Tokens of prompts and of answers, as the counters have them and as the lines add up to: the same two, twice."""
    counted = [total(found, "tiergate_tokens_total", direction=direction) for direction in ("prompt", "completion")]
    return counted, [sum(line[f"{direction}_tokens"] for line in log) for direction in ("prompt", "completion")]


# -- the command line


async def cli(*words: str, **env: str) -> tuple[int, str, str]:
    """`tiergate …` in a process of its own: exit code, stdout, stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway.cli", *words, cwd=ROOT, env={**os.environ, **env},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    except BaseException:
        process.kill()
        raise
    return process.returncode or 0, out.decode(), err.decode()


def write_config(path: Path, fakes: dict[str, Any], changes: dict[str, Any] | None = None) -> Path:
    """The harness's config as a file, for processes of their own."""
    path.write_text(_harness.config_of(fakes, {"keys": {"path": str(path.parent / "keys.json")}, **(changes or {})}))
    return path


def broken_config(path: Path, tree: Any) -> Path:
    path.write_text(yaml.safe_dump(tree))
    return path
