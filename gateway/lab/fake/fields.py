"""Types of request fields as vLLM's models declare them, with the leniency and the wording of their validator.

A number in a string is a number, 5.0 is the integer 5, null is nearly always allowed, and fields that nobody declared pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.lab.fake.coerce import ANY, BOOL, COERCE, DICT, EXACT, FLOAT, INT, LIST, STR, Wrong
from gateway.lab.fake.errors import bad, invalid
from gateway.lab.fake.refined import REFINED, error, literal, missing

_SAMPLING = {
    "model": STR, "user": STR, "frequency_penalty": FLOAT, "presence_penalty": FLOAT, "repetition_penalty": FLOAT,
    "temperature": FLOAT, "top_p": FLOAT, "min_p": FLOAT, "top_k": INT, "logit_bias": DICT, "seed": INT, "n": INT,
    "max_tokens": INT, "min_tokens": INT, "stream": BOOL, "stream_options": ANY, "ignore_eos": BOOL, "echo": BOOL,
    "include_stop_str_in_output": BOOL, "stop_token_ids": LIST, "stop": ANY, "skip_special_tokens": BOOL, "use_beam_search": BOOL,
    "response_format": ANY, "structured_outputs": DICT, "priority": INT, "request_id": STR, "cache_salt": STR,
    "return_token_ids": BOOL, "kv_transfer_params": DICT, "ec_transfer_params": DICT, "bad_words": LIST,
    "truncate_prompt_tokens": INT, "prompt_logprobs": INT, "allowed_token_ids": LIST, "session_id": STR,
}  # fmt: skip

CHAT = _SAMPLING | {
    "messages": LIST, "logprobs": BOOL, "top_logprobs": INT, "max_completion_tokens": INT, "tools": LIST,
    "parallel_tool_calls": BOOL, "include_reasoning": BOOL, "chat_template_kwargs": DICT, "documents": LIST,
    "add_generation_prompt": BOOL, "continue_final_message": BOOL, "chat_template": STR, "reasoning_effort": STR,
}  # fmt: skip
COMPLETIONS = _SAMPLING | {"logprobs": INT, "suffix": STR}
EMBEDDINGS = {
    "model": STR, "user": STR, "dimensions": INT, "encoding_format": STR, "priority": INT, "cache_salt": STR,
    "truncate_prompt_tokens": INT, "request_id": STR,
}  # fmt: skip
RESPONSES = {
    "model": STR, "instructions": STR, "max_output_tokens": INT, "stream": BOOL, "temperature": FLOAT, "top_p": FLOAT,
    "tools": LIST, "background": BOOL, "store": BOOL, "previous_response_id": STR, "metadata": DICT, "user": STR,
    "cache_salt": STR, "priority": INT, "request_id": STR, "kv_transfer_params": DICT, "ec_transfer_params": DICT,
}  # fmt: skip
MESSAGES = {
    "model": STR, "messages": LIST, "max_tokens": INT, "stream": BOOL, "temperature": FLOAT, "top_p": FLOAT,
    "top_k": INT, "stop_sequences": LIST, "tools": LIST, "tool_choice": DICT, "metadata": DICT, "cache_salt": STR,
    "kv_transfer_params": DICT, "ec_transfer_params": DICT,
}  # fmt: skip
SCORING = {
    "model": STR, "user": STR, "top_n": INT, "truncate_prompt_tokens": INT, "priority": INT, "request_id": STR,
    "cache_salt": STR, "max_tokens_per_query": INT, "max_tokens_per_doc": INT,
}  # fmt: skip
TOKENIZE = {"model": STR, "prompt": STR, "messages": LIST, "add_special_tokens": BOOL, "return_token_strs": BOOL}
DETOKENIZE = {"model": STR, "tokens": LIST}

_NOT_NULL = frozenset({"messages", "prompt", "tokens", "min_tokens", "ignore_eos", "priority", "request_id", "input"})
_PARTS = frozenset({
    "text", "image_url", "input_image", "input_audio", "audio_url", "video_url", "image_pil", "image_embeds", "file", "refusal",
    "input_text", "output_text", "thinking",
})  # fmt: skip
_FIRST = "ChatCompletionDeveloperMessageParam"  # vLLM complains in the name of each kind of message, the fake of the first


def check(body: dict[str, Any], kinds: Mapping[str, str], required: str | None = None) -> None:
    """Coerces in place; raises one error that lists every field that is wrong."""
    errors: list[dict[str, Any]] = []
    if required is not None and required not in body:
        errors.append(missing(required, dict(body)))
    for name, value in body.items():
        kind = kinds.get(name)
        if kind is None or (value is None and name not in _NOT_NULL):
            continue
        try:
            if type(value) is not EXACT[kind]:
                body[name] = COERCE[kind](value)
        except Wrong as wrong:
            errors.append(error(wrong.kind, name, wrong.message, value))
            continue
        refined = REFINED.get(name)
        if refined is not None:
            errors += refined(body[name])
    if errors:
        raise invalid(errors)


def parts(body: Mapping[str, Any]) -> None:
    """What a message is made of has to be of a kind that there is; vLLM finds out after the types, and in other words."""
    for message in body["messages"]:
        content = message.get("content")
        for at, part in enumerate(content if isinstance(content, list) else ()):
            kind = part.get("type", "text") if isinstance(part, dict) else "text"
            if kind not in _PARTS:
                place = f"{at}.ChatCompletionContentPartTextParam.type"
                raise bad(f"1 validation error for ValidatorIterator\n{place}\n  Input should be 'text', not {kind!r}")


def conversation(body: Mapping[str, Any]) -> None:
    """Messages need a role and, but for the assistant's, a content that is text or parts; tools a function with a name."""
    for at, message in enumerate(body["messages"]):
        place = f"messages.{at}.{_FIRST}"
        if not isinstance(message, dict):
            raise invalid([error("dict_type", place, "Input should be a valid dictionary", message)])
        role, content = message.get("role"), message.get("content", "")
        if not isinstance(role, str):
            raise invalid([missing(f"{place}.role", message)])
        if not isinstance(content, str | list) and not (content is None and role == "assistant"):
            raise invalid([error("string_type", f"{place}.content", "Input should be a valid string", content)])
    for at, tool in enumerate(body.get("tools") or ()):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            raise invalid([missing(f"tools.{at}.function", tool)])
        if tool.get("type", "function") != "function":
            raise invalid([literal(f"tools.{at}.type", ("function",), tool["type"])])
        if not isinstance(function.get("name"), str):
            raise invalid([missing(f"tools.{at}.function.name", function)])
