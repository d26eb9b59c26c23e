"""What the tests of the provider backend share: a library of their own making, and requests as the gateway sends them."""

import asyncio
import json

from backends.client import Deadlines
from backends.litellm.client import Deployment, LiteLLMClient
from backends.litellm.library import Library, Loaded

SECRET = "sk-provider-0123456789abcdef"
MESSAGES = [{"role": "user", "content": "hello"}]


def client_of(complete, **more):
    """A client whose library is the given callable."""
    deployment = Deployment("openai/gpt-x", 3.0, 290.0, api_key=SECRET, params=more.pop("params", {}))
    return LiteLLMClient(deployment, Library(lambda: Loaded(complete, **more)))


def deadlines(first_token=None, between_tokens=None, total=30.0):
    return Deadlines(3.0, first_token, between_tokens, asyncio.get_running_loop().time() + total)


def request(client, body=None, *, path="/chat/completions", within=None, method="POST"):
    head = f"{method} {path} HTTP/1.1\r\nhost: \r\nx-request-id: 1\r\n\r\n".encode()
    fields = {"messages": MESSAGES} if body is None else body
    return client.request(head, json.dumps(fields).encode(), within or deadlines())


def streamed(**fields):
    return {"messages": MESSAGES, "stream": True, **fields}


def delta(text=None, finish=None, **more):
    """A chunk as the library gives it: what is null is left out."""
    choice = {"index": 0, "delta": {"content": text} if text else {}} | ({"finish_reason": finish} if finish else {})
    return {"id": "1", "object": "chat.completion.chunk", "choices": [choice], **more}


class Stream:
    """A stream of chunks, exceptions and waits, which knows whether it was closed and how much was taken."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.taken = 0
        self.closed = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.taken == len(self.steps):
            raise StopAsyncIteration
        step = self.steps[self.taken]
        self.taken += 1
        if isinstance(step, asyncio.Event):
            await step.wait()
            return await self.__anext__()
        if isinstance(step, Exception):
            raise step
        return step

    async def aclose(self):
        self.closed = True


def answering(result):
    """A library that always gives that, or raises it."""

    async def complete(operation, arguments):
        if isinstance(result, Exception):
            raise result
        return result

    return complete
