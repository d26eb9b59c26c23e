"""`/v1/responses`: the answer that a stream of named events ends with, and the events that lead to an answer.

The last event tells the whole answer, so nothing needs to be put together. The other way round, every item of the output
comes as OpenAI streams it: added empty, filled in pieces, done as it stands in the answer; before that `response.created` and
`response.in_progress` with the answer as it was then, and at the end the answer itself. There is no `[DONE]`.

    message             content_part.added, output_text.delta (with the logprobs of its tokens) or refusal.delta …, its .done,
                        annotations, content_part.done
    reasoning           the same with reasoning_summary_part and reasoning_summary_text, then content_part and reasoning_text
    function_call       function_call_arguments.delta …, .done
    custom_tool_call    custom_tool_call_input.delta …, .done
    any other           added and done, whole
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from caches.events import named
from caches.pieces import cut, cut_at, tokens_of

_ENDS = {"completed": "response.completed", "failed": "response.failed"}
_NOT_YET = ("usage", "error", "incomplete_details", "completed_at", "output_messages")  # null until the answer is there

_decode = msgspec.json.decode


class _Event(msgspec.Struct):
    type: Any = None
    error: Any = None
    response: msgspec.Raw = msgspec.Raw()


_event = msgspec.json.Decoder(_Event).decode


def response_of(payloads: Iterable[bytes]) -> bytes | None:
    """The answer, as the stream's last event tells it; None if the stream broke off or failed.

    One that was cut is an answer too: without streaming the client would have received it.
    """
    for payload in payloads:
        try:
            event = _event(payload)
            if event.error is not None or event.type in ("error", "response.failed"):
                return None
            if event.type in ("response.completed", "response.incomplete"):
                return bytes(event.response) if type(_decode(event.response)) is dict else None
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return None
    return None


def response_events(answer: Mapping[str, Any]) -> list[bytes]:
    """The whole stream, one event an element, each with its blank line."""
    replay = _Replay()
    then = {name: value for name, value in answer.items() if name != "metrics"}
    then.update((name, None) for name in _NOT_YET if name in answer)
    then.update(status="in_progress", output=[])
    replay.add("response.created", response=then)
    replay.add("response.in_progress", response=then)
    output = answer.get("output")
    for index, item in enumerate(output if type(output) is list else ()):
        if type(item) is dict:
            replay.item(index, item)
    status = answer.get("status")
    end = _ENDS.get(status, "response.incomplete") if type(status) is str else "response.completed"
    replay.add(end, response=answer)
    return replay.events


class _Replay:
    """Events, numbered as they are made."""

    __slots__ = ("events",)

    def __init__(self) -> None:
        self.events: list[bytes] = []

    def add(self, kind: str, **fields: Any) -> None:
        self.events.append(named({"type": kind, **fields, "sequence_number": len(self.events)}))

    def item(self, index: int, item: dict[str, Any]) -> None:
        where = {"item_id": item.get("id") or item.get("call_id") or "", "output_index": index}
        match item.get("type"):
            case "message":
                self._added(index, item, content=[])
                self._parts(where, item.get("content"))
            case "reasoning":
                self._added(index, item, summary=[], content=[] if item.get("content") else item.get("content"))
                self._summary(where, item.get("summary"))
                self._parts(where, item.get("content"))
            case "function_call":
                self._added(index, item, arguments="")
                self._written("response.function_call_arguments", where, "arguments", item, name=item.get("name"))
            case "custom_tool_call":
                self._added(index, item, input="")
                self._written("response.custom_tool_call_input", where, "input", item)
            case _:
                self.add("response.output_item.added", output_index=index, item=item)
        self.add("response.output_item.done", output_index=index, item=item)

    def _added(self, index: int, item: dict[str, Any], **empty: Any) -> None:
        begun = {**item, **empty, "status": "in_progress"}
        begun.pop("encrypted_content", None)
        self.add("response.output_item.added", output_index=index, item=begun)

    def _written(self, kind: str, where: dict[str, Any], what: str, holder: dict[str, Any], **more: Any) -> None:
        """A text in pieces, and whole. What is no text, as hostile backends have it, comes whole alone."""
        text = holder.get(what)
        for piece in cut(text) if type(text) is str else ():
            self.add(f"{kind}.delta", **where, delta=piece)
        self.add(f"{kind}.done", **where, **{what: text}, **more)

    def _summary(self, where: dict[str, Any], summary: Any) -> None:
        for number, part in enumerate(summary if type(summary) is list else ()):
            if type(part) is not dict:
                continue
            place = {**where, "summary_index": number}
            self.add("response.reasoning_summary_part.added", **place, part={**part, "text": ""})
            self._written("response.reasoning_summary_text", place, "text", part)
            self.add("response.reasoning_summary_part.done", **place, part=part)

    def _parts(self, where: dict[str, Any], parts: Any) -> None:
        for number, part in enumerate(parts if type(parts) is list else ()):
            if type(part) is not dict:
                continue
            place = {**where, "content_index": number}
            match part.get("type"):
                case "output_text":
                    self._text(place, part)
                case "reasoning_text":
                    self._begun(place, part, text="")
                    self._written("response.reasoning_text", place, "text", part)
                case "refusal":
                    self._begun(place, part, refusal="")
                    self._written("response.refusal", place, "refusal", part)
                case _:
                    self._begun(place, part)
            self.add("response.content_part.done", **place, part=part)

    def _begun(self, place: dict[str, Any], part: dict[str, Any], **empty: Any) -> None:
        self.add("response.content_part.added", **place, part={**part, **empty})

    def _text(self, place: dict[str, Any], part: dict[str, Any]) -> None:
        self._begun(place, part, text="", annotations=[], logprobs=[])
        text, logprobs, notes = part.get("text"), part.get("logprobs"), part.get("annotations")
        for piece, beside in _with_logprobs(text, logprobs) if type(text) is str else ():
            self.add("response.output_text.delta", **place, delta=piece, logprobs=beside)
        self.add("response.output_text.done", **place, text=text, logprobs=logprobs or [])
        for number, note in enumerate(notes if type(notes) is list else ()):
            self.add("response.output_text.annotation.added", **place, annotation_index=number, annotation=note)


def _with_logprobs(text: str, logprobs: Any) -> Iterator[tuple[str, list[Any]]]:
    """The pieces of a text with the logprobs of their tokens; without any if those do not make up the text."""
    tokens = tokens_of(text, logprobs)
    if tokens:
        yield from ((piece, logprobs[start:stop]) for piece, start, stop in cut_at(text, tokens))
    else:
        yield from ((piece, []) for piece in cut(text))
