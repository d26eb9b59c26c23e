"""`chat.completion` and `chat.completion.chunk` as vLLM writes them: which keys are there, in which order, null or absent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gateway.lab.fake.exchange import encode
from gateway.lab.fake.generate import ChunkEnds
from gateway.lab.fake.reply import Call, Reply
from gateway.lab.fake.style import Ask, alternatives, bare, compact, probability, token_ids, tokens_of, usage
from gateway.lab.fake.text import encode as tokens_in
from gateway.lab.fake.text import quote

_NO_TEXT = b'{"content":""}'
_TAIL = b',"logprobs":null,"finish_reason":null,"token_ids":null}]}\n\n'


class ChatFormat(ChunkEnds):
    """One answer's form; made for each request, so that what its chunks share is encoded once."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self._start = b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"choices":[' % (
            encode(ask.id),
            ask.created,
            encode(ask.model),
        )

    def opening(self, index: int) -> bytes:
        role = b'{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]' % index
        ids = compact(tokens_in(self.ask.prompt)) if self.ask.token_ids else b"null"
        return b'%b%b%b,"prompt_token_ids":%b,"prompt_text":null}\n\n' % (self._start, role, self._running_usage(0), ids)

    def events(self, reply: Reply, index: int) -> list[bytes]:
        """One event for each token; the last one carries the finish reason."""
        ask = self.ask
        head = b'%b{"index":%d,"delta":' % (self._start, index)
        deltas, tokens = _deltas(reply, parsed=ask.parsed), tokens_of(reply.texts(), eos=reply.eos)
        if reply.eos:
            deltas.append(_NO_TEXT if reply.plain and not ask.parsed else b"{}")
        if ask.logprobs is None and not ask.token_ids and not ask.continuous:
            events = [head + delta + _TAIL for delta in deltas[:-1]]
        else:
            events = [head + delta + self._tail(tokens, at) + b"}\n\n" for at, delta in enumerate(deltas[:-1])]
        last = deltas[-1] if deltas else _NO_TEXT
        return [*events, head + last + self._ending(reply, tokens, len(deltas) - 1)]

    def _ending(self, reply: Reply, tokens: Sequence[str], at: int) -> bytes:
        stop = b'"finish_reason":%b,"stop_reason":%b,' % (encode(reply.finish), encode(reply.stop_reason))
        mark = b"" if self.ask.include_usage else b',"system_fingerprint":' + encode(self.ask.fingerprint)
        return self._tail(tokens, at, stop) + mark + b"}\n\n"

    def aborted(self, index: int) -> bytes:
        """The end that a request gets when the engine drops it."""
        reply = Reply(finish="abort", eos=False)
        return b'%b{"index":%d,"delta":{"content":""}%b' % (self._start, index, self._ending(reply, (), -1))

    def usage_event(self, total: int, cached: int, reasoning: int) -> bytes:
        counted = compact(bare(usage(self.ask, total, cached=cached, reasoning=reasoning)))
        return b'%b],"usage":%b,"system_fingerprint":%b}\n\n' % (self._start, counted, encode(self.ask.fingerprint))

    def whole(self, replies: Sequence[Reply], total: int, cached: int) -> dict[str, Any]:
        ask = self.ask
        return {
            "id": ask.id,
            "object": "chat.completion",
            "created": ask.created,
            "model": ask.model,
            "choices": [self._choice(reply, index) for index, reply in enumerate(replies)],
            "service_tier": None,
            "system_fingerprint": ask.fingerprint,
            "usage": usage(ask, total, cached=cached, reasoning=sum(len(reply.reasoning) for reply in replies)),
            "prompt_logprobs": None,
            "prompt_token_ids": tokens_in(ask.prompt) if ask.token_ids else None,
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    def _tail(self, tokens: Sequence[str], at: int, stop: bytes = b'"finish_reason":null,') -> bytes:
        token, ask = tokens[at] if 0 <= at < len(tokens) else None, self.ask
        logprobs, ids = b"null", b"null"
        if token is not None and ask.logprobs is not None:
            logprobs = compact({"content": [logprob(token, at, ask.logprobs)]})
        if token is not None and ask.token_ids:
            ids = compact(token_ids(token))
        return b',"logprobs":%b,%b"token_ids":%b}]%b' % (logprobs, stop, ids, self._running_usage(at + 1))

    def _running_usage(self, made: int) -> bytes:
        if not self.ask.continuous:
            return b""
        counted = {**bare(usage(self.ask, made)), "completion_tokens_details": None}
        return b',"usage":' + compact(counted)

    def _choice(self, reply: Reply, index: int) -> dict[str, Any]:
        ask = self.ask
        tokens = tokens_of(reply.texts(), eos=reply.eos)
        probabilities = None
        if ask.logprobs is not None:
            probabilities = {"content": [logprob(token, at, ask.logprobs) for at, token in enumerate(tokens)]}
        return {
            "index": index,
            "message": _message(reply),
            "logprobs": probabilities,
            "finish_reason": reply.finish,
            "stop_reason": reply.stop_reason,
            "token_ids": [number for token in tokens for number in token_ids(token)] if ask.token_ids else None,
            "routed_experts": None,
        }


def _message(reply: Reply) -> dict[str, Any]:
    """`tool_calls` is absent when there are none; content is null only beside reasoning or a refusal."""
    content = "".join(reply.content)
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "".join(call.arguments)}}
        for call in reply.calls
    ]
    return {
        "role": "assistant",
        "content": content if content or reply.plain or calls else None,
        "refusal": "".join(reply.refusal) or None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        **({"tool_calls": calls} if calls else {}),
        "reasoning": "".join(reply.reasoning) or None,
    }


def _deltas(reply: Reply, *, parsed: bool) -> list[bytes]:
    """Beside a tool call, a parser says that there is no content; without one nothing is said of it."""
    said = [b'{"content":' + text + b"}" for text in reply.json_strings()]
    if reply.plain:
        return said
    thought = [b'{"reasoning":' + text + b"}" for text in quote(reply.reasoning)]
    refused = [b'{"refusal":' + text + b"}" for text in quote(reply.refusal)]
    beside = b'"content":null,' if parsed else b""
    called = [delta for index, call in enumerate(reply.calls) for delta in _call_deltas(call, index, beside)]
    return [*thought, *said, *refused, *called]


def _call_deltas(call: Call, index: int, beside: bytes) -> Iterator[bytes]:
    yield b'{%b"tool_calls":[{"id":%b,"type":"function","index":%d,"function":{"name":%b}}]}' % (
        beside,
        encode(call.id),
        index,
        encode(call.name),
    )
    for text in quote(call.arguments):
        yield b'{%b"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}' % (beside, index, text)


def logprob(token: str, place: int, top: int) -> dict[str, Any]:
    def entry(text: str, value: float) -> dict[str, Any]:
        return {"token": text, "logprob": value, "bytes": list(text.encode("utf-8", "replace"))}

    listed = [entry(text, value) for text, value in alternatives(token, place, 20 if top == -1 else top)]
    return {**entry(token, probability(token, place)), "top_logprobs": listed}
