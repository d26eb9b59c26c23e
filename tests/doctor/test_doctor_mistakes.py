"""Ten mistakes that operators make, planted for real; each is found, at its place, with a sentence that mends it."""

import socket
import time

import pytest
from doctor_talk import config, vllm

from gateway.app import Gateway
from gateway.config import parse
from gateway.logs import NullLog

URL = "models[0].replicas[0].url"


async def test_nothing_is_found_where_nothing_is_wrong(doctor, fake):
    """A healthy setup yields no finding but those that say so, and names what each replica serves."""
    one, other = await fake(), await fake()
    await doctor(config(one.url, other.url))
    assert doctor.bad == []
    assert [line.key for line in doctor.lines if "serves" in line.what] == [URL, "models[0].replicas[1].url"]


async def test_a_wrong_port_is_found(doctor, free_port, tmp_path):
    """Nobody listens there: the URL's line is named, and the port."""
    await doctor(config(f"http://127.0.0.1:{free_port}/v1"))
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", URL)
    assert f":{free_port}/v1" in (tmp_path / "config.yaml").read_text().splitlines()[line.line - 1]
    assert f"127.0.0.1:{free_port}" in line.what
    assert "refused" in line.what
    assert "correct the port" in line.mend


@pytest.mark.parametrize("answers", [{}, {"/v1/models": (200, b"<html>")}, {"/v1/models": (200, b'{"data": [1]}')}])
async def test_another_web_server_is_no_vllm(doctor, serve, answers):
    """Something answers on the port, with no list of models."""
    engine = await serve({"/health": (200, b""), **answers})
    await doctor(config(f"http://127.0.0.1:{engine.port}/v1"))
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", URL)
    assert "no vLLM" in line.what
    assert "port" in line.mend


async def test_what_speaks_no_http_is_found(doctor, serve):
    """A program of another protocol listens on the port."""
    engine = await serve(raw=b"SSH-2.0-OpenSSH_9.6\r\n")
    await doctor(config(f"http://127.0.0.1:{engine.port}/v1"))
    assert "not HTTP" in doctor.only().what


async def test_a_url_without_v1_is_found(doctor, fake):
    """vLLM serves its models below /v1: without it the answer is a 404, and the mend says what is missing."""
    engine = await fake()
    await doctor(config(engine.url.removesuffix("/v1")))
    assert "/v1" in doctor.only().mend


@pytest.mark.parametrize("key", ["wrong-key-that-nobody-may-see", None])
async def test_a_wrong_backend_key_is_found(doctor, fake, key):
    """The engine answers 401: the key's own line is named, and the key is not shown."""
    engine = await fake(api_key="the-right-one")
    replica = {"name": "r0", "url": engine.url, **({"api_key": key} if key else {})}
    await doctor(config(model={"replicas": [replica]}))
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", "models[0].replicas[0].api_key")
    assert "401" in line.what
    assert "--api-key" in line.mend
    assert "nobody-may-see" not in str(doctor.lines)


async def test_another_served_model_is_found(doctor, fake):
    """What it serves is listed, and the nearest name suggested."""
    engine = await fake(models=("Qwen/Qwen2.5-7B-Instruct", "other"))
    await doctor(config(engine.url, model={"served_name": "Qwen/Qwen2.5-7B-Instrct"}))
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", "models[0].served_name")
    assert '"Qwen/Qwen2.5-7B-Instruct", "other"' in line.what
    assert 'did you mean "Qwen/Qwen2.5-7B-Instruct"?' in line.mend


async def test_a_missing_adapter_is_found(doctor, fake):
    """An adapter's served name must be listed as well."""
    engine = await fake(lora_modules=("support-v2",))
    await doctor(config(engine.url, model={"adapters": [{"name": "support-lora", "served_name": "support-v1"}]}))
    line = doctor.only()
    assert (line.key, line.severity) == ("models[0].adapters[0].served_name", "fail")
    assert "support-v2" in line.mend


async def test_too_small_a_context_is_found(doctor, fake):
    """The engine takes fewer tokens than the config promises: both numbers, and the flag to start it with."""
    engine = await fake(max_model_len=2048)
    await doctor(config(engine.url))
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", "models[0].context")
    assert "4096" in line.what
    assert "2048" in line.what
    assert "--max-model-len 4096" in line.mend


async def test_a_context_that_is_not_set_is_told(doctor, fake):
    """Without one, what to write is told."""
    engine = await fake()
    await doctor(config(engine.url, model={"context": None}))
    line = doctor.only()
    assert (line.severity, line.mend) == ("warn", "Write `context: 4096`.")


async def test_a_dead_name_is_found(doctor):
    """A host that DNS does not know: `.invalid` never exists."""
    await doctor(config("http://vllm-7.nowhere.invalid:8000/v1"))
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", URL)
    assert "vllm-7.nowhere.invalid cannot be resolved" in line.what
    assert "DNS" in line.mend


