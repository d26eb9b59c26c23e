"""The forms that labelled pairs come in, told apart by what is in a file, never by its name.

    {"a", "b", "same_answer"}         JSON lines or an array; texts, or conversations as lists of messages;
                                      optional: `category` or `subtype`, and `ambiguous` (then it is left out, and counted)
    {"text_a", "text_b", "label"}     the same with labels 0 and 1
    {"origin", "similar"}             a table: every origin is stored, every similar one looked up
    text TAB text TAB label           without a header
    a header and TAB-separated lines  it names sentence1, sentence2 and label

A label that is not known is an error, with its file and line: a line that is skipped silently is a figure that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gateway.lab.cacheeval.opening import files_of, lines_of, read
from gateway.lab.cacheeval.pairs import BadData, Data, Kind, Pair
from gateway.lab.cacheeval.question import apart, question

MAX_PAIRS = 1_000_000
MAX_TEXT = 100_000
_HEADER = ("sentence1", "sentence2", "label")
_NO_SENTENCE = "NS"  # PAWS-X writes it where a translation is missing
_LABELS: Mapping[object, bool] = {"0": False, "1": True, 0: False, 1: True}


class _Row(NamedTuple):
    kind: Kind
    pair: Pair | None  # None: left out


def load(path: Path) -> Data:
    """The pairs of a file or of a folder. Raises BadData."""
    sources, pairs, left_out = [], [], 0
    kinds: set[Kind] = set()
    for file in files_of(path):
        source, text = read(file)
        sources.append(source)
        for row in _rows(file, text):
            kinds.add(row.kind)
            if len(kinds) > 1:
                raise BadData(f"{file}: {' and '.join(sorted(kinds))} in one set; name the files one by one")
            if row.pair is None:
                left_out += 1
            else:
                pairs.append(row.pair)
        if len(pairs) > MAX_PAIRS:
            raise BadData(f"{path}: more than {MAX_PAIRS:,} pairs")
    if not pairs:
        raise BadData(f"{path}: no pairs in it")
    return Data(_name(path), kinds.pop(), tuple(sources), tuple(pairs), left_out)


def _name(path: Path) -> str:
    """Short, and still telling: files of one name lie in different folders."""
    return "/".join(path.resolve().parts[-2:])


def _rows(file: Path, text: str) -> Iterator[_Row]:
    begin = text.lstrip()[:1]
    if begin not in {"[", "{"} or _is_labelled_line(text):
        yield from _table(file, text)
    elif begin == "[":
        yield from _each(((f"{file}: element {number}", item) for number, item in _elements(file, text)), _object)
    else:
        yield from _each(((f"{file}:{number}", _decoded(f"{file}:{number}", line)) for number, line in lines_of(text)), _object)


def _is_labelled_line(text: str) -> bool:
    """Whether the first line ends as a table's does: a text may begin with a bracket."""
    _, line = next(lines_of(text))
    *_, label = line.split("\t")
    return label.strip() in _LABELS and "\t" in line


def _each(items: Iterable[tuple[str, Any]], read_one: Callable[[Any], _Row]) -> Iterator[_Row]:
    for place, item in items:
        try:
            yield read_one(item)
        except BadData as error:
            raise BadData(f"{place}: {error}") from None


def _elements(file: Path, text: str) -> Iterator[tuple[int, Any]]:
    items = _decoded(str(file), text)
    yield from enumerate(items, 1)


def _decoded(place: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise BadData(f"{place}: not JSON ({error})") from None


def _object(item: Any) -> _Row:
    if not isinstance(item, dict):
        raise BadData("not an object")
    if "same_answer" in item:
        return _labelled(item, item.get("a"), item.get("b"), item["same_answer"])
    if "text_a" in item or "text_b" in item:
        return _labelled(item, item.get("text_a"), item.get("text_b"), item.get("label"))
    if "origin" in item:
        return _Row(Kind.LOOKUPS, _pair(_checked("origin", item["origin"]), _checked("similar", item.get("similar")), same=True))
    raise BadData("neither a, b and same_answer, nor text_a, text_b and label, nor origin and similar")


def _labelled(item: Mapping[str, Any], a: Any, b: Any, label: Any) -> _Row:
    same, category = _label(label), str(item.get("category") or item.get("subtype") or "")
    conversations = isinstance(a, list) and isinstance(b, list)
    if not conversations:
        a, b = _checked("the first text", a), _checked("the second text", b)
    pair = _pair(a, b, same, category)
    return _Row(Kind.CONVERSATIONS if conversations else Kind.PAIRS, None if item.get("ambiguous") else pair)


def _pair(a: str | list[Any], b: str | list[Any], same: bool, category: str = "") -> Pair:
    stored, asked = question(a), question(b)
    return Pair(stored.text, asked.text, same, category, apart(stored, asked))


def _table(file: Path, text: str) -> Iterator[_Row]:
    lines = lines_of(text)
    first = next(lines, None)
    if first is None:
        raise BadData(f"{file}: nothing in it")
    columns = first[1].split("\t")
    if all(name in columns for name in _HEADER):
        places, width = [columns.index(name) for name in _HEADER], len(columns)
    else:
        places, width, lines = [0, 1, 2], 3, lines_of(text)

    def row(line: str) -> _Row:
        cells = line.split("\t")
        if len(cells) != width:
            raise BadData(f"{len(cells)} columns where {width} are wanted: text, text and label with tabs between them")
        a, b, label = (cells[place] for place in places)
        pair = _pair(_checked("the first text", a), _checked("the second text", b), _label(label))
        return _Row(Kind.PAIRS, None if _NO_SENTENCE in {a, b} else pair)

    yield from _each(((f"{file}:{number}", line) for number, line in lines), row)


def _label(label: Any) -> bool:
    value = label.strip() if isinstance(label, str) else label
    if not isinstance(value, str | int) or value not in _LABELS:  # True and False are 1 and 0
        raise BadData(f"the label {str(label)[:20]!r} is not known: true, false, 1 or 0")
    return _LABELS[value]


def _checked(what: str, text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        raise BadData(f"{what} is missing, or no text")
    if len(text) > MAX_TEXT:
        raise BadData(f"{what} has more than {MAX_TEXT:,} characters")
    return text
