"""What the doctor looks at beyond the ten mistakes, and how it behaves among things that hang, lie and flood."""

import asyncio
import json
import os
import re
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from doctor_talk import HEALTHY, config, vllm

from gateway.cli import main
from gateway.commands.doctor import text
from gateway.doctor import disk
from gateway.doctor.clocks import http_date, skew
from gateway.doctor.diagnosis import Line
from gateway.doctor.machine import cores

ROOT = Path(__file__).resolve().parents[2]
URL = "models[0].replicas[0].url"


def url(engine):
    return f"http://127.0.0.1:{engine.port}/v1"


async def test_more_slots_than_the_kv_cache_has_room_for_are_found(doctor, fake):
    """The engine's own size is compared with the number of slots, unless tokens are bounded or slots are adaptive."""
    engine = await fake(kv_blocks=1000, max_model_len=4096)
    await doctor(config(engine.url))
    line = doctor.only()
    assert (line.severity, line.key) == ("warn", "models[0].concurrency.max")
    assert "16000 tokens: 62 for each" in line.what
    for concurrency in ({"max": 31}, {"tokens": 16_000}, {"kind": "adaptive"}):
        await doctor(config(engine.url, model={"concurrency": concurrency}))
        assert doctor.bad == []


@pytest.mark.parametrize("page", [b"llamacpp:requests_processing 0\n", b"", b"\xff" * 1000])
async def test_adaptive_slots_want_the_metrics_of_vllm(doctor, serve, page):
    """Without them they work, less well: the operator should know."""
    engine = await serve({**vllm(), "/metrics": (200, page)})
    await doctor(config(f"http://127.0.0.1:{engine.port}/v1", model={"concurrency": {"kind": "adaptive"}}))
    line = doctor.only()
    assert (line.severity, line.key) == ("warn", "models[0].concurrency.kind")
    await doctor(config(f"http://127.0.0.1:{engine.port}/v1"))
    assert doctor.bad == []


async def test_an_old_engine_is_a_warning(doctor, serve):
    """A vLLM below what is tested is told with both versions; a build from source is not judged."""
    old, source = await serve(vllm(version="0.9.2")), await serve(vllm(version="0.1.dev1+g123"))
    await doctor(config(url(old)))
    assert "0.9.2" in doctor.only().what
    await doctor(config(url(source)))
    assert doctor.bad == []


async def test_another_kind_of_engine_is_a_warning(doctor, serve):
    """It lists models and tells no version: it may be no vLLM."""
    engine = await serve({**vllm(), "/version": (404, b"")})
    await doctor(config(url(engine)))
    assert doctor.only().severity == "warn"
    assert "no vLLM" in doctor.only().what


async def test_replicas_that_differ_are_a_warning(doctor, serve):
    """Version, context and served models of one pool, each with who has what."""
    one = await serve(vllm(length=8192))
    answers = vllm(length=4096, version="0.33.0")
    cards = [{"id": "fake", "max_model_len": 4096}, {"id": "extra"}]
    other = await serve({**answers, "/v1/models": (200, json.dumps({"data": cards}).encode())})
    await doctor(config(url(one), url(other)))
    assert [line.what.split(": ")[0] for line in doctor.bad] == [
        f"its replicas differ in their {what}" for what in ("versions", "context lengths", "served models")
    ]
    assert "r0 has 8192, r1 has 4096" in doctor.bad[1].what


async def test_what_a_backend_says_cannot_steer_the_terminal(doctor, serve):
    """A version with escapes and line breaks is told as one printable line."""
    one, other = await serve(vllm()), await serve(vllm(version="\x1b[31mEVIL\x07\n ok all is well"))
    await doctor(config(url(one), url(other)))
    told = "".join(line.what + line.mend for line in doctor.lines)
    assert "EVIL" in told
    assert told.isprintable()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_two_replicas_that_are_one_server_are_a_warning(doctor, fake, host):
    """The same URL twice, or two names of one address."""
    engine = await fake()
    await doctor(config(engine.url, engine.url.replace("127.0.0.1", host)))
    line = doctor.only()
    assert (line.severity, line.key) == ("warn", "models[0].replicas[1].url")
    assert "same server as replica r0" in line.what


async def test_a_url_that_leads_back_to_the_gateway_is_found(doctor, free_port):
    """Requests would go round in a circle."""
    await doctor(config(f"http://127.0.0.1:{free_port}/v1", server={"port": free_port}))
    assert "gateway itself" in doctor.only().what


