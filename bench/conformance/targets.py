"""What the suites are run against: the look-alike of vLLM by itself, tiergate before two of them, and its peers before the same.

The engines want an API key, as an operator's would: each gateway holds it, and has a key for its own clients.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench import environments
from bench.load import Target as Address
from bench.peers import PEERS, Place
from bench.processes import Running, free_port

MODEL = "conform-model"
LARGE = "conform-large"
# the names that suites have fixed, each another name of the one model
NAMES = ("gpt-6-astra", "gpt-3.5-turbo-instruct", "text-embedding-3-small")
KEY = "sk-conformance"
NARROW_KEY = "tg-conformance-narrow"
ADMIN_KEY = "tg-conformance-admin"
ENDPOINTS = "chat, completions, embeddings, responses, messages, rerank, score, tokenize, audio"
SCRIPT = Path(__file__).with_name("script.yaml")
DIRECT, OURS, WORKERS = "fake-vllm", "tiergate", "tiergate-workers"


@dataclass(frozen=True, slots=True)
class Target:
    """A target that runs: `narrow_key` may call MODEL alone, where the target has such keys."""

    name: str
    root: str
    backends: tuple[str, ...]
    narrow_key: str = ""

    def environment(self) -> dict[str, str]:
        return {
            "CONFORMANCE_URL": f"{self.root}/v1",
            "CONFORMANCE_KEY": KEY,
            "CONFORMANCE_MODEL": MODEL,
            "CONFORMANCE_NARROW_KEY": self.narrow_key,
            "CONFORMANCE_ADMIN_KEY": ADMIN_KEY,
            "CONFORMANCE_BACKENDS": " ".join(self.backends),
        }


@dataclass(frozen=True, slots=True)
class Gateway:
    """How one is started before the engines; `peer` names its entry in bench/peers.py, which tells how it is installed."""

    command: Callable[[Place], list[str]]
    peer: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    narrow_key: str = ""

    @property
    def version(self) -> str:
        return next(iter(PEERS[self.peer].packages.values())) if self.peer else ""


def config(place: Place) -> str:
    """tiergate with two tiers of the same engines, the fixed names as aliases, and a second tenant with fewer rights."""
    models = "".join(
        f"  - {{name: {name}, tier: {tier}, served_name: {MODEL}, endpoints: [{ENDPOINTS}], replicas: ["
        + ", ".join(f'{{name: {tier}{at}, url: "{url}", api_key: {KEY}}}' for at, url in enumerate(place.urls("/v1"), 1))
        + "]}\n"
        for name, tier in ((MODEL, "small"), (LARGE, "large"))
    )
    aliases = ", ".join(f"{name}: {MODEL}" for name in NAMES)
    tenants = "".join(
        f"  - {{name: {name}, plan: all, models: [{may}], keys: [{{id: k, sha256: {_digest(key)}}}]}}\n"
        for name, key, may in (("suites", KEY, '"*"'), ("narrow", NARROW_KEY, MODEL))
    )
    return (
        f"server: {{port: {place.port}}}\nadmin: {{key: {ADMIN_KEY}}}\nmodels:\n{models}"
        f"routing: {{auto: auto, aliases: {{{aliases}}}}}\n"
        f"plans: {{all: {{rpm: 100_000_000, tpm: 100_000_000_000, max_parallel: 1000}}}}\ntenants:\n{tenants}"
    )


def _digest(key: str) -> str:
    return '"' + hashlib.sha256(key.encode()).hexdigest() + '"'


def _tiergate(place: Place, *options: str) -> list[str]:
    file = place.folder / "tiergate.yaml"
    file.write_text(config(place), encoding="utf-8")
    return [sys.executable, "-m", "gateway.cli", "serve", "--config", str(file), *options]


def _litellm(place: Place) -> list[str]:
    models = [
        {"model_name": name, "litellm_params": {"model": f"hosted_vllm/{MODEL}", "api_base": url, "api_key": KEY}}
        for url in place.urls("/v1")
        for name in (MODEL, *NAMES)
    ]
    file = place.folder / "litellm.json"
    file.write_text(
        json.dumps(
            {
                "model_list": models,
                "general_settings": {"master_key": KEY},
                "router_settings": {"disable_cooldowns": True},  # one case's errors are not the next one's
            }
        ),
        encoding="utf-8",
    )
    return [
        str(place.environment / "bin/litellm"), "--config", str(file), "--host", "127.0.0.1", "--port", str(place.port),
        "--num_workers", "1", "--telemetry", "False",
    ]  # fmt: skip


def _routed(place: Place, *command: str) -> list[str]:
    """Replicas by turns: the other policies need a tokenizer, or ask the engines for one, which no suite is about."""
    binary, *rest = command
    return [
        str(place.environment / "bin" / binary), *rest, "--host", "127.0.0.1", "--port", str(place.port),
        "--worker-urls", *place.urls(), "--policy", "round_robin", "--api-key", KEY,
        "--prometheus-port", str(free_port()), "--prometheus-host", "127.0.0.1",
    ]  # fmt: skip


def _smg(place: Place) -> list[str]:
    aliases = [word for name in NAMES for word in ("--model-alias", f"{name}={MODEL}")]
    return [*_routed(place, "smg", "launch"), "--backend", "vllm", *aliases]


GATEWAYS: dict[str, Gateway | None] = {
    DIRECT: None,
    OURS: Gateway(_tiergate, narrow_key=NARROW_KEY),
    WORKERS: Gateway(lambda place: _tiergate(place, "--workers", "2"), narrow_key=NARROW_KEY),
    "litellm": Gateway(_litellm, "litellm", PEERS["litellm"].env),
    "smg": Gateway(_smg, "smg"),
    "vllm-router": Gateway(lambda place: _routed(place, "vllm-router"), "vllm-router"),
}


@contextlib.contextmanager
def started(name: str, root: Path) -> Iterator[Target]:
    """Engines and gateway up, and gone at the end. Raises NotInstalledError, NotReadyError."""
    gateway = GATEWAYS[name]
    place_of = environments.ready(gateway.peer, PEERS[gateway.peer], root) if gateway and gateway.peer else root
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tiergate-conformance-")))
        ports = [_engine(number, folder, root, stack) for number in (1, 2)]
        backends = tuple(f"http://127.0.0.1:{port}" for port in ports)
        if gateway is None:
            yield Target(name, backends[0], backends[:1])
            return
        place = Place(place_of, folder, free_port(), ports)
        env = gateway.env if gateway.peer else _ours(root)
        _start(gateway.command(place), place.port, folder / "gateway.log", env, stack)
        yield Target(name, f"http://127.0.0.1:{place.port}", backends, gateway.narrow_key)


def _engine(number: int, folder: Path, root: Path, stack: contextlib.ExitStack) -> int:
    port = free_port()
    names = [word for name in (MODEL, *NAMES) for word in ("--model", name)]
    command = [
        sys.executable, "-m", "gateway.cli", "fake-vllm", "--port", str(port), "--api-key", KEY, "--script", str(SCRIPT),
        "--enable-prompt-tokens-details", *names,
    ]  # fmt: skip
    _start(command, port, folder / f"engine{number}.log", _ours(root), stack)
    return port


def _ours(root: Path) -> dict[str, str]:
    """This checkout, wherever the interpreter has its packages."""
    return {"PYTHONPATH": str(root)}


def _start(command: list[str], port: int, log: Path, env: Mapping[str, str], stack: contextlib.ExitStack) -> None:
    address = Address(port, MODEL, {"authorization": f"Bearer {KEY}"})
    running = Running(command, address, log, {**os.environ, **env})
    stack.callback(running.stop)
    running.wait()
