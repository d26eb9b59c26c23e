"""`tiergate load` as a program: exit codes, files, Ctrl-C, and what it does without its extras."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("hdrh.histogram", reason="hdrhistogram is not installed (the extra `load`)", exc_type=ImportError)

from gateway.lab.fake import FakeVLLM, Options

ROOT = Path(__file__).resolve().parents[2]
KEY = "tg-key-that-nobody-may-see"


async def start(*arguments, without=()):
    """The command in a process of its own, `without` packages that are then as if not installed."""
    code = f"import sys; sys.modules.update(dict.fromkeys({without!r})); from gateway.cli import main; sys.exit(main())"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TIERGATE_API_KEY": KEY}
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", code, "load", *arguments, env=env, stdout=pipe, stderr=pipe
    )


async def tiergate(*arguments, without=()):
    process = await start(*arguments, without=without)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.fixture
async def fake():
    async with FakeVLLM(Options(api_key=KEY)) as fake:
        yield fake


async def test_files_hold_the_result_and_no_key(fake, tmp_path):
    """JSON on standard output and in the file, a picture beside it, the key in neither."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra `plots`)")
    arguments = (
        "--url",
        fake.url,
        "--model",
        "fake",
        "--rate",
        "200",
        "--requests",
        "20",
        "--json",
        "--out",
        str(tmp_path / "new"),
    )
    code, out, err = await tiergate(*arguments, "--slo", "ttft=1m", "--fail-under", "1")
    assert code == 0, err
    assert json.loads(out) == json.loads((tmp_path / "new" / "load.json").read_text())
    assert json.loads(out)["requests"]["ok"] == 20
    assert (tmp_path / "new" / "load.png").read_bytes().startswith(b"\x89PNG")
    assert KEY not in out + err + (tmp_path / "new" / "load.json").read_text()


async def test_goodput_under_the_wanted_share_is_exit_code_1(fake, tmp_path):
    """For scripts; the table says it too. Without matplotlib one line says how to get the picture."""
    arguments = (
        "--url",
        fake.url,
        "--model",
        "fake",
        "--rate",
        "200",
        "--requests",
        "5",
        "--slo",
        "ttft=0.001ms",
        "--fail-under",
        "0.5",
    )
    code, out, err = await tiergate(*arguments, "--out", str(tmp_path / "r.json"), without=("matplotlib",))
    assert code == 1
    assert "goodput     0.00%" in out
    assert "under 50.00%" in err
    assert "pip install 'tiergate[plots]'" in err
    assert (tmp_path / "r.json").exists()
    assert not (tmp_path / "r.png").exists()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (
            ("--url", "http://127.0.0.1:1/v1", "--rate", "5"),
            "no answer from http://127.0.0.1:1/v1: no connection: Connection refused",
        ),
        (("--url", "http://nowhere.invalid/v1", "--rate", "5"), "the name cannot be resolved"),
        (("--url", "{fake}", "--rate", "5", "--key", "wrong"), "refuses the key (401)"),
        (("--rate", "5", "--out", f"{ROOT}/README.md/x.json"), "exists"),
        ((), "give either --rate"),
    ],
)
async def test_a_mistake_is_one_line_and_exit_code_2(fake, arguments, what):
    """A server that is not there, a name that is none, a wrong key, a path that cannot be written."""
    code, out, err = await tiergate(*(word.format(fake=fake.url) for word in arguments))
    assert code == 2
    assert what in err
    assert err.startswith("tiergate load: ")
    assert (err.count("\n"), out) == (1, "")


async def test_without_hdrhistogram_one_line_says_what_to_install(fake):
    """The base install has no hdrhistogram."""
    code, _, err = await tiergate("--url", fake.url, "--rate", "5", without=("hdrh",))
    assert (code, err) == (2, "tiergate load: it needs hdrhistogram: pip install 'tiergate[load]'\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_run_with_what_was_measured(fake, number):
    """Answers so far are told, what hangs is counted as unfinished."""
    fake.faults.add(hang_before_first_token=True, probability=0.5)
    process = await start("--url", fake.url, "--model", "fake", "--rate", "200", "--duration", "1h", "--no-probe", "--json")
    async with asyncio.timeout(60):
        while sum(call.ended_at is not None for call in fake.calls) < 20:
            await asyncio.sleep(0.01)
    process.send_signal(number)
    out, err = await process.communicate()
    told = json.loads(out)
    assert process.returncode == 130, err
    assert told["interrupted"] is True
    assert told["requests"]["ok"] >= 1
    assert told["requests"]["failed"]["unfinished"] >= 1
