"""What requests say: lengths, prefixes, blocks, and bodies read from a file."""

import json
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.lab.fake.text import count
from gateway.lab.load.arrivals import Arrival
from gateway.lab.load.bodies import Form, FromFile, Synthetic
from gateway.lab.load.prompts import Lengths, Prefixes, Prompts

NOW = Arrival(0.0)
NO_PREFIXES = Prefixes()


def prompts(lengths="64", prefixes=NO_PREFIXES, salt="abc", seed=1):
    return Prompts(Lengths.parse(lengths), prefixes, salt, random.Random(seed))


def tokens(text):
    return count(text.encode())


@given(st.integers(4, 20_000))
def test_a_prompt_has_the_wanted_length(length):
    """To the token, as fake-vllm counts."""
    prefix, prompt = prompts().next(Arrival(0.0, length))
    assert prefix == ""
    assert tokens(prompt) == length


def test_no_two_prompts_begin_alike():
    """Their first 16 bytes differ within a run, and between runs of another salt."""
    made = prompts()
    begins = {made.next(NOW)[1][:16] for _ in range(1000)} | {prompts(salt="xyz").next(NOW)[1][:16]}
    assert len(begins) == 1001


def test_the_same_seed_and_salt_say_the_same():
    """So that a run can be repeated, also against a warm cache."""
    assert [prompts().next(NOW)] * 2 == [prompts().next(NOW)] * 2
    assert prompts(seed=2).next(NOW) != prompts().next(NOW)


def test_prefixes_are_shared_within_a_group_only():
    """N different prefixes of M tokens are drawn, all of them in time."""
    made = prompts(prefixes=Prefixes(3, 100))
    drawn = [made.next(NOW) for _ in range(100)]
    assert len({prefix for prefix, _ in drawn}) == 3
    assert {tokens(prefix) for prefix, _ in drawn} == {100}
    assert len({prompt for _, prompt in drawn}) == 100


def test_equal_blocks_of_a_trace_are_equal_prefixes():
    """Two requests share as much text as their traces share blocks, and differ after it."""
    made = prompts()
    _, one = made.next(Arrival(0.0, 1200, 1, (0, 1, 2)))
    _, two = made.next(Arrival(0.0, 1500, 1, (0, 1, 3)))
    assert (tokens(one), tokens(two)) == (1200, 1500)
    assert one[: 1024 * 4] == two[: 1024 * 4]
    assert one[1024 * 4 : 1024 * 4 + 16] != two[1024 * 4 : 1024 * 4 + 16]


@pytest.mark.parametrize(
    ("text", "low", "high", "median"),
    [
        ("7", 7, 7, 7),
        ("uniform:10:20", 10, 20, 15),
        ("lognormal:100:0.5", 1, 2_000_000, 100),
        ("lognormal:100:1:120", 1, 120, 100),
    ],
)
def test_lengths_keep_to_their_distribution(text, low, high, median):
    """Fixed, uniform and lognormal draws stay within bounds and around their median."""
    rng = random.Random(5)
    drawn = [Lengths.parse(text).draw(rng) for _ in range(4000)]
    assert low <= min(drawn) <= max(drawn) <= high
    assert statistics.median(drawn) == pytest.approx(median, rel=0.1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "1.5",
        "x",
        "nan",
        "inf",
        "uniform:9:3",
        "uniform:1",
        "lognormal:5:nan",
        "lognormal:5:9",
        "poisson:3",
        "9999999999",
    ],
)
def test_what_is_no_length_is_refused(text):
    """With a message, not with a distribution of nonsense."""
    with pytest.raises(ValueError, match="length"):
        Lengths.parse(text)


def synthetic(form, **options):
    return json.loads(Synthetic(form, prompts(**options), random.Random(1)).next(options.pop("arrival", NOW)))


def test_a_chat_body():
    """The prefix is the system message; streams ask for the usage."""
    body = synthetic(Form("chat", "auto", True, Lengths.parse("5"), ignore_eos=True), prefixes=Prefixes(1, 8))
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body | {"messages": 0} == {
        "messages": 0, "model": "auto", "max_tokens": 5, "ignore_eos": True,
        "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip


def test_a_completions_body_and_the_length_of_a_trace():
    """The trace's output length wins over --max-tokens; without a stream nothing of streams is said."""
    made = Synthetic(Form("completions", "m", False, Lengths.parse("5")), prompts(), random.Random(1))
    body = json.loads(made.next(Arrival(0.0, 20, 33)))
    assert set(body) == {"prompt", "model", "max_tokens", "stream"}
    assert body["max_tokens"] == 33
    assert body["stream"] is False


def test_bodies_from_a_file_take_turns(tmp_path):
    """Their own fields stay, but for what the command line says."""
    path = tmp_path / "bodies.jsonl"
    path.write_text('{"model": "a", "temperature": 0, "max_tokens": 9}\n\n{"model": "b"}\n')
    bodies = FromFile(path, Form("chat", None, True, None), random.Random(1))
    drawn = [json.loads(bodies.next(NOW)) for _ in range(3)]
    assert [body["model"] for body in drawn] == ["a", "b", "a"]
    assert drawn[0]["temperature"] == 0
    assert drawn[0]["max_tokens"] == 9
    assert drawn[0]["stream"] is True
    overruled = FromFile(path, Form("chat", "c", False, Lengths.parse("3")), random.Random(1))
    assert json.loads(overruled.next(NOW)) == {"model": "c", "temperature": 0, "max_tokens": 3, "stream": False}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no bodies"),
        ("[1]\n", "line 1: not a JSON object"),
        ("{}\n", "no model"),
        ('{"model": 3}', "no model"),
        ("{" * 9999, "JSON"),
    ],
)
def test_a_bad_file_of_bodies_is_an_error(tmp_path, text, what):
    """That names the line."""
    (tmp_path / "b").write_text(text)
    with pytest.raises(ValueError, match=what):
        FromFile(tmp_path / "b", Form("chat", None, True, None), random.Random(1))
