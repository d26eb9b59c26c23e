import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.gauges import WAITING, read_gauge

PAGE = b"""# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_running{engine="0",model_name="m"} 7.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 9.0
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting_total 11.0
"""


def test_the_gauge_is_found_among_its_likes():
    """Only the gauge of exactly that name is read, not its comments and not names that begin alike."""
    assert read_gauge(PAGE, WAITING) == 3.0


def test_the_engines_of_one_server_are_added_up():
    """A server with several engines has the sum of their queues."""
    page = PAGE + b'vllm:num_requests_waiting{engine="1",model_name="m"} 4 1700000000000'
    assert read_gauge(page, WAITING) == 7.0


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"vllm:num_requests_waiting 2", 2.0),
        (b"vllm:num_requests_waiting{} 2\r\n", 2.0),
        (b'vllm:num_requests_waiting{model_name="a } 9 \\" b"} 2e1\n', 20.0),
        (b'vllm:num_requests_waiting{model_name="a', None),
        (b"vllm:num_requests_waiting", None),
        (b"vllm:num_requests_waiting NaN\n", None),
        (b"vllm:num_requests_waiting +Inf\n", None),
        (b"vllm:num_requests_waiting -3\n", None),
        (b"vllm:num_requests_waiting 1e300\n", None),
        (b"vllm:num_requests_waiting twelve\n", None),
        (b"vllm:num_requests_waiting " + b"9" * 5000, None),
        (b'vllm:num_requests_waiting{x="' + b"y" * 100_000 + b'"} 3\n', None),
        (b"other_vllm:num_requests_waiting 5\n", None),
        (b"", None),
        (b"<html>404</html>", None),
    ],
)
def test_odd_lines(line, value):
    """A line is read as the exposition format says, and what is not a sane number is not one."""
    assert read_gauge(line, WAITING) == value


def test_a_page_of_a_million_samples_is_not_believed():
    """A page that repeats the gauge beyond all reason gives nothing."""
    assert read_gauge(b"vllm:num_requests_waiting 1\n" * 35_000, WAITING) is None


@settings(deadline=None)
@given(
    st.binary(max_size=200) | st.lists(st.sampled_from([WAITING, b"{", b"}", b'"', b"\\", b" ", b"\n", b"1", b"="])).map(b"".join)
)
def test_nothing_makes_it_raise(text):
    """Whatever the bytes are, the answer is a number that is not negative, or none."""
    value = read_gauge(text, WAITING)
    assert value is None or value >= 0
