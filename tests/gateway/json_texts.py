"""JSON as hostile or merely odd clients write it: any white space, any escapes, any key order."""

import json
from typing import Any

from hypothesis import strategies as st

SPACE = st.text(alphabet=" \t\r\n", max_size=3)
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["model", 'a"b', "a\\", "\\", '":1,"', "{", "}]", "\u2028", "😀", "\x00", "é" * 3, "[" * 200]
)
NUMBERS = st.integers(-(10**20), 10**20).map(str) | st.sampled_from(
    ["0", "-0", "1.5", "1e5", "1E-2", "12", "1", "123456789012345678901"]
)


@st.composite
def string(draw: Any, text: str) -> str:
    """The text as a JSON string, some of its characters escaped though they need not be."""
    pieces = ['"']
    for character in text:
        if draw(st.integers(0, 3)) == 0:
            units = character.encode("utf-16-be")
            pieces += [f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)]
        else:
            pieces.append(json.dumps(character, ensure_ascii=False)[1:-1])
    return "".join([*pieces, '"'])


def _array(items: list[tuple[str, str, str]]) -> str:
    return "[" + ",".join(before + item + after for before, item, after in items) + "]"


@st.composite
def _object(draw: Any, values: Any) -> str:
    keys = draw(st.lists(TEXT, max_size=3))
    pairs = [draw(SPACE) + draw(string(key)) + draw(SPACE) + ":" + draw(SPACE) + draw(values) + draw(SPACE) for key in keys]
    return "{" + (",".join(pairs) or draw(SPACE)) + "}"


VALUES = st.recursive(
    st.sampled_from(["null", "true", "false", "{}", "[]", '""', '{"model":"x"}', "[ ]"]) | NUMBERS | TEXT.flatmap(string),
    lambda values: st.lists(st.tuples(SPACE, values, SPACE), max_size=3).map(_array) | _object(values),
    max_leaves=6,
)
"""Any JSON value, as text."""

FIELDS = st.sampled_from(
    ["model", "messages", "stream_options", "priority", "cache_salt", "request_id", "kv_transfer_params", "ec_transfer_params",
     "temperature", "mo", "user", "ä", 'q"', "back\\slash", ""]
)  # fmt: skip
"""Names for the top level, the closed list's among them."""

_TYPED = ("stream", "n", "best_of")  # these cannot hold any value
_NAMES = st.lists(FIELDS | TEXT.filter(lambda name: name not in _TYPED), unique=True, max_size=8)


@st.composite
def member(draw: Any, name: str, value: str) -> str:
    """`"name" : value`, as one client or another writes it."""
    return draw(string(name)) + draw(SPACE) + ":" + draw(SPACE) + value


@st.composite
def bodies(draw: Any, names: st.SearchStrategy[list[str]] = _NAMES) -> tuple[bytes, list[tuple[str, str]]]:
    """A JSON object of unique names, and its members as text in their order."""
    chosen = draw(names)
    style = draw(st.sampled_from(["compact", "spaced", "own"]))
    members = []
    for name in chosen:
        value = draw(VALUES)
        if style == "own":
            members.append((name, draw(member(name, value))))
        else:
            members.append((name, json.dumps(name, ensure_ascii=False) + (": " if style == "spaced" else ":") + value))
    if style == "own":
        inside = ",".join(draw(SPACE) + text + draw(SPACE) for _, text in members) or draw(SPACE)
        whole = draw(SPACE) + "{" + inside + "}" + draw(SPACE)
    else:
        whole = "{" + (", " if style == "spaced" else ",").join(text for _, text in members) + "}"
    return whole.encode(), members
