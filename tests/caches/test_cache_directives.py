"""What the headers of a request say about caching."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.directives import MOST_TAGS, PLAIN, BadDirective, Directives, directives


@pytest.mark.parametrize(
    ("ours", "plain", "expected"),
    [
        (None, None, Directives()),
        ("", "", Directives()),
        ("no-cache", None, Directives(no_cache=True)),
        (None, "no-cache", Directives(no_cache=True)),
        ("No-Store", None, Directives(no_store=True)),
        ("only-if-cached", None, Directives(only_if_cached=True)),
        ("no-cache", "no-store", Directives(no_cache=True, no_store=True)),
        (" no-cache ,\tNO-STORE", None, Directives(no_cache=True, no_store=True)),
        (None, "max-age=0", Directives(no_cache=True)),
        (None, 'Max-Age = "00"', Directives(no_cache=True)),
        (None, "max-age=10", Directives(max_age=10)),
        ("max-age=10", "max-age=5", Directives(max_age=5)),
        ("max-age=10", "max-age=50", Directives(max_age=10)),
        ("max-age=10, max-age=0", None, Directives(no_cache=True)),
        ("store, ttl=60, tag=release-7, tag=eu:Berlin", None, Directives(store=True, ttl=60, tags=("release-7", "eu:Berlin"))),
        ('TTL="60", Tag = "A.b_c"', None, Directives(ttl=60, tags=("A.b_c",))),
        ("ttl=60,ttl=30", None, Directives(ttl=30)),
        ("ttl=0", None, Directives(no_store=True)),
        ("tag=a, tag=b, tag=a", None, Directives(tags=("a", "b"))),
        ("tag=" + "x" * 64, None, Directives(tags=("x" * 64,))),
        (None, "nocache, no_cache, no-cache-please, x=1", Directives()),
        (",, no-store ,", "=,=", Directives(no_store=True)),
    ],
)
def test_directives_are_read_from_both_headers(ours, plain, expected):
    """Comma lists, names in any case, empty parts ignored; the stricter of two numbers counts."""
    assert directives(ours, plain) == expected


@pytest.mark.parametrize(
    "plain",
    [
        "max-age=", "max-age", "max-age=-0", "max-age=\u0660", "max-age=1.5", "max-age=" + "9" * 12, "no-store=1",
        "store", "ttl=5", "tag=a", "tag=!", "s-maxage=0, private, no-transform", "min-fresh=5", "x," * 32 + "no-store",
    ],
)  # fmt: skip
def test_what_makes_no_sense_in_cache_control_is_ignored(plain):
    """Proxies and libraries write that header: a value that makes no sense, and what HTTP does not define, change nothing."""
    assert directives(None, plain) is PLAIN


@pytest.mark.parametrize(
    ("ours", "message"),
    [
        *((f"max-age{value}", "seconds") for value in ("", "=", "=-0", "=\u0660", "=1.5", "=5s", "=" + "9" * 12)),
        *((f"ttl{value}", "seconds") for value in ("", "=", "=never")),
        *((f"{name}=1", "no value") for name in ("no-cache", "no-store", "only-if-cached", "store")),
        *((f"tag{value}", "tag") for value in ("", "=", "=a b", "=\u00e9", "=a/b", "=" + "x" * 65)),
        ("no-cache, tag=!", "tag"),
        *((word, "no such word") for word in ("nostore", "no_store", "no-cache no-store", "No-Store; x", "x=1", "=1")),
        (",".join(f"tag={n}" for n in range(MOST_TAGS + 1)), "at most 8 tags"),
        ("x," * 32 + "no-cache", "at most 32"),
    ],
)
def test_what_makes_no_sense_in_our_header_is_refused(ours, message):
    """A tag or a time that would be lost in silence is an error that says what is wrong."""
    with pytest.raises(BadDirective, match=message):
        directives(ours, None)


def test_as_many_tags_as_are_allowed():
    """The bound is inclusive, and a tag that is said twice counts once."""
    tags = [f"t{n}" for n in range(MOST_TAGS)]
    assert directives(",".join(f"tag={tag}" for tag in [*tags, *tags]), None).tags == tuple(tags)


words = st.sampled_from(["no-cache", "max-age=5", "ttl=", "tag=a", "tag", "store", ",", "=", '"', " "]) | st.text(max_size=8)
headers = st.none() | st.lists(words, max_size=40).map(",".join) | st.text(max_size=200)


@given(headers, headers)
def test_whatever_is_said_is_read_or_refused(ours, plain):
    """Whatever a client writes, it gets directives or the one error; and `cache-control` is never an error."""
    assert isinstance(directives(None, plain), Directives)
    try:
        said = directives(ours, plain)
    except BadDirective:
        return
    assert len(said.tags) <= MOST_TAGS
    assert said.ttl is None or said.ttl > 0


@given(headers)
def test_nothing_said_is_the_one_plain_value(plain):
    """Who says nothing that counts gets the very same object, so that asking for it costs no comparison."""
    said = directives(None, plain)
    assert (said == PLAIN) == (said is PLAIN)
