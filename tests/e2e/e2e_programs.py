"""The programs of the end-to-end run as scopes: two vLLM servers on the CPU and the gateway in front of them.

Each is a process group of its own, tied to this process by `gateway.lab.up.child`, and writes to a log file: whatever happens
to the tests, nothing outlives them.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from gateway.lab.up.processes import python

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".venv-e2e"
MODEL = HOME / "smollm2"
BACKEND_KEY = "backend-key"
UP = 600.0  # seconds that a server may take to start on a busy machine; 60 were seen
_ENV = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # /is_sleeping, /reset_prefix_cache
}


class Program:
    """A child that can be killed and started again on the same port."""

    def __init__(self, name: str, argv: Sequence[str], port: int, ready: str, logs: Path) -> None:
        self.name, self.port, self.log = name, port, logs / f"{name}.log"
        self._argv, self._ready = argv, ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        env = {**os.environ, **_ENV, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=log, stderr=log, env=env, cwd=self.log.parent, start_new_session=True
            )

    def await_ready(self) -> None:
        deadline = time.monotonic() + UP
        while not self.answers():
            assert self._process is not None
            code = self._process.poll()
            assert code is None, f"{self.name} ended with {code}; the end of {self.log}:\n{self.log.read_text()[-3000:]}"
            assert time.monotonic() < deadline, f"{self.name} is not up after {UP:.0f} s; see {self.log}"
            time.sleep(0.25)

    def answers(self) -> bool:
        try:
            return httpx.get(self.root + self._ready, timeout=5, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """SIGKILL to the whole group, engine process included: nothing gets to say goodbye."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    def sample(self, name: str, **labels: str) -> float:
        """The sum of a metric over the samples that have these labels."""
        text = httpx.get(self.root + "/metrics", timeout=30, trust_env=False).text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


class Engine(Program):
    """A vLLM server. Its API key, its parser of tool calls and its flags are those that docs/e2e.md names.

    `kv`: the ports on which it tells what it caches, and replays that. `blocks`: of 32 tokens, its whole KV cache. `model`: the
    folder of its weights.
    """

    def __init__(
        self,
        name: str,
        models: Sequence[str],
        context: int,
        port: int,
        logs: Path,
        *,
        kv: tuple[int, int] | None = None,
        blocks: int | None = None,
        model: Path = MODEL,
    ) -> None:
        self.names = models
        flags = [
            *("--host", "127.0.0.1", "--port", str(port), "--model", str(model), "--served-model-name", *models),
            *("--max-model-len", str(context), "--max-num-seqs", "8", "--block-size", "32", "--enforce-eager"),
            *("--scheduling-policy", "priority", "--enable-prompt-tokens-details", "--api-key", BACKEND_KEY),
            *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
            *(() if blocks is None else ("--num-gpu-blocks-override", str(blocks))),
        ]
        self.kv: dict[str, str] = {}
        if kv is not None:
            self.kv = {what: f"tcp://127.0.0.1:{port}" for what, port in zip(("events", "replay"), kv, strict=True)}
            told = {"enable_kv_cache_events": True, "publisher": "zmq", "topic": name}
            published = {"endpoint": f"tcp://*:{kv[0]}", "replay_endpoint": f"tcp://*:{kv[1]}"}
            flags += ["--kv-events-config", json.dumps(told | published)]
        module = (str(HOME / "vllm/bin/python"), "-m", "vllm.entrypoints.openai.api_server")
        # `env`: this checkout's packages are none of vLLM's business
        super().__init__(name, python("--", "/usr/bin/env", "-u", "PYTHONPATH", *module, *flags), port, "/health", logs)

    @property
    def running(self) -> float:
        return self.sample("vllm:num_requests_running")

    @property
    def waiting(self) -> float:
        return self.sample("vllm:num_requests_waiting")

    @property
    def made(self) -> float:
        return self.sample("vllm:generation_tokens_total")


def until(condition: Callable[[], bool], what: str, seconds: float = 200.0) -> float:
    """Wait for what must come; how long it took. The ceiling is generous: machines are shared."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"in vain for {seconds:.0f} s: {what}"
        time.sleep(0.05)
    return time.monotonic() - started
