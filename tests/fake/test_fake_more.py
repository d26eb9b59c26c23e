"""Embeddings, the tokenizer, metrics, options, the command."""

import argparse
import base64
import contextlib
import math
import struct
import subprocess
import sys
import urllib.request
from pathlib import Path

import httpx
import pytest
from fake_talk import talk
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gateway.lab.fake import FakeVLLM, Options, duration
from gateway.lab.fake.command import add_arguments, options_of, run
from gateway.lab.fake.text import count, decode, encode, pieces, quote, words

ROOT = Path(__file__).resolve().parents[2]


async def test_embeddings_as_numbers_and_as_base64(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """One unit vector for each input, the same in both encodings, of the width asked for."""
    asked = {"model": "fake", "input": ["hello world", "goodbye"]}
    body = (await client.post(f"{fake.url}/embeddings", json=asked, headers={"x-request-id": "e"})).json()
    assert list(body) == ["id", "object", "created", "model", "data", "usage"]
    assert body["id"] == "embd-e"
    assert [item["index"] for item in body["data"]] == [0, 1]
    assert body["usage"]["prompt_tokens"] == body["usage"]["total_tokens"] == 5
    numbers = body["data"][0]["embedding"]
    assert len(numbers) == 64
    assert math.isclose(sum(value * value for value in numbers), 1.0, rel_tol=1e-5)
    packed = (await client.post(f"{fake.url}/embeddings", json=asked | {"encoding_format": "base64"})).json()["data"][0][
        "embedding"
    ]
    assert list(struct.unpack("<64f", base64.b64decode(packed))) == numbers
    short = (await client.post(f"{fake.url}/embeddings", json=asked | {"dimensions": 8})).json()["data"][0]["embedding"]
    assert len(short) == 8


async def test_embeddings_of_token_ids_and_near_texts(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Token ids stand for their text; texts that share words are nearer than others."""

    async def vector(text: object) -> list[float]:
        return list(
            (await client.post(f"{fake.url}/embeddings", json={"model": "fake", "input": text})).json()["data"][0]["embedding"]
        )

    here = await vector("how do I reset my password")
    assert await vector(encode(b"how do I reset my password")) == here
    near, far = await vector("how can I reset my password"), await vector("the weather in spring")
    assert sum(map(float.__mul__, here, near)) > sum(map(float.__mul__, here, far)) + 0.3


async def test_tokenize_and_detokenize(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Tokens of a prompt or a conversation, their strings on request, and back."""
    told = (
        await client.post(f"{fake.root}/tokenize", json={"model": "fake", "prompt": "hello", "return_token_strs": True})
    ).json()
    assert told["count"] == len(told["tokens"]) == 2
    assert (told["token_strs"], told["max_model_len"]) == (["hell", "o"], 32768)
    assert (await client.post(f"{fake.root}/detokenize", json={"tokens": told["tokens"]})).json() == {"prompt": "hello"}
    chat = (await client.post(f"{fake.root}/tokenize", json=talk())).json()
    usage = (await client.post(f"{fake.url}/chat/completions", json=talk())).json()["usage"]
    assert chat["count"] == usage["prompt_tokens"]
    for path, body in (("tokenize", {}), ("detokenize", {}), ("detokenize", {"tokens": ["x"]}), ("detokenize", {"tokens": [-1]})):
        assert (await client.post(f"{fake.root}/{path}", json=body)).status_code == 400
    assert (await client.post(f"{fake.root}/tokenize", json={"model": "nope", "prompt": "x"})).status_code == 404


async def test_metrics_in_vllms_names(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """The exposition parses, has vLLM's families, and counts what happened."""
    for _ in range(2):
        await client.post(f"{fake.url}/chat/completions", json=talk("word " * 100, max_tokens=5))
    answer = await client.get(f"{fake.root}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    samples = {
        (sample.name, sample.labels.get("finished_reason"), sample.labels.get("le")): sample
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    values = {name: sample.value for (name, reason, bound), sample in samples.items() if reason is None and bound is None}
    assert values["vllm:num_requests_running"] == values["vllm:num_requests_waiting"] == values["vllm:kv_cache_usage_perc"] == 0
    assert values["vllm:generation_tokens_total"] == 10
    assert values["vllm:prompt_tokens_total"] == values["vllm:prefix_cache_queries_total"] > 200
    assert values["vllm:prefix_cache_hits_total"] > 100
    assert values["vllm:num_preemptions_total"] == 0
    assert values["vllm:time_to_first_token_seconds_count"] == 2
    assert values["process_start_time_seconds"] > 0
    assert samples["vllm:request_success_total", "length", None].value == 2
    assert samples["vllm:time_to_first_token_seconds_bucket", None, "+Inf"].value == 2
    assert samples["vllm:cache_config_info", None, None].labels["block_size"] == "16"
    assert samples["vllm:num_requests_running", None, None].labels == {"engine": "0", "model_name": "fake"}


@given(st.text())
def test_tokens_turn_back_into_text(text: str) -> None:
    """Ids give their text back, as many as counted, and a prefix of a text has a prefix of its tokens."""
    data = text.encode("utf-8", "replace")
    ids = encode(data)
    assert len(ids) == count(data)
    assert decode(ids) == data.decode()
    assert encode(data + b"more")[: len(data) // 4] == ids[: len(data) // 4]


@given(st.text())
def test_pieces_are_the_text(text: str) -> None:
    """Pieces put together are the text, and so are the JSON strings made of them."""
    cut = pieces(text)
    assert "".join(cut) == text
    assert all(cut) or text == ""
    assert len(quote(cut)) == len(cut)


def test_words_count_as_they_are_made() -> None:
    """A text made of N words is N tokens when it comes back as a prompt, however long."""
    for length in (0, 1, 100, 10_000):
        said, quoted = words(4000, length)
        assert len(said) == len(quoted) == length
        assert count("".join(said).encode()) == length
    assert decode([0, 2, 2**70]) == "?<|im_end|>?"


@pytest.mark.parametrize(
    ("text", "seconds"), [("20ms", 0.02), ("0.5s", 0.5), ("3", 3.0), ("1.5", 1.5), ("250us", 0.00025), ("1m", 60.0)]
)
def test_durations(text: str, seconds: float) -> None:
    """Durations carry a unit or are seconds."""
    assert duration(text) == pytest.approx(seconds)


def test_what_is_no_duration() -> None:
    """Anything else is refused."""
    for text in ("", "fast", "-1s", "1h", "1 s s"):
        with pytest.raises(ValueError, match="duration"):
            duration(text)


def test_options_that_do_not_go_together() -> None:
    """Options are checked when they are made; a speed of its own wins over the profile's."""
    for wrong in (
        {"models": ()},
        {"profile": "fast"},
        {"tokens": 0},
        {"max_num_seqs": 0},
        {"kv_blocks": 10, "max_model_len": 1000},
    ):
        with pytest.raises(ValueError):
            Options(**wrong)  # type: ignore[arg-type]
    speed = Options(profile="8b", itl=0.5).speed
    assert (speed.itl, speed.ttft) == (0.5, 0.02)


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def test_flags_become_options() -> None:
    """Every flag reaches its option; none given are the defaults, on vLLM's port."""
    assert options_of(parsed()) == Options(port=8000)
    options = options_of(
        parsed(
            "--model", "a", "--served-model-name", "b", "--lora-modules", "c=/path", "d", "--profile", "70b", "--ttft", "20ms",
            "--tokens", "5", "--max-num-seqs", "3", "--max-num-queued-reqs", "9", "--max-model-len", "4096", "--block-size", "32",
            "--kv-blocks", "10", "--api-key", "k", "--scheduling-policy", "priority", "--enable-prompt-tokens-details",
            "--seed", "4", "--port", "0",
        )
    )  # fmt: skip
    assert (options.models, options.lora_modules, options.ttft) == (("a", "b"), ("c", "d"), 0.02)
    assert options.kv_blocks == 128  # never fewer than one request needs
    assert options.api_key == "k"


def test_wrong_flags_end_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """What does not go together, or is not there, is one line and a status."""
    assert run(parsed("--tokens", "0")) == 2
    assert "tokens must be at least 1" in capsys.readouterr().err
    assert run(parsed("--script", "nowhere.yaml")) == 2
    with pytest.raises(SystemExit):
        parsed("--itl", "fast")
    assert "is not a duration" in capsys.readouterr().err


def test_the_command_serves_until_told_to_stop() -> None:
    """It prints one line when it listens, answers, and ends well on SIGTERM; a taken port is a status of its own."""
    code = """
import argparse, sys
from gateway.lab.fake.command import add_arguments, run
parser = argparse.ArgumentParser()
add_arguments(parser)
sys.exit(run(parser.parse_args()))
"""
    command = [sys.executable, "-W", "error", "-c", code, "--model", "m", "--port"]
    with subprocess.Popen([*command, "0"], stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("fake vLLM serves m at http://127.0.0.1:")
            url = line.split()[5]
            with urllib.request.urlopen(url + "/models") as answer:
                assert b'"id":"m"' in answer.read()
            port = url.split(":")[2].removesuffix("/v1")
            second = subprocess.run([*command, port], cwd=ROOT, capture_output=True, text=True, check=False)
            assert (second.returncode, "cannot listen" in second.stderr) == (1, True)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        assert process.wait(10) == 0
        assert process.stdout.read() == ""
