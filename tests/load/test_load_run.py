"""Whole runs against real servers: what is counted, and what is never told."""

import asyncio
import hashlib
import json

import pytest

pytest.importorskip("hdrh.histogram", reason="hdrhistogram is not installed (the extra `load`)", exc_type=ImportError)

import load_talk as talk

from gateway.app import Gateway
from gateway.config import parse
from gateway.lab.fake import FakeVLLM, Options
from gateway.lab.load.measures import Measures
from gateway.lab.load.plan import plan_of
from gateway.lab.load.probe import ProbeFailed
from gateway.lab.load.report import Course, document
from gateway.lab.load.runner import run
from gateway.lab.load.table import table

SECRET = "tg-a-secret-of-a-tenant"


async def loaded(url, *arguments, environ=None, say=lambda _: None):
    """A run in this loop: what it measured, and the document."""
    plan = plan_of(talk.parsed("--url", url, *arguments), environ or {})
    measures = Measures(plan.slo)
    ran = await run(plan, measures, say)
    return measures, document(measures, Course(plan.parameters, "", ran.wall, ran.cpu, ran.interrupted, plan.fail_under))


FEW = ("--model", "fake", "--rate", "400", "--requests", "20")


@pytest.fixture
async def fake():
    async with FakeVLLM(Options(tokens=9)) as fake:
        yield fake


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_all_is_counted_as_the_server_told_it(fake, endpoint):
    """Requests, tokens and latencies; the probe and the warm-up are not among them."""
    measures, told = await loaded(fake.url, *FEW, "--endpoint", endpoint, "--warmup", "10ms", "--slo", "ttft=1m,tpot=1m")
    assert told["requests"] == {"arrivals": 20, "dropped": 0, "dropped_in_warmup": 0, "ok": 20, "failed": {}}
    assert told["tokens"]["output"] == 20 * 9
    assert told["tokens"]["prompt"] >= 20 * 256
    assert told["goodput"]["share"] == 1.0
    assert told["statuses"] == {"200": 20}
    assert {name: told["latency_ms"][name]["count"] for name in ("ttft", "tpot", "e2e", "lag")} == dict.fromkeys(
        ("ttft", "tpot", "e2e", "lag"), 20
    )
    assert measures.histograms["ttft"].longest <= measures.histograms["e2e"].longest
    assert len(fake.calls) > 21


async def test_without_a_stream(fake):
    """Whole answers have an end and tokens, and no TTFT."""
    _, told = await loaded(fake.url, *FEW, "--no-stream", "--max-tokens", "4")
    assert told["tokens"]["output"] == 80
    assert told["latency_ms"]["e2e"]["count"] == 20
    assert told["latency_ms"]["ttft"]["count"] == 0
    assert "TTFT" not in table(told)


@pytest.mark.parametrize(
    ("fault", "failed", "code"),
    [
        ({"status": 429, "body": {"error": {"message": "m", "type": "t", "param": None, "code": "rate_limit_exceeded"}}},
         "http_error", "rate_limit_exceeded"),
        ({"status": 503, "body": "<html>"}, "http_error", "http_503"),
        ({"cut_after_tokens": 3}, "cut", "connection_broken"),
        ({"drop_done": True}, "cut", "no_done"),
        ({"error_in_stream": 2}, "stream_error", "500"),
        ({"close_before_headers": True}, "broken", "connection_broken"),
    ],
)  # fmt: skip
async def test_what_goes_wrong_is_counted_by_name(fake, fault, failed, code):
    """Errors before and in a stream, cuts and missing ends are told apart, and fail the goodput."""
    fake.faults.add(**fault, times=5)
    measures, told = await loaded(fake.url, *FEW, "--no-probe", "--slo", "e2e=1m")
    assert told["requests"]["failed"] == {failed: 5}
    assert list(told["errors"]) == [code]
    assert told["goodput"]["good"] == told["requests"]["ok"] == 15
    assert measures.histograms["e2e"].count == 15


