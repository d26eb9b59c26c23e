"""CPU of the exact cache's parts: a look-up by the size and shape of the request, an answer put together, an answer replayed.

    .venv/bin/python -m bench.exact [--json]

Microseconds of this process's CPU, the best of several rounds: what a part costs when nothing else is in its way. No network, and
no gateway around it.
"""

from __future__ import annotations

import argparse
import sys
import time
import timeit
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from caches.assemble import assemble
from caches.directives import PLAIN
from caches.key import exact_key
from caches.memory import MemoryStore
from caches.policy import ExactPolicy
from caches.replay import as_events
from caches.scope import Scope
from caches.types import Entry

_WORDS = "The quick brown fox, seen at 10.5 km, jumps over the lazy dog. "
_MODELS = (("qwen2.5-7b-instruct", "2024-09"), ("llama-3.3-70b-instruct", ""))
_POLICY = ExactPolicy(enabled=True, ttl=3600.0, keep="deterministic", max_entry=1 << 20)
_ROUND = 0.05  # seconds
_ROUNDS = 7

Rows = dict[str, dict[str, float]]


def request(size: int, messages: int, tools: int = 0) -> dict[str, Any]:
    """A chat request of about so many bytes, as the gateway has parsed it."""
    each = max(1, size // messages)
    text = (_WORDS * (each // len(_WORDS) + 1))[:each]
    body: dict[str, Any] = {"model": "auto", "temperature": 0.0, "max_tokens": 256, "stream": True, "user": "u"}
    body["messages"] = [{"role": "user", "content": text} for _ in range(messages)]
    if tools:
        properties = {f"p{n}": {"type": "number", "minimum": 0.5, "description": "How far."} for n in range(4)}
        parameters = {"type": "object", "properties": properties, "required": ["p0"]}
        body["tools"] = [{"type": "function", "function": {"name": f"f{n}", "parameters": parameters}} for n in range(tools)]
    return msgspec.json.decode(msgspec.json.encode(body), type=dict[str, Any])


REQUESTS = {
    "200 B, 1 message": request(200, 1),
    "2 KB, 2 messages": request(2_048, 2),
    "2 KB, 40 messages": request(2_048 - 40 * 28, 40),
    "2 KB, 4 tools": request(600, 2, tools=4),
    "20 KB, 20 messages": request(20_480, 20),
    "200 KB, 100 messages": request(204_800, 100),
    "2 MB, 100 messages": request(2_097_152, 100),
}


def chat_answer(tokens: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": "word " * tokens}
    usage = {"prompt_tokens": 20, "completion_tokens": tokens, "total_tokens": tokens + 20}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}


def response(tokens: int) -> dict[str, Any]:
    part = {"type": "output_text", "text": "word " * tokens, "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": "r",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [item],
        "usage": {"output_tokens": tokens},
    }


def chat_stream(tokens: int) -> list[bytes]:
    """As a backend streams it: a token an event."""
    head = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    first = head + b'{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
    last = head + b'{},"finish_reason":"stop"}]}\n\n'
    return [first, *[head + b'{"content":"word "},"finish_reason":null}]}\n\n'] * tokens, last, b"data: [DONE]\n\n"]


def response_stream(tokens: int) -> list[bytes]:
    delta = (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"msg_1","delta":"word "}\n\n'
    )
    return [delta] * tokens + as_events("responses", response(tokens), include_usage=False)[-1:]


def looked_up(body: dict[str, Any]) -> dict[str, float]:
    store = MemoryStore(1 << 24)

    def key() -> bytes:
        return exact_key(secret=b"s" * 32, scope=Scope("acme"), endpoint="chat", models=_MODELS, body=body, tier=None)

    def look() -> Entry | None:
        return finished(store.get(key())) if _POLICY.use(body, "chat", PLAIN).lookup else None

    found = {"bytes": float(len(msgspec.json.encode(body))), "key": cpu(key), "miss": cpu(look)}
    now = time.time()
    entry = Entry("ce-1", key(), "acme", "m", "small", "chat", b"{}", stored_at=now, expires_at=now + 3600)
    assert finished(store.put(entry))
    return {**found, "hit": cpu(look)}


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("it waits for something")


def formed(tokens: int) -> dict[str, float]:
    chat, other, chunks, events = chat_answer(tokens), response(tokens), chat_stream(tokens), response_stream(tokens)
    return {
        "chat assembled": cpu(lambda: assemble("chat", chunks)),
        "chat replayed": cpu(lambda: as_events("chat", chat, include_usage=True)),
        "responses assembled": cpu(lambda: assemble("responses", events)),
        "responses replayed": cpu(lambda: as_events("responses", other, include_usage=True)),
    }


def cpu(function: Callable[[], object]) -> float:
    """Microseconds."""
    timer = timeit.Timer(function, timer=time.process_time)
    number = 1
    while (spent := timer.timeit(number)) < _ROUND / 4:
        number *= 4
    number = max(1, int(number * _ROUND / spent))
    return min(timer.repeat(_ROUNDS, number)) / number * 1e6


def table(rows: Rows) -> str:
    names = list(next(iter(rows.values())))
    lines = [f"{'':24}" + "".join(f"{name:>22}" for name in names)]
    lines += [f"{row:24}" + "".join(f"{value:>22,.0f}" if value >= 1000 else f"{value:>22.1f}" for value in values.values())
              for row, values in rows.items()]  # fmt: skip
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found: dict[str, Rows] = {
        "look-up, microseconds": {name: looked_up(body) for name, body in REQUESTS.items()},
        "answer, microseconds": {f"{tokens} tokens": formed(tokens) for tokens in (20, 200, 2000)},
    }
    if args.json:
        print(msgspec.json.encode(found).decode())
    else:
        print("\n\n".join(f"{title}\n{table(rows)}" for title, rows in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
