"""Labelled pairs in all their forms, and what is said of those that cannot be read."""

import gzip
import hashlib
import json

import pytest

from gateway.lab.cacheeval import formats, opening
from gateway.lab.cacheeval.formats import load
from gateway.lab.cacheeval.pairs import BadData, Kind, Pair


def write(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def lines(*items):
    return "".join(json.dumps(item) + "\n" for item in items)


def said(*texts):
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]


def test_json_lines(tmp_path):
    """Texts a and b with their label and category; ambiguous ones are left out, and counted."""
    text = lines(
        {"id": 1, "a": "one", "b": "uno", "same_answer": True, "category": "crosslang"},
        {"a": "one", "b": "two", "same_answer": False},
        {"a": "one", "b": "an", "same_answer": True, "ambiguous": "complementary"},
    )
    data = load(write(tmp_path / "pairs.jsonl", text))
    assert data.pairs == (Pair("one", "uno", same=True, category="crosslang"), Pair("one", "two", same=False))
    assert (data.kind, data.wanted, data.traps, data.left_out) == (Kind.PAIRS, 1, 1, 1)
    assert data.sources[0].sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("name", ["pairs.json", "pairs.txt"])
@pytest.mark.parametrize("squeeze", [bytes, gzip.compress])
def test_a_form_is_told_by_content(tmp_path, name, squeeze):
    """A JSON array with text_a, text_b and label, gzipped or not, whatever the file is called."""
    items = [{"text_a": "x", "text_b": "y", "label": 1}, {"text_a": "x", "text_b": "z", "label": 0}]
    data = load(write(tmp_path / name, squeeze(json.dumps(items, indent=1).encode())))
    assert data.pairs == (Pair("x", "y", same=True), Pair("x", "z", same=False))


def test_a_table_of_lookups(tmp_path):
    """Origins are stored and similar ones asked, so every pair is a right one."""
    data = load(write(tmp_path / "mock.json", json.dumps([{"origin": "o", "similar": "s"}])))
    assert (data.kind, data.pairs) == (Kind.LOOKUPS, (Pair("o", "s", same=True),))


def test_tab_separated_lines(tmp_path):
    """Three columns without a header; a text may begin like JSON, and hold separators that are no line feeds."""
    data = load(write(tmp_path / "lcqmc.txt", "{a}\tb\u2028c\t1\r\n[d]\te\t0\n\n"))
    assert data.pairs == (Pair("{a}", "b\u2028c", same=True), Pair("[d]", "e", same=False))


def test_tab_separated_lines_with_a_header(tmp_path):
    """Columns are found by name; a missing sentence is written NS, and left out."""
    data = load(write(tmp_path / "paws.tsv", "\ufeffid\tsentence1\tsentence2\tlabel\n1\tx\ty\t0\n2\tNS\tz\t0\n"))
    assert (data.pairs, data.left_out) == ((Pair("x", "y", same=False),), 1)


def test_conversations(tmp_path):
    """The last user messages are compared, and only where all the rest is the same; keys may come in any order."""
    other_order = [{key: message[key] for key in reversed(message)} for message in said("hi", "yes?", "now stop")]
    text = lines(
        {"a": said("hi", "yes?", "stop now"), "b": other_order, "same_answer": True, "subtype": "same"},
        {"a": said("hi", "yes?", "stop"), "b": said("hi", "yes!", "stop"), "same_answer": False},
    )
    data = load(write(tmp_path / "conv.jsonl", text))
    assert data.kind is Kind.CONVERSATIONS
    assert data.pairs == (
        Pair("stop now", "now stop", same=True, category="same"),
        Pair("stop", "stop", same=False, barred="history"),
    )


def test_what_the_product_does_not_compare_is_barred(tmp_path):
    """By the product's own rule, which names the reason: nothing is said last by the user, or it is no text."""
    image = [{"role": "user", "content": [{"type": "image_url"}]}]
    texts = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    text = lines(
        {"a": said("hi", "Sure"), "b": said("hi", "Sure"), "same_answer": True},
        {"a": image, "b": said("hi"), "same_answer": False},
        {"a": said("hi"), "b": texts, "same_answer": True},
    )
    assert [pair.barred for pair in load(write(tmp_path / "c", text)).pairs] == ["last message is not the user's", "not text", ""]