async def test_a_request_has_a_timeout(fake):
    """A server that says nothing ends as that, by its name."""
    fake.faults.add(hang_before_headers=True, times=2)
    _, told = await loaded(fake.url, *FEW, "--no-probe", "--timeout", "3s")
    assert told["requests"]["failed"] == {"timeout": 2}
    assert told["errors"] == {"timeout_total": 2}


async def test_through_the_gateway(fake, tmp_path):
    """A key from the environment opens it, and its headers say where requests went."""
    config = parse(
        f"""
server: {{port: 0}}
models: [{{name: m, tier: small, served_name: fake, context: 32768, replicas: [{{name: r1, url: "{fake.url}"}}]}}]
plans: {{pro: {{rpm: 100_000}}}}
tenants: [{{name: acme, plan: pro, keys: [{{id: k1, sha256: {hashlib.sha256(SECRET.encode()).hexdigest()}}}]}}]
keys: {{path: {tmp_path / "keys.json"}}}
""",
        tmp_path / "config.yaml",
    )

    class Quiet:
        def write(self, facts):
            pass

        def close(self):
            pass

    gateway = Gateway(config, Quiet())
    await gateway.start()
    try:
        async with asyncio.timeout(10):
            while not all(replica.up for station in gateway.parts.lanes.values() for replica in station.pool.replicas):
                await asyncio.sleep(0.005)
        url = f"http://127.0.0.1:{gateway.port}"
        _, told = await loaded(url, "--rate", "200", "--requests", "10", environ={"TIERGATE_API_KEY": SECRET})
        assert told["requests"]["ok"] == 10
        assert told["tiergate"]["tier"] == {"small": 10}
        assert told["tiergate"]["replica"] == {"r1": 10}
        assert sum(told["tiergate"]["cache"].values()) == 10
        with pytest.raises(ProbeFailed, match="refuses the key"):
            await loaded(url, "--rate", "200", "--key", "tg-wrong")
    finally:
        await gateway.stop()


def answer(body, status="200 OK", headers=""):
    return f"HTTP/1.1 {status}\r\n{headers}content-length: {len(body)}\r\n\r\n{body}".encode()


GOOD = 'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n'


async def test_keys_and_headers_take_turns_and_stay_secret(serve, tmp_path):
    """Every key of the file is used; the document tells their number and the headers' names."""

    async def talk_back(_, writer):
        writer.write(answer(GOOD, headers="x-tiergate-tier: small\r\nx-tiergate-cache: bypass; reason=stream\r\n"))

    server = await serve(talk_back)
    (tmp_path / "keys").write_text(f"# two tenants\n{SECRET}-1\n\n{SECRET}-2\n")
    arguments = ("--rate", "300", "--requests", "10", "--keys", str(tmp_path / "keys"), "-H", "x-team: s3cr3t", "--no-probe")
    _, told = await loaded(server.url, *arguments)
    assert told["requests"]["ok"] == 10
    for number in (1, 2):
        assert sum(f"authorization: Bearer {SECRET}-{number}\r\n".encode() in request for request in server.requests) == 5
    assert all(b"x-team: s3cr3t\r\n" in request for request in server.requests)
    assert told["tiergate"] == {"cache": {"bypass": 10}, "tier": {"small": 10}}
    assert (told["parameters"]["keys"], told["parameters"]["headers"]) == (2, ["x-team"])
    for text in (json.dumps(told), table(told), repr(plan_of(talk.parsed("--url", server.url, *arguments), {}))):
        assert SECRET not in text
        assert "s3cr3t" not in text


