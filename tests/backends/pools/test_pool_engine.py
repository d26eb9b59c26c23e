"""What is read out of an engine's metrics page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engine import EngineView, read_engine
from gateway.lab.fake.engine import Engine
from gateway.lab.fake.metrics import Metrics
from gateway.lab.fake.options import Options

CONFIG = b'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="%d",num_gpu_blocks="%s"} 1.0\n'
ALIVE = b"vllm:num_requests_running 3.0\nvllm:num_requests_waiting 2.0\n"


def test_the_page_of_a_vllm_look_alike_is_understood():
    """Running, waiting, preemptions, the KV cache's use and size, under the names of the version that we imitate."""
    engine = Engine(Options(kv_blocks=4096), metrics := Metrics('odd "name"'), lambda: 0.0, lambda: None)
    engine.running, engine.waiting, engine.cache.private = 7, 2, 1024
    assert read_engine(metrics.exposition(engine).encode()) == EngineView(7.0, 2.0, 0.0, 0.25, 65536.0)


def test_data_parallel_engines_are_one_replica():
    """Counts are sums, the use of the cache is that of the fullest."""
    page = (
        b'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 4.0\n'
        b'vllm:num_requests_waiting{engine="0"} 0.0\nvllm:num_requests_waiting{engine="1"} 5.0\n'
        b'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.9\n'
        b'vllm:num_preemptions_total{engine="0"} 1.0\nvllm:num_preemptions_total{engine="1"} 2.0\n'
    ) + (CONFIG % (0, b"100")) + (CONFIG % (1, b"300"))  # fmt: skip
    assert read_engine(page) == EngineView(7.0, 5.0, 3.0, 0.9, 6400.0)


def test_older_names_are_understood():
    """The cache's use had another name before."""
    assert read_engine(ALIVE + b"vllm:gpu_cache_usage_perc 0.5\n") == EngineView(3.0, 2.0, None, 0.5, None)


@pytest.mark.parametrize(
    "page",
    [b"", b"vllm:num_requests_running 3\n", b"vllm:num_requests_waiting 3\n", b"llamacpp:requests_processing 1\n", b"<html>"],
)
def test_other_engines_tell_nothing(page):
    """Without both what runs and what waits there is no view."""
    assert read_engine(page) is None


@pytest.mark.parametrize("blocks", [b"None", b"", b"-5", b"99999999999999999999", b"1e3", b"0"])
def test_a_size_that_cannot_be_read_is_unknown(blocks):
    """An engine that has not measured its cache yet says None."""
    view = read_engine(ALIVE + CONFIG % (0, blocks))
    assert view is not None
    assert view.kv_tokens is None


@given(
    st.lists(
        st.sampled_from([ALIVE, CONFIG % (0, b"7"), b"vllm:kv_cache_usage_perc ", b"1e999", b"{", b'"', b"\\", b"\n", b"\xff"])
    )
)
def test_no_page_breaks_it(parts):
    """Whatever comes, an answer comes, and its numbers are within reason."""
    view = read_engine(b"".join(parts))
    if view is not None:
        assert view.usage is None or 0 <= view.usage <= 1
        assert view.kv_tokens is None or 0 < view.kv_tokens < 1e18
