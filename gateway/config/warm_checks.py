"""Cross-checks of what replicas read ahead: whose it is, and, when asked to, the files."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.checks import Report
from gateway.config.problems import Path
from gateway.config.prompt_files import read_text, read_tools
from gateway.config.schema import Config, WarmPrompt


def check_warm(config: Config, report: Report, *, files: bool) -> None:
    """`files`: also read them."""
    tenants = [tenant.name for tenant in config.tenants]
    for index, model in enumerate(config.models):
        here: Path = ("models", index, "warm")
        if (model.warm.prompts or model.warm.learn) and not report.told(here):
            if model.kind == "litellm":
                report(here, "has no meaning for kind litellm")
            elif "chat" not in model.endpoints:
                report(here, "needs the endpoint chat")
        adapters = [adapter.name for adapter in model.adapters]
        for number, prompt in enumerate(model.warm.prompts):
            place = (*here, "prompts", number)
            for at, tenant in enumerate(prompt.tenants):
                report.unknown((*place, "tenants", at), "tenant", tenant, tenants)
            if prompt.adapter is not None:
                report.unknown((*place, "adapter"), "adapter", prompt.adapter, adapters)
            if report.told(place):
                continue
            if config.cache.prefix.isolate == "tenant" and not prompt.tenants:
                report(place, 'missing key "tenants": with cache.prefix.isolate: tenant each tenant has a cache of its own')
            _content(place, prompt, report)
    if files:
        for path, complaint in unreadable(config):
            if not report.told(path):
                report(path, complaint)


def _content(place: Path, prompt: WarmPrompt, report: Report) -> None:
    if prompt.system and prompt.file is not None:
        report((*place, "file"), "a system prompt and a file of it: one of both")
    if prompt.system and not prompt.system.strip():
        report((*place, "system"), "nothing but blanks")
    if not prompt.system and prompt.file is None and prompt.tools is None:
        report(place, 'nothing to read: needs "system", "file" or "tools"')


def unreadable(config: Config) -> Iterator[tuple[Path, str]]:
    """Files that are not as they should be, each with a complaint."""
    for index, model in enumerate(config.models):
        for number, prompt in enumerate(model.warm.prompts):
            yield from _unreadable(("models", index, "warm", "prompts", number), prompt)


def _unreadable(place: Path, prompt: WarmPrompt) -> Iterator[tuple[Path, str]]:
    for name, path, read in (("file", prompt.file, read_text), ("tools", prompt.tools, read_tools)):
        if path is not None:
            try:
                read(path)
            except ValueError as error:
                yield (*place, name), str(error)