async def test_a_server_that_repeats_the_key_is_not_repeated(serve):
    """Neither as an error code or a label in the document nor in the probe's message."""

    async def talk_back(_, writer):
        body = json.dumps({"error": {"code": f"bad {SECRET}", "message": f"no {SECRET}"}})
        writer.write(answer(body, "400 Bad Request", f"x-tiergate-tier: {SECRET}\r\n"))

    server = await serve(talk_back)
    arguments = (server.url, "--rate", "300", "--requests", "3", "--key", SECRET, "-H", "x-a: b")
    with pytest.raises(ProbeFailed) as caught:
        await loaded(*arguments)
    _, told = await loaded(*arguments, "--no-probe")
    assert SECRET not in str(caught.value) + json.dumps(told)
    assert told["errors"] == {"(withheld: it repeats a secret)": 3}


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (answer("{}", "401 Unauthorized"), "refuses the key"),
        (answer('{"error": {"message": "no such model"}}', "404 Not Found"), "answers 404: no such model"),
        (answer("hello"), "not as an OpenAI-compatible server"),
        (answer('{"error": {"message": "\\u001b[31mred\\n"}}', "500 X"), "500: .\\[31mred"),
        (b"SSH-2.0-OpenSSH\r\n", "no answer"),
    ],
)
async def test_the_probe_says_what_is_wrong(serve, reply, what):
    """In one line that can be printed, whatever the server says."""

    async def talk_back(_, writer):
        writer.write(reply)

    server = await serve(talk_back)
    with pytest.raises(ProbeFailed, match=what) as caught:
        await loaded(server.url, "--rate", "1")
    assert str(caught.value).isprintable()


async def test_a_busy_server_passes_the_probe_with_a_word(serve):
    """429 and 503 may be what the run is for."""

    async def talk_back(_, writer):
        writer.write(answer("{}", "503 Busy"))

    server, said = await serve(talk_back), []
    _, told = await loaded(server.url, "--rate", "300", "--requests", "3", say=said.append)
    assert told["requests"]["failed"] == {"http_error": 3}
    assert said == ["the probe was answered 503"]


async def test_the_first_token_is_timed_when_it_came_with_the_head(serve):
    """A whole stream in one read, as from a cache, still has its first token and its end."""

    async def talk_back(_, writer):
        writer.write(answer(GOOD))

    server = await serve(talk_back)
    measures, told = await loaded(server.url, "--rate", "300", "--requests", "5")
    assert told["latency_ms"]["ttft"]["count"] == 5
    assert measures.output_tokens == 5


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "either --rate"),
        (("--rate", "1", "--trace", "x"), "either --rate"),
        (("--trace", "/nowhere"), "No such file"),
        (("--rate", "1", "--fail-under", "0.9"), "give an --slo"),
        (("--rate", "1", "--no-stream", "--slo", "ttft=1s"), "no TTFT"),
        (("--rate", "1", "--key", "a b"), "printable ASCII"),
        (("--rate", "1", "--key", "a\r\nx: y"), "printable ASCII"),
        (("--rate", "1", "--url", "ftp://x"), "http"),
        (("--rate", "1", "--url", "http://me:pw@x/v1"), "user or a password"),
        (("--rate", "1", "--max-inflight", "999999999"), "ulimit -n"),
    ],
)
def test_a_mistake_is_found_before_anything_is_sent(arguments, what):
    """With a word on what to do."""
    with pytest.raises((ValueError, OSError), match=what):
        plan_of(talk.parsed(*arguments), {})


@pytest.mark.parametrize(
    "arguments",
    [("-H", "no-colon"), ("-H", "a: b\r\nc: d"), ("-H", "content-length: 5"), ("--rate", "nan"), ("--rate", "0"),
     ("--requests", "0"), ("--duration", "0s"), ("--salt", "a b"), ("--slo", "p99=1"), ("--fail-under", "2"),
     ("--prompt-tokens", "many")],
)  # fmt: skip
def test_an_argument_that_means_nothing_is_refused(arguments, capsys):
    """By the parser, with exit code 2."""
    with pytest.raises(SystemExit) as caught:
        talk.parsed(*arguments)
    assert caught.value.code == 2
    assert arguments[0] in capsys.readouterr().err
