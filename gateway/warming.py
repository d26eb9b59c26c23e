"""What replicas are to read ahead: the prompts that the config lists, and those that requests begin with most.

This is the owner's side. Workers count what they see (`gateway.recurring`), and tell it now and then.

Rules of this file
1. A prompt goes to a replica as a client would send it: a chat request with the front, a word of a user and `max_tokens: 1`,
   under the served name of its model or adapter, and with the salt of the tenant whose it is.
2. The listed ones come first, in their order, then the learned ones, the hottest first.
3. What a worker says is checked: the model's own names and the config's tenants, sizes, counts.
4. Prompts are in memory alone, and never in a log, a metric or an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from backends.prewarm import Prompt
from caches.chain import Chain, chain, chain_key
from caches.fronts import MOST_BYTES, Hottest, read_front
from caches.prompts import prompt_parts
from gateway.config.prompt_files import read_text, read_tools
from gateway.config.schema import Model as ModelConfig
from gateway.config.schema import WarmPrompt

_log = logging.getLogger("tiergate.prewarm")
_MARK_BYTES = 16
_MOST_COUNT = 1_000_000

Salt = Callable[[str], str | None]


class Seen(msgspec.Struct, array_like=True):
    """A front of one model, by its mark, and how often it was seen."""

    model: str
    mark: bytes
    times: int


class Told(msgspec.Struct, array_like=True):
    """A front itself. `tenant`: whose, where tenants share nothing."""

    model: str
    mark: bytes
    served: str
    tenant: str
    front: bytes


class Report(msgspec.Struct, array_like=True):
    """What a worker tells; the answer is the marks of fronts that it should tell."""

    seen: list[Seen]
    told: list[Told]


@dataclass(frozen=True, slots=True)
class Wording:
    """How the requests of one model are written."""

    model: str
    secret: bytes
    salt: Salt

    def prompt(self, served: str, tenant: str, front: Mapping[str, Any], name: str) -> Prompt:
        fields = {"model": served, **front, "max_tokens": 1}
        fields["messages"] = [*front.get("messages", ()), {"role": "user", "content": "Hi"}]
        salt = self.salt(tenant) if tenant else None
        if salt is not None:
            fields["cache_salt"] = salt
        parts, _ = prompt_parts(fields, "chat")
        packed = chain(chain_key(self.secret, self.model, served, salt), parts)
        return Prompt("/chat/completions", msgspec.json.encode(fields), Chain.unpack(packed), name=name)


class Warming:
    """One model's."""

    def __init__(
        self, listed: list[Prompt], wording: Wording, learn: int, served: Collection[str], tenants: Collection[str],
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._listed = listed
        self._wording = wording
        self._hottest: Hottest[Prompt] = Hottest(learn)
        self._served = served
        self._tenants = tenants
        self._clock = clock

    @property
    def learned(self) -> int:
        return len(self._hottest)

    @property
    def listed(self) -> int:
        return len(self._listed)

    def prompts(self) -> list[Prompt]:
        """Rule 2."""
        known = {prompt.body for prompt in self._listed}
        learned = [prompt for _, prompt in self._hottest.kept(self._clock()) if prompt.body not in known]
        return [*self._listed, *learned]

    def seen(self, counts: list[tuple[bytes, int]]) -> list[bytes]:
        """What of it should be told."""
        sound = [(mark, min(times, _MOST_COUNT)) for mark, times in counts if len(mark) == _MARK_BYTES]
        return self._hottest.count(sound, self._clock())

    def told(self, told: Told) -> None:
        if told.served not in self._served or len(told.front) > MOST_BYTES or len(told.mark) != _MARK_BYTES:
            return
        if told.tenant and told.tenant not in self._tenants:
            return
        try:
            prompt = self._wording.prompt(told.served, told.tenant, read_front(told.front), f"a learned one for {told.served}")
        except ValueError:
            return
        self._hottest.keep(told.mark, prompt, self._clock())


class Warmings:
    """Of all models that learn."""

    def __init__(self, learning: Mapping[str, Warming]) -> None:
        self._learning = learning

    async def hear(self, report: Report) -> list[bytes]:
        """What a worker tells."""
        for told in report.told:
            if told.model in self._learning:
                self._learning[told.model].told(told)
        counts: dict[str, list[tuple[bytes, int]]] = {}
        for seen in report.seen:
            counts.setdefault(seen.model, []).append((seen.mark, seen.times))
        wanted: list[bytes] = []
        for model, seen_there in counts.items():
            if model in self._learning:
                wanted += self._learning[model].seen(seen_there)
        return wanted


def warming_of(
    model: ModelConfig, secret: bytes, salt: Salt, tenants: Collection[str], clock: Callable[[], float]
) -> Warming | None:
    """None where there is nothing to read. A file that cannot be read any more is left out, with a line in the log."""
    own = model.warm
    if not own.prompts and not own.learn:
        return None
    adapters = {adapter.name: adapter.served_name for adapter in model.adapters}
    wording = Wording(model.name, secret, salt)
    listed = []
    for number, prompt in enumerate(own.prompts):
        try:
            front = _front_of(prompt)
        except ValueError as error:
            _log.warning("%s: its prompt %d %s, it is left out", model.name, number + 1, error)
            continue
        served = model.served_name if prompt.adapter is None else adapters[prompt.adapter]
        salts = {salt(tenant): tenant for tenant in prompt.tenants}
        name = f"warm.prompts[{number}] for {served}"
        listed += [wording.prompt(served, tenant, front, name) for tenant in salts.values() or ("",)]
    return Warming(listed, wording, own.learn, {model.served_name, *adapters.values()}, tenants, clock)


def _front_of(prompt: WarmPrompt) -> dict[str, Any]:
    front: dict[str, Any] = {}
    system = prompt.system if prompt.file is None else read_text(prompt.file)
    if system:
        front["messages"] = [{"role": "system", "content": system}]
    if prompt.tools is not None:
        front["tools"] = read_tools(prompt.tools)
    return front