async def test_an_unwritable_key_file_is_found(doctor, fake, tmp_path):
    """A directory of its path is a file, which stops root too."""
    (tmp_path / "plain").write_text("")
    engine = await fake()
    await doctor(config(engine.url, keys={"path": "plain/keys.json"}))
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", "keys.path")
    assert f"{tmp_path}/plain is a file" in line.what
    assert "another path" in line.mend


async def test_a_folder_of_budgets_that_cannot_be_made_is_found(doctor, fake, tmp_path):
    """A file in its way is told where a tenant has a budget, and nothing is said where nobody has."""
    (tmp_path / "plain").write_text("")
    engine = await fake()
    tree = config(engine.url, limits={"budgets": {"path": "plain/budgets"}})
    await doctor(tree)
    assert doctor.bad == []
    await doctor({**tree, "tenants": [{**tree["tenants"][0], "budget": {"day": 5}}]})
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", "limits.budgets.path")
    assert f"{tmp_path}/plain is a file" in line.what


@pytest.mark.parametrize("ahead", [90.0, -90.0])
async def test_a_clock_that_is_off_is_found(doctor, serve, ahead):
    """The engine's Date differs from our time: both are told, and NTP."""
    engine = await serve(date=lambda: time.time() + ahead)
    await doctor(config(f"http://127.0.0.1:{engine.port}/v1"))
    line = doctor.only()
    assert (line.severity, line.key) == ("warn", URL)
    assert ("ahead of" if ahead > 0 else "behind") in line.what
    assert "there " in line.what
    assert "here " in line.what
    assert "NTP" in line.mend


@pytest.mark.parametrize("which", ["port", "metrics"])
async def test_a_taken_port_is_found(doctor, fake, which):
    """Another program listens where the gateway should, for requests or for metrics."""
    engine = await fake()
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        server = {"port": port} if which == "port" else {"port": 0, "metrics": f"127.0.0.1:{port}"}
        await doctor(config(engine.url, server=server), timeout=0.3)
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", f"server.{which}")
    assert f"127.0.0.1:{port} is taken" in line.what
    assert "another port" in line.mend


@pytest.mark.parametrize("which", ["port", "metrics"])
async def test_a_running_tiergate_is_no_mistake(doctor, fake, tmp_path, which, free_port):
    """The port is taken by a tiergate that runs: said so, and nothing is wrong."""
    engine = await fake()
    metrics = f"127.0.0.1:{free_port}"
    text = f"{{server: {{port: 0, metrics: '{metrics}'}}, models: [{{name: m, replicas: [{{name: r, url: '{engine.url}'}}]}}]}}"
    gateway = Gateway(parse(text, tmp_path / "running.yaml", {}), NullLog())
    await gateway.start()
    try:
        server = {"port": gateway.port} if which == "port" else {"port": 0, "metrics": metrics}
        await doctor(config(engine.url, server=server))
    finally:
        await gateway.stop()
    assert doctor.bad == []
    assert [line.what for line in doctor.lines if line.key == f"server.{which}"] == [
        f"a tiergate is running at 127.0.0.1:{gateway.port if which == 'port' else free_port}"
    ]


async def test_an_unset_variable_is_found_and_the_rest_still_checked(doctor, fake, free_port):
    """The variable is named, how to give it a default too; the other replica's wrong port is found all the same."""
    engine = await fake(api_key="k")
    replicas = [
        {"name": "r0", "url": engine.url, "api_key": "${VLLM_KEY}"},
        {"name": "r1", "url": f"http://127.0.0.1:{free_port}/v1"},
    ]
    await doctor(config(model={"replicas": replicas}))
    fails = [line for line in doctor.bad if line.severity == "fail"]
    assert [line.key for line in fails] == ["models[0].replicas[0].api_key", "models[0].replicas[1].url"]
    assert "VLLM_KEY is not set" in fails[0].what
    assert "${VLLM_KEY:-default}" in fails[0].mend


async def test_several_mistakes_come_in_the_order_of_the_config(doctor, serve, free_port):
    """Every one of many mistakes is told in one run, by line."""
    engine = await serve(vllm("other", length=1024))
    tree = config(f"http://127.0.0.1:{free_port}/v1", f"http://127.0.0.1:{engine.port}/v1", "http://x.invalid/v1")
    await doctor({**tree, "plans": {**tree["plans"], "free": {}}, "keys": {"path": "config.yaml/keys.json"}})
    assert [line.key for line in doctor.bad] == [
        "models[0].served_name",
        "models[0].replicas[0].url",
        "models[0].replicas[2].url",
        "plans.free",
        "keys.path",
    ]
    assert [line.line for line in doctor.lines] == sorted(line.line for line in doctor.lines)
