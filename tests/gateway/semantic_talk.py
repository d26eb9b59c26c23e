"""What the tests of the semantic cache share: its config, questions that mean the same or seem to, how to ask and to wait."""

from pathlib import Path
from typing import Any

import yaml
from gateway_talk import GREEDY, Stack, posts

from gateway.lab.fake import Options

PASSWORD = ("How do I reset my password?", "How can I reset my password?", "What do I have to do to reset my password?")
EGG = ("How long should I boil an egg?", "How long should an egg be boiled?")
PLANTS = ("How do plants make food from sunlight?", "How do plants make their food from sunlight?")
TRAPS = {
    "number": ("Convert 5 miles to kilometers", "Convert 8 miles to kilometers"),
    "negation": ("Is it safe to eat raw eggs?", "Is it not safe to eat raw eggs?"),
    "entity": ("What is the capital of France?", "What is the capital of Germany?"),
    "direction": ("How do I convert pounds to kilograms?", "How do I convert kilograms to pounds?"),
    "unit": ("What is the boiling point of water in Celsius?", "What is the boiling point of water in Fahrenheit?"),
    "polarity": ("How do I turn on dark mode?", "How do I turn off dark mode?"),
    "dose": ("What happens if I take 200 mg of ibuprofen?", "What happens if I take 2000 mg of ibuprofen?"),
    "language": ("Translate good morning into French", "Translate good morning into Spanish"),
}
NEAR = ("What is the best way to clean a cast iron pan?", "What should be done to clean a skillet of cast iron?")
"""Alike, and no guard speaks against it, but not alike enough to be served."""

PATIENT = {"embedder": {"deadline": "10s"}, "qdrant": {"timeout": "10s"}}
"""No deadline that a busy machine could miss."""


def semantic(cache: dict[str, Any] | None = None, *, exact: dict[str, Any] | None = None, **own: Any) -> dict[str, Any]:
    """The harness's changes that turn the semantic cache on; keywords are keys of its section."""
    section = {"enabled": True, "shadow": {"share": 0}, **PATIENT}
    for name, value in own.items():
        section[name] = {**section[name], **value} if isinstance(section.get(name), dict) else value
    return {"cache": {"secret": "test-secret", "semantic": section, "exact": exact or {}, **(cache or {})}}


def scripted(folder: Path, replies: dict[str, str], **options: Any) -> Options:
    """A fake that says what is written here to whatever has the key in its last message."""
    path = folder / f"script-{len(list(folder.iterdir()))}.yaml"
    path.write_text(yaml.safe_dump([{"match": part, "content": said} for part, said in replies.items()]))
    return Options(script=str(path), **options)


async def opened(stack: Stack) -> Stack:
    """Once the store is there."""
    await stack.until(lambda: writer(stack).open)
    return stack


def writer(stack: Stack) -> Any:
    return stack.gateway.parts.semantic.writer


async def settled(stack: Stack) -> None:
    """Once everything that was answered is kept, and everything behind the requests is done."""
    await stack.until(lambda: not stack.gateway.parts.flights.tasks)
    await stack.gateway.parts.behind.settled()
    await stack.at_rest()
    await writer(stack).settled()


async def fill(stack: Stack, content: str, **how: Any) -> Any:
    """One answer of a model, kept."""
    answer = await ask(stack, content, **how)
    assert answer.status_code == 200, answer.text
    await settled(stack)
    return answer


async def ask(stack: Stack, content: str, **how: Any) -> Any:
    return await stack.chat(content, **{**GREEDY, **how})


def cache_of(answer: Any) -> str:
    """What the cache had to do with an answer, without a reason."""
    assert answer.status_code == 200, answer.text
    return str(answer.headers["x-tiergate-cache"].split(";")[0])


def asked(stack: Stack) -> int:
    """How often models were asked."""
    return sum(len(posts(fake)) for fake in stack.fakes.values())


class Forwards:
    """Counts what the embedder is asked."""

    def __init__(self, stack: Stack) -> None:
        self.texts: list[str] = []
        embedder = stack.gateway.parts.semantic.embedder
        inner = embedder.embed

        async def embed(text: str, **how: Any) -> Any:
            self.texts.append(text)
            return await inner(text, **how)

        embedder.embed = embed