async def test_an_engine_that_is_unwell_is_found(doctor, serve):
    """Its `/health` is not 200, so it will get no requests."""
    engine = await serve({**vllm(), "/health": (503, b"")})
    await doctor(config(url(engine)))
    assert "/health answers 503" in doctor.only().what


async def test_engines_that_hang_do_not_hang_the_doctor(doctor, serve):
    """Questions go out at once, each with a deadline; what hangs is a finding, and the others are answered."""
    hanging = [await serve(hang=True) for _ in range(5)]
    well = await serve()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await doctor(config(*[url(one) for one in hanging], url(well)), timeout=0.4, total=10)
    assert loop.time() - began < 5  # one after the other they would take eight
    assert [line.key for line in doctor.bad] == [f"models[0].replicas[{number}].url" for number in range(5)]
    assert all("no answer within 0.4 s" in line.what for line in doctor.bad)


async def test_all_of_it_has_a_deadline(doctor, serve):
    """When the time of the whole is up before a question's own, what was not answered is a finding."""
    engine = await serve(hang=True)
    await doctor(config(url(engine)), timeout=60, total=0.3)
    assert "before the time of the whole check was up" in doctor.only().what


HOSTILE = {
    "a flood": b'{"data": [' + b'{"id": "x"},' * 200_000 + b'{"id": "y"}]}',
    "depth": b"[" * 50_000,
    "other types": b'{"data": [{"id": 7}]}',
    "no UTF-8": b'{"data": [{"id": "\xff"}]}',
    "many names": json.dumps({"data": [{"id": f"m{number}\n\x1b[31m"} for number in range(5000)]}).encode(),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_answers_are_findings_of_one_short_line(doctor, serve, body):
    """Whatever a server sends, each finding is short, printable and on one line."""
    engine = await serve({**vllm(), "/v1/models": (200, body)})
    await doctor(config(url(engine)))
    assert doctor.bad
    for line in doctor.bad:
        assert line.what.isprintable()
        assert len(line.what) < 1200


async def test_deep_sends_one_token_and_times_it(doctor, fake):
    """Only `--deep` reaches the model, with its served name."""
    engine = await fake()
    await doctor(config(engine.url))
    assert not [entry for entry in engine.log if entry.path.endswith("completions")]
    await doctor(config(engine.url), deep=True)
    (entry,) = [entry for entry in engine.log if entry.path.endswith("completions")]
    assert (entry.body["model"], entry.body["max_tokens"]) == ("fake", 1)
    assert doctor.bad == []
    assert any(line.what.startswith("one token took") for line in doctor.lines)


async def test_an_engine_that_echoes_our_key_does_not_make_us_print_it(doctor, serve):
    """The error of a deep request is shown without the key that it repeats."""
    engine = await serve({**vllm(), "/v1/chat/completions": (500, b"key s3cr3t-backend-key is bad\n")})
    replica = {"name": "r0", "url": url(engine), "api_key": "s3cr3t-backend-key"}
    await doctor(config(model={"replicas": [replica]}), deep=True)
    assert "key *** is bad" in doctor.only().what
    assert "s3cr3t" not in str(doctor.lines)


async def test_patterns_and_plans_of_no_use_are_warnings(doctor, fake):
    """A glob without a model, an alias where a model is meant, a plan of nobody, a tenant without a key."""
    engine = await fake()
    tree = config(engine.url, routing={"aliases": {"gpt-4o": "small"}})
    acme = {**tree["tenants"][0], "models": ["small*", "qwen*", "gpt-4o"]}
    await doctor({**tree, "plans": {**tree["plans"], "gold": {}}, "tenants": [acme, {"name": "idle", "plan": "pro"}]})
    told = {line.key: line.what for line in doctor.bad}
    assert set(told) == {"tenants[0].models[1]", "tenants[0].models[2]", "plans.gold", "tenants[1]"}
    assert "an alias" in told["tenants[0].models[2]"]
    assert all(line.severity == "warn" for line in doctor.bad)


async def test_a_broken_key_file_is_found(doctor, fake, tmp_path):
    """What is in it is no key file."""
    (tmp_path / "keys.json").write_text("{")
    engine = await fake()
    await doctor(config(engine.url))
    assert (doctor.only().severity, doctor.only().key) == ("fail", "keys.path")


async def test_a_slow_interpreter_and_few_descriptors_are_warnings(doctor, fake):
    """How Python was built and how many sockets a process may have, against what the config could need."""
    engine = await fake()
    await doctor(config(engine.url), machine=replace(HEALTHY, optimised=False, descriptors=1024))
    assert [line.severity for line in doctor.bad] == ["warn", "warn"]
    assert "profile-guided" in doctor.bad[0].what
    assert "1024 descriptors" in doctor.bad[1].what


@pytest.mark.parametrize(
    ("workers", "change", "severity", "said"),
    [
        (1, {"cores": 1, "temporary": ""}, "", ""),
        (4, {}, "ok", "4 workers and a dispatcher on 4 cores"),
        (5, {}, "warn", "5 workers on 4 cores"),
        (2, {"temporary": ""}, "fail", "no temporary directory"),
        (2, {"temporary": "/" + 74 * "t"}, "fail", "too long"),
    ],
)
async def test_several_workers_need_cores_and_a_place_for_a_socket(doctor, fake, workers, change, severity, said):
    """More workers than cores are a warning, no place for the dispatcher's socket a failure; one worker needs neither."""
    engine = await fake()
    await doctor(config(engine.url, server={"port": 0, "workers": workers}), machine=replace(HEALTHY, **change))
    found = [line for line in doctor.lines if line.key == "server.workers"]
    assert [line.severity for line in found] == [severity] * bool(severity)
    assert all(said in line.what for line in found)


@pytest.mark.parametrize(
    ("quota", "most"), [("max 100000", None), ("150000 100000", 2), ("1000 100000", 1), ("?", None), (None, None)]
)
def test_a_container_has_the_cores_that_its_quota_gives(tmp_path, quota, most):
    """cpu.max of a control group, rounded up, where there is one and it says a number."""
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota)
    unbounded = cores(tmp_path / "none")
    assert cores(tmp_path / "cpu.max") == min(most or unbounded, unbounded)


