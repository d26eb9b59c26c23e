"""Do two answers to one question say the same, as far as that can be told without a model?

What is compared is the answer that a text ends in, if it ends in one that can be checked:

    json      the whole text, or its one fenced block, is an object or a list; compared by value
    choice    a letter: alone, boxed, or after "answer is", "答案是" and the like
    number    a number: alone with its unit, boxed, after `####`, after such words, or as what a text ends in and comes to ("so we
              get 42", "6 * 7 = 42", "the total is 42")
    words     a text of a few words in all; case, white space, articles and marks at its ends do not count

Rules
- Two answers of one kind are the same or they are not. Of words where one has all of the other's ("Paris", "It is Paris") nobody
  can tell, nor of texts of different kinds, unless they are equal to the letter.
- A long text without such an end is none that can be checked: None, never a guess.
- Nothing raises for any text, and of a long one only its beginning and its end are read.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Literal

Kind = Literal["json", "choice", "number", "words"]

MOST = 64 * 1024  # characters of a text that are looked at as JSON
END = 400  # characters at its end, where an answer is looked for
FEW_WORDS = 6
FEW_LETTERS = 24  # of a script without spaces between words
_DIGITS = 9  # significant ones that two numbers share
_DEPTH = 32
_NUMBER_TEXT = 40

_ROUND = Context(prec=_DIGITS)
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?|[-+]?\.\d+"
_WITH_UNIT = rf"[$€£¥]?\s?({_NUMBER})(?:\s?/\s?({_NUMBER}))?\s?(?:%|[a-z°$€£¥]{{1,12}}|[㐀-鿿]{{1,3}})?\.?"
_ONLY_NUMBER = re.compile(_WITH_UNIT)
_COMES_TO = re.compile(
    r"(?:=|≈|\b(?:gets?|got|gives?|equals?|makes?|yields?|obtain|leaves)"
    r"|\b(?:total|sum|result|value|product|difference|average|mean|cost|price|probability|number|amount)\b[^.\n\d]{0,40}?"
    r"(?:is|are|was|=|:)|得到?|等于|等於|一共是?|总共是?|總共是?|结果是|結果是)"
    rf"\s*[*`$]{{0,3}}\s*{_WITH_UNIT}[*`$]{{0,3}}[.。!]?\s*\Z",
    re.IGNORECASE,
)
_FIRST_NUMBER = re.compile(rf"[$€£¥]?\s?({_NUMBER})(?:\s?/\s?({_NUMBER}))?(?![\w.,]*\d)")
_ONLY_CHOICE = re.compile(r"[(\[*]{0,3}([a-jA-J])[)\]*]{0,3}[.:]?")
_CHOICE_AND_TEXT = re.compile(r"[(\[*]{0,3}([A-J])(?:[)\]*]{1,3}[.:]?|[.:])\s.{1,200}")
_FIRST_CHOICE = re.compile(r"(?:option|choice)?\s*[(\[*]{0,3}([A-J])(?![\w'’])[)\]*]{0,3}")
_BOXED = re.compile(r"\\boxed\{\s*(?:\\text\{)?([^{}]{1,80})\}")
_MARK = re.compile(
    r"####\s*|(?:final\s+answer|correct\s+answer|answer|correct\s+(?:option|choice))\s*(?:is|are|=|:|would be)+\s*"
    r"|(?:最终)?答案(?:是|为|為|选|選|：|:)+\s*|(?:应选|應選|故选|故選|选择|選擇)\s*(?=[A-J（(])",
    re.IGNORECASE,
)
_FENCE = re.compile(r"```[a-zA-Z]*\n(.*?)\n?```", re.DOTALL)
_LEADING = re.compile(r"(?:the|a|an)\s+")
_SPACELESS = re.compile(r"[぀-ヿ㐀-鿿가-힯]")
_EDGES = " \t\n.,!?;:\"'`*_()。！？，；：、“”‘’（）「」"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a text answers. Two of one kind are the same answer if their values are equal."""

    kind: Kind
    value: str


