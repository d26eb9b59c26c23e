"""Walks a conversation backwards, from the newest thing that a person asked for, in any of the request shapes.

Rules
- Only user messages are asks. System and developer prompts, tool schemas, tool results and the model's own words are not; blocks
  that a program put into a user message are taken out (`harness`). A turn of a tool loop serves the ask before it.
- User messages with nothing of the model's between them are one ask.
- Bounded: MAX_MESSAGES messages and MAX_ALL_PARTS parts over all steps, MAX_PARTS parts of a message, MAX_PIECES messages to an
  ask or a reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from routing.harness import READ, joined, spoken

MAX_MESSAGES = 400
MAX_PARTS = 64
MAX_ALL_PARTS = 1024
MAX_PIECES = 8
REPLY = 4000

_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_PROMPTS = ("system", "developer")
# A raw prompt may be a whole conversation written out: what follows the last of these is the ask.
_TURNS = (
    ("<|im_start|>user", "<|im_end|>"),
    ("<|start_header_id|>user<|end_header_id|>", "<|eot_id|>"),
    ("<start_of_turn>user", "<end_of_turn>"),
    ("[INST]", "[/INST]"),
    ("\n\nHuman:", "\n\nAssistant:"),
)


class Thread:
    """A place in a conversation that moves towards its beginning. `end` is behind the ask that was read last."""

    __slots__ = ("_last", "_messages", "_parts", "_place", "end")

    def __init__(self, messages: list[Any], most: int = MAX_MESSAGES) -> None:
        self._messages = messages
        self._place = self.end = len(messages)
        self._last = len(messages) - most if len(messages) > most else 0
        self._parts = MAX_ALL_PARTS

    def ask(self) -> str:
        """The newest words of a person's before this place, which moves before them; empty when there are none."""
        messages, place = self._messages, self._place
        pieces: list[str] = []
        while place > self._last:
            message = messages[place - 1]
            role = message.get("role") if isinstance(message, dict) else None
            if pieces and (len(pieces) == MAX_PIECES or (role != "user" and role not in _PROMPTS)):
                break
            place -= 1
            if role == "user":
                content = message.get("content")
                text = spoken(content) if isinstance(content, str) else self._human_text(content)
                if text:
                    if not pieces:
                        self.end = place + 1
                    pieces.append(text)
        self._place = place
        if len(pieces) > 1:
            return joined(pieces[::-1])
        return pieces[0] if pieces else ""

    def words_alone(self) -> bool:
        """Whether the ask that was read last is text, and has nothing beside it."""
        return all(
            _only_text(message.get("content")) for message in self._messages[self._place : self.end] if _role(message) == "user"
        )

    def reply(self) -> str | None:
        """What the model said just before this place, its beginning and its end; None when it said nothing there."""
        said: list[str] = []
        found = False
        for place in range(self._place - 1, self._last - 1, -1):
            message = self._messages[place]
            role = _role(message)
            if role == "assistant":
                found = True
                said.append(_model_text(message.get("content")))
            elif role == "user" and self._human_text(message.get("content")):
                break
            if len(said) == MAX_PIECES:
                break
        return _ends("\n".join(text for text in said[::-1] if text)) if found else None

    def _human_text(self, content: object) -> str:
        if isinstance(content, list):
            content = content[-self._parts :] if self._parts > 0 else []
            self._parts -= min(len(content), MAX_PARTS)
        return human_text(content)


def thread_of(body: Mapping[str, Any], endpoint: str) -> Thread:
    """The conversation that a request body holds."""
    return Thread(messages_of(body, endpoint))


def messages_of(body: Mapping[str, Any], endpoint: str) -> list[Any]:
    """The messages of a request body. A raw prompt is a single one; token ids are none."""
    if endpoint == "completions":
        text = _prompt(body.get("prompt"))
        return [{"role": "user", "content": text}] if text else []
    messages = body.get(field_of(endpoint))
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return messages if isinstance(messages, list) else []


def field_of(endpoint: str) -> str:
    """Where in a body its messages are."""
    return "input" if endpoint == "responses" else "messages"


def human_text(content: object) -> str:
    """The person's words in a message's content, a string or a list of parts."""
    if isinstance(content, str):
        return spoken(content)
    if not isinstance(content, list):
        return ""
    if len(content) == 1:
        return spoken(_part_text(content[0]))
    pieces: list[str] = []
    size = 0
    for part in content[: -MAX_PARTS - 1 : -1]:
        pieces.append(spoken(_part_text(part)))
        size += len(pieces[-1])
        if size >= READ:
            break
    return joined(pieces[::-1])


def _role(message: object) -> str | None:
    if not isinstance(message, dict):
        return None
    role = message.get("role")
    return role if isinstance(role, str) else None


def _only_text(content: object) -> bool:
    if not isinstance(content, list):
        return True
    return len(content) <= MAX_PARTS and all(map(_is_text, content))


def _is_text(part: object) -> bool:
    if not isinstance(part, dict):
        return isinstance(part, str)
    kind = part.get("type", "text")
    return isinstance(kind, str) and kind in _TEXT_PARTS


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(kind := part.get("type", "text"), str) and kind in _TEXT_PARTS:
        text = part.get("text")
        return text if isinstance(text, str) else ""
    return ""


def _model_text(content: object) -> str:
    if isinstance(content, list):
        return _ends("\n".join(_ends(_part_text(part)) for part in content[:MAX_PARTS]))
    return _ends(content) if isinstance(content, str) else ""


def _ends(text: str) -> str:
    return text if len(text) <= REPLY else text[: REPLY // 2] + "\n" + text[-REPLY // 2 :]


def _prompt(prompt: object) -> str:
    """A raw prompt; several prompts are read together."""
    if isinstance(prompt, list):
        return joined([_last_turn(item) for item in prompt[:MAX_PIECES] if isinstance(item, str)])
    return _last_turn(prompt) if isinstance(prompt, str) else ""


def _last_turn(prompt: str) -> str:
    for start, end in _TURNS:
        place = prompt.rfind(start)
        if place >= 0:
            return prompt[place + len(start) :].partition(end)[0]
    return prompt
