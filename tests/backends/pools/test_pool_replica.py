import pytest

from backends.replica import Replica


def test_the_api_key_shows_in_no_repr(replica):
    """The key goes into the head lines and nowhere into what is printed or raised."""
    made = replica("s1", api_key="sk-very-secret")
    assert made.authorization == b"Bearer sk-very-secret"
    assert made.head_lines == b" HTTP/1.1\r\nhost: 10.0.0.1:8000\r\nauthorization: Bearer sk-very-secret\r\n"
    assert "secret" not in repr(made)


def test_a_key_that_would_break_the_head_is_refused_without_being_shown(replica):
    """A key with a line break, an odd character or nothing in it is an error, and the error does not quote it."""
    for key in ("sk-abc\r\nx-evil: 1", "sk-abc\x00", "schlüssel", "", "  "):
        with pytest.raises(ValueError) as caught:
            replica("s1", api_key=key)
        assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://10.0.0.1:8000/v1", b"10.0.0.1:8000"),
        ("http://vllm.internal/v1", b"vllm.internal"),
        ("https://vllm.internal/v1", b"vllm.internal"),
        ("https://vllm.internal:8443", b"vllm.internal:8443"),
        ("http://[::1]:8000/v1", b"[::1]:8000"),
    ],
)
def test_the_host_header_names_the_port_only_where_it_is_not_the_default(replica, url, authority):
    """The Host header is the authority of the URL: brackets for IPv6, no default port, no path."""
    made = replica("s1", url)
    assert made.authority == authority
    assert made.head_lines == b" HTTP/1.1\r\nhost: " + authority + b"\r\n"
    assert made.authorization is None


def test_the_path_is_that_of_the_url_unless_given(replica):
    """The base path comes from the URL, and a given one wins."""
    assert replica("s1").path == "/v1"
    assert replica("s1", path="/openai/v1").path == "/openai/v1"


def test_a_new_replica_is_neither_up_nor_ready(replica):
    """Nobody has seen it answer yet."""
    made = replica("s1")
    assert isinstance(made, Replica)
    assert not made.up
    assert not made.ready


def test_bad_news_of_latency_is_believed_sooner_than_good(replica):
    """The average moves further towards a slow sample than towards a fast one."""
    made = replica("s1")
    made.observe_latency(1.0, 10.0)
    assert made.latency == 1.0
    made.observe_latency(3.0, 11.0)
    assert made.latency == 2.0
    made.observe_latency(1.0, 12.0)
    assert 1.5 < made.latency < 2.0


def test_failing_fast_does_not_look_fast(replica):
    """A failure never lowers the latency; a slow failure raises it."""
    made = replica("s1")
    made.observe_latency(1.0, 10.0)
    made.observe_failure(0.001, 11.0)
    assert made.latency == 1.0
    made.observe_failure(60.0, 12.0)
    assert made.latency > 30


def test_failing_fast_is_no_first_measurement(replica):
    """One that was never measured is not fast for having failed at once; that it took long says something."""
    made = replica("s1")
    made.observe_failure(0.001, 11.0)
    assert made.latency_at == float("-inf")
    made.observe_failure(60.0, 12.0)
    assert made.latency == 60.0


def test_a_replica_outside_any_pool_can_change(replica):
    """Its state can be set before a pool hears of it."""
    made = replica("s1")
    made.up = made.draining = True
    assert made.up
    assert made.draining