def agree(one: str, other: str) -> bool | None:
    """None: nobody can tell."""
    if _plain(one) == _plain(other):
        return True
    first, second = answer_of(one), answer_of(other)
    if first is None or second is None or first.kind != second.kind:
        return None
    if first.value == second.value:
        return True
    return None if first.kind == "words" and _overlap(first.value, second.value) else False


def answer_of(text: str) -> Answer | None:
    """The answer that can be checked; None: there is none."""
    if not text or text.isspace():
        return None
    return _json(text) or _short(text) or _marked(text)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_EDGES) if len(text) <= MOST else text


def _json(text: str) -> Answer | None:
    text = text.strip()
    if text.startswith("```") or (text[:1] not in "{[" and text.count("```") == 2):
        fenced = _FENCE.search(text[:MOST])
        text = fenced[1].strip() if fenced else ""
    if text[:1] not in ("{", "[") or len(text) > MOST:
        return None
    try:
        found = json.loads(text)
        return Answer("json", json.dumps(_canonical(found, _DEPTH), sort_keys=True, ensure_ascii=False))
    except (ValueError, RecursionError):
        return None


def _canonical(value: Any, depth: int) -> Any:
    """Raises ValueError for what is deeper than any answer."""
    if depth == 0:
        raise ValueError("too deep")
    if isinstance(value, dict):
        return {name: _canonical(each, depth - 1) for name, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each, depth - 1) for each in value]
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)
    return value


def _short(text: str) -> Answer | None:
    """Of a text that is nothing but an answer."""
    if len(text) > END:
        return None
    plain = unicodedata.normalize("NFKC", text).strip().strip("`*_$ \n")
    if found := _ONLY_CHOICE.fullmatch(plain) or _CHOICE_AND_TEXT.fullmatch(plain):
        return Answer("choice", found[1].upper())
    if found := _ONLY_NUMBER.fullmatch(plain.casefold()):
        return _number(found)
    if _MARK.search(plain) or _BOXED.search(plain):
        return None
    if found := _COMES_TO.search(plain):
        return _number(found)
    words = _LEADING.sub("", _plain(plain), count=1)
    few = len(words) <= FEW_LETTERS if _SPACELESS.search(words) else len(words.split()) <= FEW_WORDS
    return Answer("words", words) if few and words and "\n" not in plain else None


def _marked(text: str) -> Answer | None:
    """Of a text that says where its answer is; the last place counts."""
    end = unicodedata.normalize("NFKC", text[-END:])
    boxed = _BOXED.findall(end)
    if boxed:
        return _short(boxed[-1])
    last = None
    for last in _MARK.finditer(end):  # noqa: B007 - only the last one is wanted
        pass
    if last is None:
        found = _COMES_TO.search(end)
        return None if found is None else _number(found)
    said = end[last.end() :].lstrip("*_`:$ \n")
    if found := _FIRST_CHOICE.match(said):
        return Answer("choice", found[1])
    if found := _FIRST_NUMBER.match(said):
        return _number(found)
    line = said.split("\n", 1)[0]
    return _short(line)


def _number(found: re.Match[str]) -> Answer | None:
    try:
        value = _decimal(found[1])
        if found[2] is not None:
            value = _ROUND.divide(value, _decimal(found[2]))
    except (InvalidOperation, ArithmeticError):
        return None
    rounded = _ROUND.plus(value)
    return Answer("number", "0" if not rounded else str(rounded.normalize(_ROUND)))


def _decimal(text: str) -> Decimal:
    """Raises InvalidOperation for what is too long to be meant."""
    if len(text) > _NUMBER_TEXT:
        raise InvalidOperation
    return Decimal(text.replace(",", ""))


def _overlap(one: str, other: str) -> bool:
    """Whether one has all that the other has."""
    if _SPACELESS.search(one + other):
        return one in other or other in one
    first, second = set(re.findall(r"\w+", one)), set(re.findall(r"\w+", other))
    return first <= second or second <= first