@pytest.mark.parametrize(
    ("theirs", "apart"),
    [(1000.0, False), (1004.9, False), (1007.0, False), (1007.2, True), (994.5, False), (993.9, True)],
)
def test_the_time_that_an_answer_took_is_no_skew(theirs, apart):
    """Asked at 1000, answered within two seconds, read from a header of whole seconds: only more than five beyond that counts."""
    assert bool(skew((), "x", theirs, 1000.0, 2.0, step=1.0)) is apart


@pytest.mark.parametrize("value", [None, b"", b"yesterday", b"\xff", b"9" * 100, b"Mon, 01 Jan 99999 00:00:00 GMT"])
def test_a_date_that_is_none_is_no_finding(value):
    """Nothing that a server writes there raises."""
    assert http_date(value) is None


def test_little_space_is_a_warning():
    """A disk that is nearly full, by what is left."""
    assert disk.low_space((), disk.LOW) == []
    assert "12 MiB" in disk.low_space((), 12 * 2**20)[0].what


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission_is_found(tmp_path):
    """The user who asks may not make files there."""
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert disk.key_file((), tmp_path / "keys.json")[0].severity == "fail"
    finally:
        tmp_path.chmod(stat.S_IRWXU)


async def command(directory: Path, *words: str, **env: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway.cli", "doctor", *words, cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env}, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_the_command_tells_by_its_exit_code(doctor, fake, tmp_path, free_port):
    """0 when nothing failed, 1 when something did; no colour in a pipe."""
    engine = await fake()
    await doctor(config(engine.url))
    code, out, _ = await command(tmp_path)
    assert code == 0
    assert "\x1b" not in out
    assert "vLLM 0.32.0 serves" in out
    await doctor(config(f"http://127.0.0.1:{free_port}/v1"))
    code, out, _ = await command(tmp_path, "--json")
    answer = json.loads(out)
    assert (code, answer["ok"]) == (1, False)
    (found,) = [line for line in answer["findings"] if line["severity"] == "fail"]
    assert set(found) == {"severity", "key", "line", "what", "mend"}


@pytest.mark.parametrize("words", [("--config", "missing.yaml"), ("--config", "bad.yaml"), ("--timeout", "0"), ("--total", "-1")])
def test_a_mistake_of_the_command_line_is_one_line(words, tmp_path, monkeypatch, capsys):
    """Code 2 and a line, when there is nothing to look at."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("{")
    assert main(["doctor", *words]) == 2
    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 1)


def test_colour_is_for_terminals_that_want_it():
    """Each severity has its own; without colour there is no escape."""
    lines = [Line(severity, "server.port", 3, "taken", "mend it") for severity in ("ok", "warn", "fail")]
    plain, coloured = (text("c.yaml", lines, colour=colour) for colour in (False, True))
    assert "\x1b" not in plain
    assert "fail  c.yaml:3: server.port: taken\n      mend it" in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    assert len(set(re.findall(r"\x1b\[3\dm", coloured))) == 3
