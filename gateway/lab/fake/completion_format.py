"""`text_completion` as vLLM writes it, whole and as chunks. Choices of several prompts are numbered through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.lab.fake.exchange import encode
from gateway.lab.fake.generate import ChunkEnds
from gateway.lab.fake.reply import Reply
from gateway.lab.fake.style import Ask, alternatives, bare, compact, probability, token_ids, tokens_of, usage
from gateway.lab.fake.text import encode as tokens_in
from gateway.lab.fake.text import quote

_TAIL = b',"logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}\n\n'


class CompletionFormat(ChunkEnds):
    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self._start = b'data: {"id":%b,"object":"text_completion","created":%d,"model":%b,"choices":[' % (
            encode(ask.id),
            ask.created,
            encode(ask.model),
        )

    def opening(self, index: int) -> bytes:  # noqa: ARG002 - a completion has no role to begin with
        return b""

    def events(self, reply: Reply, index: int) -> list[bytes]:
        ask = self.ask
        head = b'%b{"index":%d,"text":' % (self._start, index)
        texts, tokens = list(reply.json_strings()), tokens_of(reply.content, eos=reply.eos)
        if reply.eos:
            texts.append(b'""')
        if ask.echo and texts:
            texts[0] = quote([ask.echo + (reply.content[0] if reply.content else "")])[0]
        if ask.logprobs is None and not (ask.token_ids or ask.continuous or ask.echo):
            events = [head + text + _TAIL for text in texts[:-1]]
        else:
            events = [head + text + self._tail(tokens, at, None, None) + b"}\n\n" for at, text in enumerate(texts[:-1])]
        return [*events, head + (texts[-1] if texts else b'""') + self._ending(reply, tokens, len(texts) - 1)]

    def _ending(self, reply: Reply, tokens: Sequence[str], at: int) -> bytes:
        mark = b"" if self.ask.include_usage else b',"system_fingerprint":' + encode(self.ask.fingerprint)
        return self._tail(tokens, at, reply.finish, reply.stop_reason) + mark + b"}\n\n"

    def aborted(self, index: int) -> bytes:
        return b'%b{"index":%d,"text":""%b' % (self._start, index, self._ending(Reply(finish="abort", eos=False), (), -1))

    def usage_event(self, total: int, cached: int, reasoning: int) -> bytes:  # noqa: ARG002 - not told apart here
        counted = compact(bare(usage(self.ask, total, cached=cached)))
        return b'%b],"usage":%b,"system_fingerprint":%b}\n\n' % (self._start, counted, encode(self.ask.fingerprint))

    def whole(self, replies: Sequence[Reply], total: int, cached: int) -> dict[str, Any]:
        ask = self.ask
        return {
            "id": ask.id,
            "object": "text_completion",
            "created": ask.created,
            "model": ask.model,
            "choices": [self._choice(reply, index) for index, reply in enumerate(replies)],
            "service_tier": None,
            "system_fingerprint": ask.fingerprint,
            "usage": usage(ask, total, cached=cached),
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    def _choice(self, reply: Reply, index: int) -> dict[str, Any]:
        ask = self.ask
        tokens = tokens_of(reply.content, eos=reply.eos)
        return {
            "index": index,
            "text": ask.echo + "".join(reply.content),
            "logprobs": self._logprobs(tokens, 0) if ask.logprobs is not None else None,
            "finish_reason": reply.finish,
            "stop_reason": reply.stop_reason,
            "token_ids": [number for token in tokens for number in token_ids(token)] if ask.token_ids else None,
            "prompt_logprobs": None,
            "prompt_token_ids": tokens_in(ask.prompt) if ask.token_ids else None,
            "routed_experts": None,
        }

    def _logprobs(self, tokens: Sequence[str], first: int, offset: int = 0) -> dict[str, Any]:
        """The sampled token is listed among the top ones, so that there may be one more than asked for."""
        offsets, values, tops = [], [], []
        for place, token in enumerate(tokens, first):
            offsets.append(offset)
            offset += len(token)
            values.append(probability(token, place))
            asked = 20 if self.ask.logprobs == -1 else self.ask.logprobs or 0
            tops.append(dict(alternatives(token, place, asked + 1)))
        return {"text_offset": offsets, "token_logprobs": values, "tokens": list(tokens), "top_logprobs": tops}

    def _tail(self, tokens: Sequence[str], at: int, finish: str | None, stop_reason: str | None) -> bytes:
        ask = self.ask
        token = tokens[at] if 0 <= at < len(tokens) else None
        logprobs, ids, prompt_ids = b"null", b"null", b"null"
        if token is not None and ask.logprobs is not None:
            logprobs = compact(self._logprobs([token], at, sum(map(len, tokens[:at]))))
        if token is not None and ask.token_ids:
            ids = compact(token_ids(token))
        if at == 0 and (ask.token_ids or ask.echo):
            prompt_ids = compact(tokens_in(ask.prompt))
        running = b',"usage":' + compact(bare(usage(ask, at + 1))) if ask.continuous else b""
        ended = b'"finish_reason":%b,"stop_reason":%b' % (encode(finish), encode(stop_reason))
        return b',"logprobs":%b,%b,"prompt_token_ids":%b,"token_ids":%b}]%b' % (logprobs, ended, prompt_ids, ids, running)
