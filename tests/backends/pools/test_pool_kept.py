"""What an engine tells of its prefix cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kept import Kept, read_kept

CONFIG = 'vllm:cache_config_info{block_size="16",enable_prefix_caching="%s",num_gpu_blocks="500"} 1.0'
PAGE = "\n".join(
    [
        'vllm:num_requests_running{engine="0"} 1.0',
        'vllm:num_requests_waiting{engine="0"} 0.0',
        CONFIG % "True",
        'vllm:prompt_tokens_total{engine="0"} 900.0',
        'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 1.0',
        'vllm:engine_sleep_state{engine="0",sleep_state="discard_all"} 0.0',
        "process_start_time_seconds 1.7e9",
        "",
    ]
)


def test_a_page_of_vllm_is_read():
    """Its start, its counter, whether it sleeps, and the room in tokens."""
    assert read_kept(PAGE.encode()) == Kept(1.7e9, 900.0, False, 8000)


def test_an_engine_that_keeps_no_prefixes_has_no_room():
    """Its KV cache is large and holds nothing that a later prompt could use."""
    assert read_kept(PAGE.replace(CONFIG % "True", CONFIG % "False").encode()).tokens == 0


def test_one_that_sleeps_says_so():
    """Where no engine of several is awake, all sleep; whoever says nothing of it is awake."""
    asleep = PAGE.replace('awake"} 1.0', 'awake"} 0.0')
    assert read_kept(asleep.encode()).asleep
    assert not read_kept((asleep + 'vllm:engine_sleep_state{engine="1",sleep_state="awake"} 1.0\n').encode()).asleep
    assert not read_kept(b"").asleep


@pytest.mark.parametrize(
    ("before", "after", "newer"),
    [
        (Kept(100.0, 50.0), Kept(100.4, 60.0), False),
        (Kept(100.0, 50.0), Kept(130.0, 60.0), True),
        (Kept(100.0, 50.0), Kept(100.0, 49.0), True),
        (Kept(None, 50.0), Kept(100.0, 50.0), False),
        (Kept(None, 50.0), Kept(None, 0.0), True),
        (Kept(), Kept(), False),
        (Kept(100.0, 50.0), Kept(), False),
    ],
)
def test_a_new_start_shows_in_its_time_or_its_counters(before, after, newer):
    """Either is enough, and what is not told proves nothing."""
    assert after.newer(before) is newer


@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_page_is_read(noise, at):
    """Whatever a page holds, nothing is raised, and room is never negative."""
    page = PAGE.encode()
    read = read_kept(page[:at] + noise + page[at:])
    assert read.tokens is None or read.tokens >= 0
