"""Who is compared: how each is installed, started and asked, and what it does with a request in that setup.

Versions are pinned, and each gateway stands before the same two replicas, in one process. Where a gateway has a setting for what
tiergate is for (prefix-aware balance), it is on; what it cannot do, or does only with a service or a licence that is not here, is
told in `Does` and in its note. A new peer is one more entry of `PEERS`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import nginx
from bench.load import KEY
from bench.processes import free_port
from bench.records import OURS, Does
from bench.upstream import MODEL


@dataclass(frozen=True, slots=True)
class Place:
    """What a gateway is started with."""

    environment: Path  # what its installer has filled
    folder: Path  # for its files
    port: int
    upstreams: Sequence[int]
    tenants: int = 1
    classifier: str = "learned"  # of tiergate alone

    def keys(self) -> list[str]:
        """One for each tenant; the first is the usual one."""
        return [KEY, *(f"{KEY}-{number}" for number in range(2, self.tenants + 1))]

    def urls(self, path: str = "") -> list[str]:
        return [f"http://127.0.0.1:{port}{path}" for port in self.upstreams]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    installer: str  # "pip", "npm", "apt" or "checkout"
    packages: Mapping[str, str]  # name: version, the first one is the gateway
    command: Callable[[Place], list[str]]
    does: Does
    model: str = MODEL
    also: tuple[str, ...] = ()  # models that are asked for in turn with it
    tenants: bool = False  # it can know many keys without a database
    replicas: bool = False  # it is asked to stand before many
    headers: Callable[[Place], Mapping[str, str]] = lambda _: {}
    env: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def tiergate_config(place: Place) -> str:
    """Everything on: two tiers to choose from by the classifier, tenants with keys and limits; the rest is on anyway."""
    models = "".join(
        f"  - {{name: {MODEL}-{tier}, tier: {tier}, served_name: {MODEL}, context: 1000000, replicas: ["
        + ", ".join(f'{{name: {tier}{number}, url: "{url}"}}' for number, url in enumerate(place.urls("/v1"), 1))
        + "]}\n"
        for tier in ("small", "large")
    )
    return (
        f"server: {{port: {place.port}}}\nmodels:\n{models}routing: {{classifier: {{kind: {place.classifier}}}}}\n"
        "plans: {bench: {rpm: 100_000_000, tpm: 100_000_000_000, priority: realtime, max_parallel: 100_000}}\n"
        "tenants:\n" + "".join(_tenant(number, key) for number, key in enumerate(place.keys(), 1))
    )


def _tenant(number: int, key: str) -> str:
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f'  - {{name: bench{number}, plan: bench, keys: [{{id: k1, sha256: "{digest}"}}]}}\n'


def serve_tiergate(python: str, place: Place) -> list[str]:
    config = place.folder / "tiergate.yaml"
    config.write_text(tiergate_config(place), encoding="utf-8")
    return [python, "-m", "gateway.cli", "serve", "--config", str(config)]


def _tiergate(place: Place) -> list[str]:
    return serve_tiergate(str(place.environment / "bin/python"), place)


def rust_router(command: Sequence[str], place: Place, warn: str = "warn") -> list[str]:
    """vllm-router and smg have both grown from sglang-router, and so have its flags."""
    return [
        *command, "--host", "127.0.0.1", "--port", str(place.port), "--worker-urls", *place.urls(),
        "--policy", "cache_aware", "--log-level", warn, "--prometheus-port", str(free_port()),
        "--prometheus-host", "127.0.0.1",
    ]  # fmt: skip


def _litellm(place: Place) -> list[str]:
    models = [
        {"model_name": MODEL, "litellm_params": {"model": f"hosted_vllm/{MODEL}", "api_base": url, "api_key": "none"}}
        for url in place.urls("/v1")
    ]
    config = place.folder / "litellm.json"  # its reader takes YAML, of which JSON is a part
    config.write_text(json.dumps({"model_list": models, "general_settings": {"master_key": KEY}}), encoding="utf-8")
    return [
        str(place.environment / "bin/litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(place.port),
        "--num_workers", "1", "--telemetry", "False",
    ]  # fmt: skip


def _portkey(place: Place) -> list[str]:
    script = place.environment / "node_modules/@portkey-ai/gateway/build/start-server.js"
    return ["node", str(script), f"--port={place.port}", "--headless"]


def _portkey_headers(place: Place) -> dict[str, str]:
    targets = [{"provider": "openai", "api_key": "none", "custom_host": url} for url in place.urls("/v1")]
    return {"x-portkey-config": json.dumps({"strategy": {"mode": "loadbalance"}, "targets": targets}, separators=(",", ":"))}


_ROUTER_NOTE = (
    "Routers for replicas of one model, with a thread for each core. `cache_aware` keeps a prefix tree of the prompts, as "
    "tiergate keeps an index of them. They can bound the requests at once, with a queue behind that: off, or far from reached."
)


def _tenant_keys(place: Place) -> list[str]:
    """Of smg, where there is more than one: with a single client it is started as its documentation does it."""
    pairs = enumerate(place.keys() if place.tenants > 1 else [], 1)
    return [word for number, key in pairs for word in ("--tenant-api-key", f"t{number}:{key}")]


PEERS: dict[str, Peer] = {
    OURS: Peer(
        installer="checkout",
        packages={OURS: "this checkout"},
        command=_tiergate,
        model="auto",
        also=(f"{MODEL}-small",),
        tenants=True,
        replicas=True,
        does=Does(
            auth=True, limits=True, cache=True, queue=True, classes=True, log=True, metrics=True, balance="work and prefix index"
        ),
        note="One process, one thread, everything on: a key, limits of requests, tokens and parallel requests, the look-up in "
        "the exact cache (each prompt is new: it misses, and the answer is stored), the queue, the index of prefixes, the log "
        "line, the metrics; and one request in two asks for `auto`, so that the learned classifier chooses its tier.",
    ),
    "nginx": Peer(
        installer="apt",
        packages={"nginx": "the system's"},
        command=nginx.command,
        tenants=True,
        replicas=True,
        does=Does(auth=True, log=True, balance="least requests"),
        note="The floor: a reverse proxy that passes bodies on unread, one worker process. Keys are a `map` in its "
        "configuration. Where it is not installed, Debian's package is unpacked and not installed; without one it is absent.",
    ),
    "vllm-router": Peer(
        installer="pip",
        packages={"vllm-router": "0.1.17"},
        command=lambda place: rust_router([str(place.environment / "bin/vllm-router")], place, "warning"),
        replicas=True,
        does=Does(metrics=True, balance="prefix tree"),
        note=f"{_ROUTER_NOTE} This one has each prompt turned into tokens by the engines first (`/v1/chat/completions/render`, "
        "once for each replica), and that is in its figures; the others compare the text.",
    ),
    "smg": Peer(
        installer="pip",
        packages={"smg": "1.13.0"},
        command=lambda place: rust_router([str(place.environment / "bin/smg"), "launch", *_tenant_keys(place)], place),
        tenants=True,
        replicas=True,
        does=Does(metrics=True, balance="prefix tree"),
        note=_ROUTER_NOTE,
    ),
    "sglang-router": Peer(
        installer="pip",
        packages={"sglang-router": "0.3.2"},
        command=lambda place: rust_router([str(place.environment / "bin/sglang-router"), "launch"], place),
        replicas=True,
        does=Does(metrics=True, balance="prefix tree"),
        note=_ROUTER_NOTE,
    ),
    "litellm": Peer(
        installer="pip",
        packages={"litellm[proxy]": "1.108.7"},
        command=_litellm,
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
        does=Does(auth=True, balance="random"),
        note="Its proxy, one worker, with a master key. Keys of tenants and their limits need its database; its cache, its "
        "Prometheus callback, limits of deployments and a line for each request are off, as they are unless configured.",
    ),
    "portkey": Peer(
        installer="npm",
        packages={"@portkey-ai/gateway": "1.15.2", "@hono/node-server": "1.13.8"},
        command=_portkey,
        headers=_portkey_headers,
        does=Does(balance="random"),
        note="The open gateway on Node, told its targets by a header of each request. With the server package that its own "
        "range picks, every stream ends with status 500 (its issue 1389; here also with @hono/node-server 1.14.2), so an older "
        "one is pinned. It waits 25 ms before the first event of a stream, by its own code.",
    ),
}
