"""vLLM's own load generator before real vLLM: straight at a server, through tiergate before it, and before two of them.

    python -m bench.conformance.vllm_bench --rounds 3       # docs/vllm-bench.json, and its part of docs/conformance.md

Needs the environment and the model of `make e2e`. Each round sends every target the same prompts, with the servers' prefix
caches emptied before, and begins with another target. What the client counted is held against what the gateway counted.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.compare import end_at_sigterm
from bench.conformance.page import DOCS, page
from bench.conformance.records import DATA as RESULTS
from bench.conformance.records import Results
from bench.conformance.served import DATA, TARGETS, Served, Spread, Taken
from bench.conformance.targets import KEY, MODEL
from bench.load import Target
from bench.processes import NotReadyError, Running, environment
from bench.stages import checkout_version
from gateway.lab.up.ports import free

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".venv-e2e"
WEIGHTS = HOME / "smollm2"
ENDPOINTS = {"openai-chat": "/v1/chat/completions", "openai": "/v1/completions", "openai-responses": "/v1/responses"}
_OFFLINE = {
    "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1", "VLLM_SERVER_DEV_MODE": "1",
}  # fmt: skip
_UP = 600.0  # seconds
_PATIENCE = 900.0
_NO_VLLM = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """The shape of one run's load."""

    prompts: int
    at_once: int
    prompt_tokens: int = 128
    answer_tokens: int = 32
    warm_ups: int = 2

    def told(self) -> str:
        lengths = f"of {self.prompt_tokens} tokens, answered with {self.answer_tokens} each"
        return f"{self.prompts} random prompts {lengths}, {self.at_once} at once"

    def flags(self, seed: int) -> list[str]:
        lengths = ["--random-input-len", str(self.prompt_tokens), "--random-output-len", str(self.answer_tokens)]
        amount = ["--num-prompts", str(self.prompts), "--max-concurrency", str(self.at_once), "--num-warmups", str(self.warm_ups)]
        return ["--dataset-name", "random", "--ignore-eos", "--seed", str(seed), *lengths, *amount]


def main(argv: Sequence[str] | None = None) -> int:
    args = _arguments(argv)
    if not (WEIGHTS / "config.json").is_file():
        print("there is no vLLM and no model in .venv-e2e: make e2e", file=sys.stderr)
        return _NO_VLLM
    end_at_sigterm()
    asked, runs = Asked(args.prompts, args.at_once), list[Taken]()
    ours, busy = checkout_version(), os.getloadavg()[2]
    with tempfile.TemporaryDirectory(prefix="tiergate-vllm-bench-") as folder, contextlib.ExitStack() as stack:
        engines = _engines(Path(folder), stack)
        gateway = _gateway(engines, Path(folder), stack)
        engine = json.loads(_asked(engines[0], "/version"))["version"]
        roots = {TARGETS[0]: (engines[0], MODEL), TARGETS[1]: (gateway, "one"), TARGETS[2]: (gateway, "both")}
        for turn in range(args.rounds):
            for backend in ENDPOINTS:
                for name in (*TARGETS[turn % len(TARGETS) :], *TARGETS[: turn % len(TARGETS)]):
                    at, model = roots[name]
                    before = _counted(gateway)
                    for one in engines:
                        _asked(one, "/reset_prefix_cache", b"")
                    told = _bench(backend, at, model, asked.flags(turn), Path(folder))
                    after = _counted(gateway) if at is gateway else {}
                    counted = {key: value - before[key] for key, value in after.items()}
                    runs.append(taken(name, backend, asked, told, counted))
                    print(f"round {turn + 1} {backend:16} {name:24} {runs[-1].told()}", file=sys.stderr, flush=True)
                    today = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d")
                    _write(Served(today, ours, engine, asked.told(), (busy, os.getloadavg()[2]), runs))
    return 0 if all(run.right() for run in runs) else 1


def _write(served: Served) -> None:
    """After every run, so that one that breaks off loses nothing."""
    (DOCS / DATA).write_bytes(msgspec.json.format(msgspec.json.encode(served), indent=1) + b"\n")
    results = msgspec.json.decode((DOCS / RESULTS).read_bytes(), type=Results)
    (DOCS / "conformance.md").write_text(page(results), encoding="utf-8")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=48, help="of each run; default: 48")
    parser.add_argument("--at-once", type=int, default=4, help="requests in flight; default: 4")
    return parser.parse_args(argv)


def _engines(folder: Path, stack: contextlib.ExitStack) -> list[Running]:
    """Two servers of the same model, both up."""
    started = [_engine(port, folder, stack) for port in free(2, random.Random())]
    for engine in started:
        engine.wait(_UP)
    return started


def _engine(port: int, folder: Path, stack: contextlib.ExitStack) -> Running:
    command = [
        str(HOME / "vllm/bin/python"), "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port),
        "--model", str(WEIGHTS), "--served-model-name", MODEL, "--max-model-len", "2048", "--max-num-seqs", "8",
        "--block-size", "32", "--enforce-eager", "--enable-prompt-tokens-details", "--api-key", KEY,
    ]  # fmt: skip
    return _start(command, port, MODEL, folder / f"engine-{port}.log", _OFFLINE, stack)