def test_a_folder_is_one_set(tmp_path):
    """All its files but hidden ones, by name."""
    write(tmp_path / "b.jsonl", lines({"a": "3", "b": "4", "same_answer": False}))
    write(tmp_path / "a.tsv", "1\t2\t1\n")
    write(tmp_path / ".hidden", b"\xff")
    data = load(tmp_path)
    assert [pair.a for pair in data.pairs] == ["1", "3"]
    assert [source.name for source in data.sources] == ["a.tsv", "b.jsonl"]


GOOD = '{"a": "x", "b": "y", "same_answer": true}\n'
ONE = '{"a": "x", "b": "y", "same_answer": %s}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "nothing in it"),
        ("[]", "no pairs in it"),
        (GOOD + "{", ":2: not JSON"),
        ("[{]", ": not JSON"),
        ("[" * 200_000, ": not JSON"),
        (GOOD + "\n3\n", ":3: not an object"),
        ("[1]", ": element 1: not an object"),
        (GOOD + ONE % '"maybe"', ":2: the label 'maybe' is not known"),
        (ONE % "null", ":1: the label 'None' is not known"),
        (ONE % "2", ":1: the label '2' is not known"),
        (ONE % "0.5", ":1: the label '0.5' is not known"),
        (ONE % "[1]", ":1: the label '[1]' is not known"),
        ('{"a": "x", "b": "y"}', ":1: neither a, b and same_answer"),
        ('{"a": "x", "same_answer": true}', ":1: the second text is missing, or no text"),
        ('{"a": " ", "b": "y", "same_answer": true}', ":1: the first text is missing, or no text"),
        ('{"a": 1, "b": "y", "same_answer": true}', ":1: the first text is missing, or no text"),
        ('{"origin": "x"}', ":1: similar is missing, or no text"),
        ('{"text_a": "x", "text_b": "y"}', ":1: the label 'None' is not known"),
        (GOOD + '{"origin": "x", "similar": "y"}', ": lookups and pairs in one set"),
        ('{"a": [], "b": [], "same_answer": true}', ":1: a conversation has 1 to 1000 messages"),
        ('{"a": [1], "b": [1], "same_answer": true}', ":1: a message is an object"),
        ('{"a": [{"role": "user", "content": "x"}], "b": "x", "same_answer": true}', ":1: the first text is missing, or no text"),
        ("a\tb\t1\na\tb\n", ":2: 2 columns where 3 are wanted"),
        ("a\tb\tc\td\n", ":1: 4 columns where 3 are wanted"),
        ("a\tb\tyes\n", ":1: the label 'yes' is not known"),
        ("a\t\t1\n", ":1: the second text is missing, or no text"),
        ("sentence1\tsentence2\tlabel\na\tb\n", ":2: 2 columns where 3 are wanted"),
        ("sentence1\tsentence2\tlabel\na\tb\t-\n", ":2: the label '-' is not known"),
        (b"a\tb\t1\n\xff\tb\t1\n", ":2: not UTF-8"),
        (gzip.compress(GOOD.encode(), mtime=0)[:-9], ": a broken gzip file"),
        (b"\x1f\x8bnonsense", ": a broken gzip file"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_with_file_and_line(tmp_path, content, message):
    """One line that begins with the file, and says where in it and why."""
    file = write(tmp_path / "data", content)
    with pytest.raises(BadData) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}{':' if not message.startswith(':') else ''}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    """A missing file, an empty folder and a folder of too many files are told apart."""
    with pytest.raises(BadData, match="none: No such file"):
        load(tmp_path / "none")
    with pytest.raises(BadData, match="a folder without files"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("place", "name", "bound", "message"),
    [
        (opening, "MAX_BYTES", 200, "more than 0 MiB"),
        (opening, "MAX_FILES", 1, "2 files; at most 1 are read"),
        (formats, "MAX_PAIRS", 1, "more than 1 pairs"),
        (formats, "MAX_TEXT", 3, "the first text has more than 3 characters"),
    ],
)
def test_sizes_are_bounded(tmp_path, monkeypatch, place, name, bound, message):
    """Of a file inflated, a folder, a set and a text."""
    for file in ("1", "2"):
        write(tmp_path / file, gzip.compress(b"text\tother\t1\n" * 20))
    monkeypatch.setattr(place, name, bound)
    with pytest.raises(BadData, match=message):
        load(tmp_path)
