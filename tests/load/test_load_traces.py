"""Public traces, in their own columns."""

import gzip
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.lab.load import traces
from gateway.lab.load.arrivals import Arrival

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\r\n"
AZURE_2024 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:00.509930+00:00,2399,6\n"
)
BURST = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,0,1087,API log\n"
)
MOONCAKE = (
    '{"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [0, 7]}\n'
    '{"timestamp": 0, "input_length": 500, "output_length": 9, "hash_ids": [0]}\n'
)
PLAIN = '\n{"time": 1.5, "prompt_tokens": 10}\n\n{"time": 2, "output_tokens": 3}\n'


@pytest.fixture
def read(tmp_path):
    def read(text, name="trace", **options):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return traces.read(path, **options)

    return read


@pytest.mark.parametrize(("text", "gap"), [(AZURE, 4.314579), (AZURE_2024, 0.5)])
def test_azure(read, text, gap):
    """Dates, with and without a zone, with more digits than microseconds have."""
    first, second = read(text)
    assert second.at - first.at == pytest.approx(gap, abs=1e-6)
    assert (first.prompt_tokens, first.output_tokens) in {(374, 44), (2162, 5)}


def test_burstgpt(read):
    """Seconds; a failed request, which has no response tokens, arrives all the same and asks for one."""
    assert read(BURST) == [Arrival(5.0, 472, 18), Arrival(45.0, 1087, 1)]


def test_mooncake(read):
    """Milliseconds, put in order, with the blocks of the prompt."""
    assert read(MOONCAKE) == [Arrival(0.0, 500, 9, (0,)), Arrival(3.0, 600, 5, (0, 7))]


def test_own_form(read):
    """JSON lines with seconds and what lengths there are; empty lines are nothing."""
    assert read(PLAIN) == [Arrival(1.5, 10), Arrival(2.0, None, 3)]


def test_unit_limit_and_gzip(read):
    """The unit overrules the form, the limit bounds what is read, and a name in .gz is unpacked."""
    assert read(MOONCAKE, "t.jsonl.gz", unit="s", limit=1)[0].at == 3000.0


def test_spread_keeps_order_and_bounds(read):
    """Coarse times are spread by a seeded amount, forward only, and stay in order."""
    rows = [Arrival(3.0 * (n // 10)) for n in range(50)]
    spread = traces.spread(rows, 3.0, random.Random(1))
    assert spread == traces.spread(rows, 3.0, random.Random(1))
    assert [row.at for row in spread] == sorted(row.at for row in spread)
    assert len({row.at for row in spread}) == 50
    assert max(row.at for row in spread) < 15.0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no requests"),
        ("a,b\n1,2\n", "line 2 has no time"),
        ("timestamp,input_length\nsoon,2\n", "line 2: 'soon' is not a time"),
        ("timestamp\nnan\n", "not a time"),
        ("timestamp\n1e999\n", "not a time"),
        ("timestamp,input_length\n1,-3\n", "not a number of tokens"),
        ("timestamp,input_length\n1,1e99\n", "not a number of tokens"),
        ('{"timestamp": 1}\n{"timestamp"\n', "line 2 is not JSON"),
        ('{"timestamp": 1}\n[1]\n', "line 2 is not a JSON object"),
        ('{"timestamp": 1, "hash_ids": ["x"]}\n', "hash_ids"),
        ('{"timestamp": {"a": 1}}\n', "not a time"),
        ("{" + "[" * 100_000 + "\n", "line 1 is not JSON"),
        ("timestamp\n" + "1" * (1 << 20) + "\n", "longer than"),
    ],
)
def test_what_is_no_trace_is_named_with_its_line(read, text, what):
    """One clear error, whatever is in the file."""
    with pytest.raises(traces.TraceError, match=what):
        read(text)


@pytest.mark.parametrize(
    ("name", "data"),
    [("t", b"\xff\xfe\x00x"), ("t.gz", b"no gzip"), ("u.gz", gzip.compress(b"timestamp\n1\n" * 99, mtime=0)[:-9])],
    ids=["bytes", "no gzip", "cut gzip"],
)
def test_what_is_no_text_is_an_error_too(tmp_path, name, data):
    """Neither bytes without meaning nor a broken archive is a traceback."""
    (tmp_path / name).write_bytes(data)
    with pytest.raises(traces.TraceError):
        traces.read(tmp_path / name)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    """Nothing but a TraceError, or rows in order."""
    path = tmp_path_factory.mktemp("trace") / "t"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        rows = traces.read(path)
    except traces.TraceError:
        return
    assert rows == sorted(rows, key=lambda row: row.at)


@pytest.mark.parametrize(
    ("name", "count", "first"),
    [
        ("mooncake/conversation_trace.jsonl", 12_031, (6758, 500)),
        ("azure-llm-2023/AzureLLMInferenceTrace_conv.csv", 19_366, (374, 44)),
    ],
)
def test_the_published_files(name, count, first):
    """The traces as they are published, where they are at hand."""
    path = Path(__file__).parents[3] / "shared" / "data" / "traces" / name
    if not path.exists():
        pytest.skip("the published traces are not there")
    rows = traces.read(path)
    assert len(rows) == count
    assert (rows[0].prompt_tokens, rows[0].output_tokens) == first
