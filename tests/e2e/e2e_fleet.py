"""The engines, the gateway's config over them, and how tests look at both."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import httpx
from e2e_programs import BACKEND_KEY, Engine, Program, until

KEYS = {"acme": "tg-e2e-acme", "globex": "tg-e2e-globex", "bulk": "tg-e2e-bulk"}


@dataclass
class Fleet:
    """Two engines, the gateway, and what to read of them."""

    small: Engine
    large: Engine
    gateway: Program
    client: httpx.Client

    @property
    def replicas(self) -> int:
        return sum(len(model["replicas"]) for model in config_of(self.small, self.large, 0)["models"])

    @property
    def engines(self) -> tuple[Engine, Engine]:
        return self.small, self.large

    def post(
        self, body: dict[str, Any], *, tenant: str = "acme", path: str = "/v1/chat/completions", **headers: str
    ) -> httpx.Response:
        return self.client.post(path, json=body, headers=headers_of(tenant, headers))

    def gauge(self, name: str, **labels: str) -> float:
        return self.gateway.sample(name, **labels)

    def line(self, request_id: str) -> dict[str, Any]:
        """The log line of a request, by the id that its answer carried."""
        found: list[dict[str, Any]] = []

        def written() -> bool:
            lines = (json.loads(line) for line in self.gateway.log.read_text().splitlines() if line.startswith('{"ts"'))
            found[:] = [line for line in lines if request_id in (line.get("request_id"), line.get("client_request_id"))]
            return bool(found)

        until(written, f"a log line for {request_id}", 30)
        return found[-1]

    def idle(self) -> bool:
        """Nothing runs or waits, in the engines nor in the gateway."""
        ours = ("tiergate_inflight_requests", "tiergate_queue_depth")
        theirs = (value for engine in self.engines if engine.answers() for value in (engine.running, engine.waiting))
        return not any(self.gauge(name) for name in ours) and not any(theirs)

    def settle(self) -> None:
        until(self.idle, "engines and gateway idle")


def headers_of(tenant: str, more: dict[str, str] | None = None) -> dict[str, str]:
    told = {name.replace("_", "-"): value for name, value in (more or {}).items()}
    return {"authorization": f"Bearer {KEYS[tenant]}", **told}


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def config_of(small: Engine, large: Engine, port: int) -> dict[str, Any]:
    """Pools over the two engines. `small` does not tell its context, so that only the engine knows when it overflows."""

    def replica(name: str, engine: Engine, key: str = BACKEND_KEY) -> dict[str, str]:
        return {"name": name, "url": engine.root + "/v1", "api_key": key}

    def pool(name: str, tier: str, replicas: list[dict[str, str]], **more: Any) -> dict[str, Any]:
        return {"name": name, "tier": tier, "replicas": replicas, "scheduling_policy": "priority", **more}

    wrong = replica("wrong", small, "another-key")
    return {
        "server": {"port": port, "drain_timeout": "5s"},
        "timeouts": {"connect": "10s", "first_token": "300s", "between_tokens": "120s", "total": "600s"},
        "models": [
            pool(
                "small", "small", [replica("s1", small)], served_name="e2e-small", capabilities=["tools", "json_schema"],
                endpoints=["chat", "completions", "responses", "messages"],
            ),
            pool("large", "large", [replica("l1", large)], served_name="e2e-large", context=2048, capabilities=["tools"]),
            pool("both", "other", [replica("b1", small), replica("b2", large)], served_name="e2e-both"),
            pool(
                "told", "other", [replica("t1", small) | small.kv, replica("t2", large) | large.kv], served_name="e2e-both",
                balance={"precise": {"timeout": "5s"}},
            ),
            pool("narrow", "other", [replica("n1", small)], served_name="e2e-small", concurrency={"max": 1}),
            pool("wrong-key", "other", [wrong], served_name="e2e-small"),
            pool("wrong-endpoint", "other", [replica("e1", small)], served_name="e2e-small", endpoints=["embeddings"]),
        ],
        "routing": {
            "classifier": {"kind": "fixed", "tier": "small"},
            "tiers": ["small", "large", "other"],
            "fallback": {"small": "large"},
        },
        "cache": {"prefix": {"isolate": "tenant"}},
        "health": {"interval": "500ms", "timeout": "10s"},
        "queue": {"max_wait": {"realtime": "300s", "standard": "300s", "batch": "300s"}},
        "plans": {"pro": {"priority": "realtime"}, "bulk": {"priority": "batch"}},
        "tenants": [
            {"name": name, "plan": "bulk" if name == "bulk" else "pro", "keys": [{"id": "k", "sha256": digest(key)}]}
            for name, key in KEYS.items()
        ],
    }  # fmt: skip
