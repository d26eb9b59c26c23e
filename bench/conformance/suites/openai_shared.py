"""What the cases of OpenAI's SDK share: a client, prompts that nobody sent before, what they ask for and how they are refused."""

from __future__ import annotations

import importlib.util
import uuid

import openai
from record import KEY, MODEL, URL

# what the SDK lets through of its HTTP library, of which its third major has another one
_LIBRARIES = [name for name in ("httpx", "httpx2") if importlib.util.find_spec(name)]
CONNECTION_ERRORS = [importlib.import_module(name).HTTPError for name in _LIBRARIES]
SYNC = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=20)


def tool(name, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


CITY = {"type": "string"}
TOOLS = [tool("get_weather", city=CITY), tool("get_time", city=CITY)]
NAMED = {"type": "function", "function": {"name": "get_time"}}
BUSY = {"status": 429, "headers": {"retry-after-ms": "1"}, "body": {"error": {"message": "busy", "code": 429}}}


def said(text):
    """A prompt that nobody sent before, so that no cache has its answer."""
    return [{"role": "system", "content": uuid.uuid4().hex}, {"role": "user", "content": text}]


def ask(text, sdk=SYNC, **fields):
    return sdk.chat.completions.create(model=MODEL, messages=said(text), **fields)


def asynchronous():
    return openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=20)


def text_of(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def refused(kind, call):
    found = None
    try:
        call()
    except openai.APIError as error:
        found = error
    assert type(found) is kind, f"{type(found).__name__} {found}"
    return found
