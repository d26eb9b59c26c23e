"""`/v1/audio/transcriptions` and `/translations`: a form whose `prompt` says what is heard, as a chat's would.

The form is read with the standard library's mail parser: a reader of its own, so that what a gateway in front made of a
form is judged by other code than its own. A second of sound is 32,000 bytes of the file.
"""

from __future__ import annotations

import email
import email.policy
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gateway.lab.fake import checks
from gateway.lab.fake.chat import identity, limit, refuse_overflow
from gateway.lab.fake.errors import invalid
from gateway.lab.fake.exchange import Exchange
from gateway.lab.fake.generate import ChunkEnds, answer, job
from gateway.lab.fake.reply import Reply, Wish
from gateway.lab.fake.style import Ask, compact
from gateway.lab.fake.text import count

if TYPE_CHECKING:
    from gateway.lab.fake.server import App

_SECOND = 32_000
_TRUE = frozenset({"true", "1", "t", "y", "yes", "on"})


async def transcriptions(app: App, x: Exchange, raw: bytes) -> None:
    await _speech(app, x, raw, counted=True)


async def translations(app: App, x: Exchange, raw: bytes) -> None:
    await _speech(app, x, raw, counted=False)


async def _speech(app: App, x: Exchange, raw: bytes, *, counted: bool) -> None:
    form = _form(x, raw)
    sound = form.get("file")
    if not isinstance(sound, bytes):
        raise invalid([{"type": "missing", "loc": "body.file", "msg": "Field required", "input": None}])
    model, adapter = app.model(form.get("model"))
    refuse_overflow(app, 1)
    text = str(form.get("prompt", ""))
    prompt = text.encode() + sound[:1024]
    stream = str(form.get("stream", "")).lower() in _TRUE
    include = str(form.get("stream_include_usage", "")).lower() in _TRUE
    ask = Ask(identity(app, x, {}, "trsc-"), model, int(time.time()), stream, include_usage=include, prompt=prompt,
              prompt_tokens=count(prompt))  # fmt: skip
    most = checks.room(ask.prompt_tokens, None, "max_tokens", app.options.max_model_len)
    replies = app.author.replies(Wish(text, prompt, {"temperature": 0}, most, chat=False), 1)
    limit(replies, {}, most)
    seconds = -(-len(sound) // _SECOND)
    shape = AudioFormat(ask, seconds, verbose=form.get("response_format") == "verbose_json", counted=counted)
    await answer(x, app.engine, shape, replies, job(ask, {}, replies, x, adapter))


def _form(x: Exchange, raw: bytes) -> dict[str, str | bytes]:
    """Fields by name: text, or the bytes of a file."""
    kind = x.header(b"content-type") or b""
    message = email.message_from_bytes(b"content-type: " + kind + b"\r\n\r\n" + raw, policy=email.policy.HTTP)
    if not message.is_multipart():
        raise invalid([{"type": "missing", "loc": "body.file", "msg": "Field required", "input": None}])
    found: dict[str, str | bytes] = {}
    for part in message.iter_parts():
        data = part.get_payload(decode=True)
        name = part.get_param("name", header="content-disposition")
        value = data if isinstance(data, bytes) else b""
        found[str(name)] = value if part.get_filename() is not None else value.decode("utf-8", "replace")
    return found


class AudioFormat(ChunkEnds):
    """One answer's form."""

    def __init__(self, ask: Ask, seconds: int, *, verbose: bool, counted: bool) -> None:
        self.ask = ask
        self._seconds = seconds
        self._verbose = verbose
        self._counted = counted

    def opening(self, index: int) -> bytes:  # noqa: ARG002 - there is one choice
        return b""

    def events(self, reply: Reply, index: int) -> list[bytes]:  # noqa: ARG002
        texts = [*reply.content, ""] if reply.eos else reply.content
        last = len(texts) - 1
        return [self._chunk([_choice(text, reply.finish if at == last else None)]) for at, text in enumerate(texts)]

    def aborted(self, index: int) -> bytes:  # noqa: ARG002
        return self._chunk([_choice("", "abort")])

    def usage_event(self, total: int, cached: int, reasoning: int) -> bytes:  # noqa: ARG002
        prompt = self.ask.prompt_tokens
        return self._chunk([], {"prompt_tokens": prompt, "total_tokens": prompt + total, "completion_tokens": total})

    def whole(self, replies: Sequence[Reply], total: int, cached: int) -> dict[str, Any]:  # noqa: ARG002
        text = "".join(replies[0].content)
        usage = {"type": "duration", "seconds": self._seconds}
        if self._verbose:
            return {"duration": float(self._seconds), "language": "en", "text": text, "segments": [], "words": None}
        return {"text": text, "usage": usage} if self._counted else {"text": text}

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
        ask = self.ask
        chunk = {"id": ask.id, "object": "transcription.chunk", "created": ask.created, "model": ask.model, "choices": choices}
        return b"data: %b\n\n" % compact(chunk if usage is None else {**chunk, "usage": usage})


def _choice(text: str, finish: str | None) -> dict[str, Any]:
    return {"delta": {"content": text}, "finish_reason": finish, "stop_reason": None}
