"""Any text gives a config or a list of errors, never anything else."""

import re
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.client import Origin
from gateway.config import Config, ConfigError, effective, parse, reference
from gateway.config.kinds import Unfit, Url

EXAMPLE = (Path(__file__).parents[2] / "config.yaml").read_text()
WORDS = sorted(
    {word for row in reference() for word in re.findall(r"\w+", row.path)}
    | {"auto", "memory", "rules", "${A}", "${A:-1}", "*", "<<"}
)

URL_PIECES = ["http://", "https://", "h", ".", "..", ":", "80", "/", "v1", "@", "[::1]", "[", "é", "%41", "x" * 64, "-"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([*WORDS, "30s", "1MiB", "http://h/v1", "2026-01-01", "0" * 64]),
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=6),
    max_leaves=40,
)


def check(text):
    try:
        config = parse(text, env={"A": "7"})
    except ConfigError as error:
        lines = [str(problem) for problem in error.errors]
    else:
        assert isinstance(config, Config)
        lines = effective(config).splitlines()
    assert lines
    assert all(line.isprintable() for line in lines)


@given(st.lists(st.sampled_from(URL_PIECES), max_size=7))
@settings(max_examples=300, deadline=None)
def test_any_url_that_the_config_takes_is_one_for_the_client(pieces):
    """So that nothing is left to fail when a gateway is wired."""
    try:
        url = Url().read("".join(pieces))
    except Unfit:
        return
    assert Origin.parse(url).port


@given(st.text(max_size=300))
@settings(max_examples=120, deadline=None)
def test_any_text(text):
    """Mostly no YAML at all."""
    check(text)


@given(
    st.lists(
        st.sampled_from(
            [
                *WORDS,
                ":",
                " ",
                "\n",
                "\n  ",
                "- ",
                "[",
                "]",
                "{",
                "}",
                "&a ",
                "*a",
                "!!x ",
                "|\n",
                '"',
                "'",
                "#",
                ",",
                "? ",
                "\t",
                "---\n",
                "%",
                "@",
            ]
        ),
        max_size=60,
    )
)
@settings(max_examples=120, deadline=None)
def test_any_pieces_of_yaml(pieces):
    """Mostly broken YAML."""
    check("".join(pieces))


@given(trees)
@settings(max_examples=120, deadline=None)
def test_any_tree(tree):
    """Good YAML with the right words in the wrong places."""
    check(yaml.safe_dump(tree, allow_unicode=True))


@given(
    st.dictionaries(
        st.sampled_from([row.path for row in reference() if "." not in row.path and "[" not in row.path]), trees, max_size=6
    )
)
@settings(max_examples=120, deadline=None)
def test_any_section(sections):
    """Around models that are good."""
    models = 'models: [{name: a, replicas: [{name: r, url: "http://h/v1"}]}]\n'
    check(models + (yaml.safe_dump(sections) if sections else ""))


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_any_small_damage(data):
    """The example with a piece cut out or put in."""
    at = data.draw(st.integers(0, len(EXAMPLE)))
    cut = data.draw(st.integers(0, 12))
    check(EXAMPLE[:at] + data.draw(st.text(max_size=3) | st.sampled_from(WORDS)) + EXAMPLE[at + cut :])