def _gateway(engines: Sequence[Running], folder: Path, stack: contextlib.ExitStack) -> Running:
    """tiergate with a model on the first server and one on both, limits on, and the cache off: each prompt is to be answered."""
    (port,) = free(1, random.Random())
    urls = [f"http://127.0.0.1:{engine.target.port}/v1" for engine in engines]
    pools = {"one": urls[:1], "both": urls}
    tree = {
        "server": {"port": port},
        "models": [
            {
                "name": name,
                "tier": name,
                "served_name": MODEL,
                "endpoints": ["chat", "completions", "responses"],
                "replicas": [{"name": f"{name}{at}", "url": url, "api_key": KEY} for at, url in enumerate(some, 1)],
            }
            for name, some in pools.items()
        ],
        "cache": {"exact": {"enabled": False}},
        "plans": {"all": {"rpm": 1_000_000, "tpm": 1_000_000_000}},
        "tenants": [{"name": "bench", "plan": "all", "keys": [{"id": "k", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]}],
    }
    file = folder / "tiergate.json"
    file.write_text(json.dumps(tree), encoding="utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "gateway.cli", "serve", "--config", str(file)]
    running = _start(command, port, "both", folder / "gateway.log", {"PYTHONPATH": str(ROOT)}, stack)
    running.wait()
    return running


def _start(command: list[str], port: int, model: str, log: Path, env: Mapping[str, str], stack: contextlib.ExitStack) -> Running:
    running = Running(command, Target(port, model, {"authorization": f"Bearer {KEY}"}), log, env)
    stack.callback(running.stop)
    return running


def _bench(backend: str, at: Running, model: str, flags: Sequence[str], folder: Path) -> dict[str, object]:
    """One run of `vllm bench serve`: the JSON that it saves. Raises NotReadyError with its last words."""
    command = [
        str(HOME / "vllm/bin/python"), "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", backend,
        "--base-url", f"http://127.0.0.1:{at.target.port}", "--endpoint", ENDPOINTS[backend], "--model", model,
        "--tokenizer", str(WEIGHTS), "--metric-percentiles", "50,99", "--save-result", "--save-detailed",
        "--result-dir", str(folder), "--result-filename", "bench.json", *flags,
    ]  # fmt: skip
    env = {**environment(), **_OFFLINE, "OPENAI_API_KEY": KEY, "PYTHONPATH": str(_named_vllm(folder))}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=folder, env=env, timeout=_PATIENCE, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise NotReadyError(f"vllm bench serve ended with {done.returncode}: {done.stderr[-2000:]}")
    told: dict[str, object] = json.loads((folder / "bench.json").read_bytes())
    return told


def _named_vllm(folder: Path) -> Path:
    """A folder that tells of a distribution `vllm`, which the command asks for; the build for the CPU is called otherwise."""
    (told,) = (HOME / "vllm/lib").glob("python*/site-packages/vllm_cpu-*.dist-info/METADATA")
    text = told.read_text(encoding="utf-8")
    found = re.search(r"^Version: (.+)$", text, re.MULTILINE)
    assert found is not None
    place = folder / "named" / f"vllm-{found[1]}+cpu.dist-info"
    place.mkdir(parents=True, exist_ok=True)
    text = re.sub(r"^Name: .+$", "Name: vllm", text, count=1, flags=re.MULTILINE)
    (place / "METADATA").write_text(text.replace(found[0], f"{found[0]}+cpu", 1), encoding="utf-8")
    return place.parent


def taken(name: str, backend: str, asked: Asked, told: Mapping[str, object], counted: Mapping[str, int]) -> Taken:
    def spread(of: str) -> Spread:
        return Spread(*(round(float(str(told[f"{kind}_{of}_ms"])), 1) for kind in ("mean", "median", "p99")))

    errors = told["errors"]
    assert isinstance(errors, list)
    return Taken(
        target=name,
        endpoint=ENDPOINTS[backend],
        asked=asked.prompts,
        warm_ups=asked.warm_ups,
        completed=int(str(told["completed"])),
        errors=len([error for error in errors if error]),
        seconds=round(float(str(told["duration"])), 1),
        tokens=int(str(told["total_output_tokens"])),
        ttft=spread("ttft"),
        tpot=spread("tpot"),
        itl=spread("itl"),
        counted=dict(counted),
    )


def _counted(gateway: Running) -> dict[str, int]:
    """What the gateway's metrics say once nothing runs: answers that were whole, others, and tokens that the engines made."""
    while True:
        sums = {"ok": 0, "others": 0, "tokens": 0, "running": 0}
        for name, labels, value in re.findall(r"^(tiergate_\w+)\{(.*)\} (\S+)$", _asked(gateway, "/metrics"), re.MULTILINE):
            if name == "tiergate_requests_total":
                sums["ok" if 'outcome="ok"' in labels else "others"] += round(float(value))
            elif name == "tiergate_tokens_total" and 'direction="completion"' in labels:
                sums["tokens"] += round(float(value))
            elif name == "tiergate_inflight_requests":
                sums["running"] += round(float(value))
        if not sums.pop("running"):
            return sums
        time.sleep(0.1)


def _asked(at: Running, path: str, body: bytes | None = None) -> str:
    """A GET, or a POST of `body`, past any proxy."""
    url = f"http://127.0.0.1:{at.target.port}{path}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, body, dict(at.target.headers)), timeout=60) as answer:
        text: str = answer.read().decode()
    return text


if __name__ == "__main__":
    raise SystemExit(main())
