"""What vLLM refuses about a request that is well typed, in its words and in its order.

Three moments: the request's own rules (`chat`, `completions`), before the model is even looked up; the lengths
(`room`), once the prompt is known; and the sampling parameters (`sampling`), last.
"""

from __future__ import annotations

import math
from typing import Any

from gateway.lab.fake.errors import bad

_SALT_FORBIDDEN = frozenset("@/\\\0")
_SALT_LENGTH = 128
_MAX_N = 16384
_MAX_LOGPROBS = 20
_MAX_PROMPTS = 1024
_USAGE = 'Correct usage: `{"type": "function", "function": {"name": "my_function"}}`'


def common(body: dict[str, Any]) -> None:
    salt(body.get("cache_salt"))
    form = body.get("response_format")
    if isinstance(form, dict) and form.get("type") == "json_schema" and form.get("json_schema") is None:
        raise bad("When response_format type is 'json_schema', the 'json_schema' field must be provided.", "response_format")
    if body.get("stream_options") and not body.get("stream"):
        raise bad("Stream options can only be defined when `stream=True`.", "stream_options")
    for name in ("prompt_logprobs", "top_logprobs"):
        value = body.get(name)
        if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool)):
            raise bad(f"`{name}` must be an integer.", name, value)
        if value is not None and value < 0 and value != -1:
            raise bad(f"`{name}` must be a positive value or -1.", name, value)
    asked = body.get("prompt_logprobs")
    if asked is not None and body.get("stream") and (asked > 0 or asked == -1):
        raise bad("`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs")
    outputs = body.get("structured_outputs")
    if isinstance(outputs, dict) and sum(outputs.get(kind) is not None for kind in ("json", "regex", "choice")) > 1:
        raise bad("You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').")


