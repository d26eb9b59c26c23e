"""Reading the URL of a replica."""

import pytest

from backends.client import Origin


@pytest.mark.parametrize(
    ("url", "origin", "authority"),
    [
        ("http://10.0.0.11:8000/v1", Origin("http", "10.0.0.11", 8000, "/v1"), "10.0.0.11:8000"),
        ("http://replica", Origin("http", "replica", 80, ""), "replica"),
        ("https://replica/", Origin("https", "replica", 443, ""), "replica"),
        ("HTTPS://Replica:443/a/v1/", Origin("https", "replica", 443, "/a/v1"), "replica"),
        ("http://[::1]:8000/v1", Origin("http", "::1", 8000, "/v1"), "[::1]:8000"),
        ("http://replica:443", Origin("http", "replica", 443, ""), "replica:443"),
    ],
)
def test_a_url_is_read(url, origin, authority):
    """Scheme, host, port and base path, and the Host header that belongs to them."""
    assert Origin.parse(url) == origin
    assert Origin.parse(url).authority == authority


@pytest.mark.parametrize(
    "url",
    [
        "",
        "replica:8000",
        "ftp://replica",
        "http://",
        "http://:8000",
        "http://replica:0",
        "http://replica:65536",
        "http://replica:port",
        "http://user:hush@replica",
        "http://hush@replica",
        "http://replica/v1?key=hush",
        "http://replica/v1#hush",
        "http://replica/v 1",
        "http://replica/\r\nx: hush",
        "http://répliqué/",
        "http://a..b/",
        "http://[::1/",
        "http://" + "a" * 300 + "/",
    ],
)
def test_a_url_that_is_none(url):
    """What cannot be a replica's URL is a ValueError, which does not repeat it: there may be a password in it."""
    with pytest.raises(ValueError) as caught:
        Origin.parse(url)
    assert "hush" not in str(caught.value)