def salt(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value:
        raise bad("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt")
    if len(value) > _SALT_LENGTH or any(char in _SALT_FORBIDDEN for char in value):
        message = "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL."
        raise bad(message, "cache_salt")


def chat(body: dict[str, Any]) -> None:
    if "messages" in body and body["messages"] is None:
        raise bad("'NoneType' object is not iterable")
    common(body)
    top = body.get("top_logprobs")
    if top is not None and (top == -1 or top > 0) and not body.get("logprobs"):
        raise bad("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")
    _tools(body)
    if body.get("continue_final_message") and body.get("add_generation_prompt"):
        raise bad("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")


def completions(body: dict[str, Any]) -> None:
    common(body)
    prompt, logprobs = body.get("prompt"), body.get("logprobs")
    if prompt in (None, ""):
        raise bad("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    if isinstance(logprobs, (int, float)) and logprobs < 0 and logprobs != -1:
        raise bad("`logprobs` must be a positive value or -1.", "logprobs", logprobs)
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) and len(prompt) > _MAX_PROMPTS:
        message = f"prompt list length {len(prompt)} exceeds the maximum allowed count of {_MAX_PROMPTS}. To increase this limit"
        raise bad(f"{message}, set the VLLM_MAX_COMPLETION_PROMPTS environment variable.", "prompt")


def _tools(body: dict[str, Any]) -> None:
    tools = body.get("tools")
    if tools == []:
        message = "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely."
        raise bad(message, "tools")
    if "tool_choice" not in body and tools:
        body["tool_choice"] = "auto"
    choice = body.get("tool_choice")
    if choice is None or choice == "none":
        return
    if tools is None:
        raise bad("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if isinstance(choice, dict):
        _named(choice, tools)
    elif choice not in ("auto", "required"):
        allowed = 'Only named tools, "none", "auto" or "required" are supported.'
        raise bad(f"Invalid value for `tool_choice`: {choice}! {allowed}", "tool_choice")


def _named(choice: dict[str, Any], tools: list[Any]) -> None:
    function = choice.get("function")
    if not isinstance(function, dict):
        raise bad(f"Invalid value for `function`: `{function}` in `tool_choice`! {_USAGE}", "tool_choice.function")
    if "name" not in function:
        raise bad(f"Expected field `name` in `function` in `tool_choice`! {_USAGE}", "tool_choice.function.name")
    name = function["name"]
    if not isinstance(name, str) or not name:
        raise bad(f"Invalid `name` in `function`: `{name}` in `tool_choice`! {_USAGE}", "tool_choice.function.name")
    names = [tool["function"].get("name") for tool in tools if isinstance(tool, dict) and isinstance(tool.get("function"), dict)]
    if name not in names:
        raise bad("The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice")


def room(prompt: int, wanted: int | None, name: str, limit: int) -> int:
    """How many tokens the reply may have; `wanted` is what the request asks for, under field `name`.

    More than fits behind the prompt is cut to what fits, as long as the prompt itself leaves room.
    """
    if wanted is not None and wanted > limit:
        message = f"{name}={wanted} cannot be greater than max_model_len={limit}. Please request fewer output tokens."
        raise bad(message, name, wanted)
    if prompt > limit:
        # vLLM stops counting one token past what fits, hence the "at least"
        length = f"This model's maximum context length is {limit} tokens."
        counted = f"However, your prompt contains at least {limit + 1} input tokens, which exceeds this limit"
        advice = "even without any output tokens. Please reduce the length of the input prompt."
        raise bad(f"{length} {counted} {advice}", "input_tokens", limit + 1)
    return limit - prompt if wanted is None else min(wanted, limit - prompt)


def conversation(body: dict[str, Any]) -> None:
    """What the chat template refuses."""
    if body.get("chat_template") is not None:
        refused = "Refused request with untrusted chat template."
        raise bad(f"Chat template is passed with request, but --trust-request-chat-template is not set. {refused}")
    if not body["messages"]:
        raise bad("Cannot apply chat template to an empty conversation. Provide at least one message.")


def truncation(body: dict[str, Any], limit: int) -> None:
    wanted = body.get("truncate_prompt_tokens")
    if wanted is not None and wanted > limit:
        message = f"truncate_prompt_tokens={wanted} cannot be greater than max_model_len = {limit}."
        raise bad(f"{message} Please request a smaller truncation size.", "truncate_prompt_tokens", wanted)


def sampling(body: dict[str, Any], max_tokens: int) -> None:
    _sequences(body.get("n"))
    for name in ("presence_penalty", "frequency_penalty"):
        value = body.get(name)
        if value is not None and not -2.0 <= value <= 2.0:
            raise bad(f"{name} must be in [-2, 2], got {value}.")
    repetition = body.get("repetition_penalty")
    if repetition is not None and repetition <= 0:
        raise bad(f"repetition_penalty must be greater than zero, got {repetition}.")
    _temperature(body.get("temperature"))
    top_p, top_k, min_p = body.get("top_p"), body.get("top_k"), body.get("min_p")
    if top_p is not None and not 0 < top_p <= 1:
        raise bad(f"top_p must be in (0, 1], got {top_p}.", "top_p", top_p)
    if top_k is not None and top_k < -1:
        raise bad(f"top_k must be 0 (disable), or at least 1, got {top_k}.")
    if min_p is not None and not 0 <= min_p <= 1:
        raise bad(f"min_p must be in [0, 1], got {min_p}.")
    if max_tokens < 1:
        raise bad(f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens", max_tokens)
    _least(body.get("min_tokens"), max_tokens)
    if "" in stops(body):
        raise bad("stop cannot contain an empty string.")
    _tokens(body)
    _probabilities(body)
    _structured(body.get("structured_outputs"))
    if (body.get("n") or 1) > 1 and body.get("temperature") is not None and body["temperature"] < 1e-5:
        raise bad(f"n must be 1 when using greedy sampling, got {body['n']}.")


def _sequences(n: int | None) -> None:
    if n is None:
        return
    if n < 1:
        raise bad(f"n must be at least 1, got {n}.")
    if n > _MAX_N:
        message = (
            f"n must be at most {_MAX_N}, got {n}. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment variable."
        )
        raise bad(message)


def _temperature(value: float | None) -> None:
    if value is None:
        return
    if not math.isfinite(value):
        raise bad(f"temperature must be a finite number, got {value}.", "temperature", value)
    if value < 0:
        raise bad(f"temperature must be non-negative, got {value}.", "temperature", value)
    if value > 2:
        raise bad(f"temperature must be in [0, 2], got {value}.", "temperature", value)


def _least(least: int | None, most: int) -> None:
    if least is None:
        return
    if least < 0:
        raise bad(f"min_tokens must be greater than or equal to 0, got {least}.")
    if least > most:
        raise bad(f"min_tokens must be less than or equal to max_tokens={most}, got {least}.")


def _tokens(body: dict[str, Any]) -> None:
    """What names single tokens. The fake has no vocabulary, so that no id is outside of it."""
    wrong = [name for name in body.get("logit_bias") or () if not name.lstrip("-").isdigit()]
    if wrong:
        raise bad(f"logit_bias contains key(s) that cannot be converted to integer token IDs: {wrong}", "logit_bias", wrong)
    if body.get("allowed_token_ids") == []:
        raise bad("allowed_token_ids is not None and empty!", "allowed_token_ids", [])
    if "" in (body.get("bad_words") or ()):
        raise bad(f"bad_words cannot contain an empty string. Got bad_words={body['bad_words']}")


def _probabilities(body: dict[str, Any]) -> None:
    sampled = body.get("top_logprobs") if isinstance(body.get("logprobs"), bool) else body.get("logprobs")
    for kind, name, value in (("sample", "logprobs", sampled), ("prompt", "prompt_logprobs", body.get("prompt_logprobs"))):
        if value is not None and value > _MAX_LOGPROBS:
            message = f"Requested {kind} logprobs of {value}, which is greater than max allowed: {_MAX_LOGPROBS}"
            raise bad(message, name, value)


def _structured(outputs: object) -> None:
    kinds = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
    if isinstance(outputs, dict) and not any(outputs.get(kind) is not None for kind in kinds):
        nothing = dict.fromkeys(kinds[:-1])
        switches = {"disable_any_whitespace": False, "disable_additional_properties": False, "whitespace_pattern": None}
        given = {**nothing, **switches, "structural_tag": None, "_backend": None, "_backend_was_auto": False}
        raise bad(f"You must use one kind of structured outputs constraint but none are specified: {given}")


def stops(body: dict[str, Any]) -> list[str]:
    """The stop strings. Chat and completions have had their types checked; of the other calls it is done here."""
    value = body.get("stop")
    found: list[Any] = list(value) if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(one, str) for one in found):
        raise bad("stop must be a string or a list of strings.", "stop")
    return found
