"""What is written alike for an embedder without capitals, accents and signs: `ls -a` and `ls -A`, é and è, Polish and polish.

Where letters themselves are what is asked about (spell, rhyme, reverse), every word counts as it is written.
"""

from __future__ import annotations

import re
import unicodedata

from caches.guards.concepts import LIGHT, as_read
from caches.guards.reading import MAX_CHARS, Reading
from caches.guards.tables.letters import CAPITONYMS, CASED_UNITS, TASKS

_ALONE = re.compile(r"(?<![\w-])--?[A-Za-z]\b|\\[A-Za-z]|(?<!\d )(?<![\w'’-])[B-HJ-Zb-hj-z](?![\w'’])")
"""Options of a command, classes of a regular expression, and letters alone, but for the words `a` and `I`."""
_SIGNED = re.compile(
    r"""[A-Za-z_]{0,40}(?:[*+<>^|~\\{}\[\]]|==|!=){1,9}[\w:]{0,40}\]?|(?<![^\s`"'(])[$@&*][A-Za-z_]\w{0,40}"""
    r"""|(?<=\s)(?:\?{1,3}|&{1,2}|\|{1,2}|:{1,2})(?=\s\w)"""
)
"""Words with operators at them, in place: `i++`, `++i`, `a[1:]`, `$x`; and `??` between spaces."""
_BITS = re.compile(r"(?<![A-Za-z])[KMGT][bB](?:ps)?(?![A-Za-z])")
_MONEY = re.compile("[$£€¥₹₽₩₪]")
_SIGNS = re.compile(r"(?<=[$%@#~])[^\s\w.,;:'\")](?=\s|$)|[@#~%](?=[A-Za-z]\b)|(?<=[$])\d(?= mean| do)|[\[\]{}](?=\d|\s|$)")
"""Shell variables, formats, and brackets around a number: `$?`, `%s`, `[0]`."""
_CASED = re.compile(r"(\d ?)?\b([A-Za-z]{1,12})\b")
_CAPITONYMS = frozenset(map(as_read, CAPITONYMS))
_TASKS = frozenset(map(as_read, TASKS))
_SYMBOL = 3  # letters of the longest symbol whose case tells it apart


def letters(a: Reading, b: Reading) -> str | None:
    one, other = a.text[:MAX_CHARS], b.text[:MAX_CHARS]
    if sorted(_ALONE.findall(one)) != sorted(_ALONE.findall(other)):
        return "letters"
    if any(_differ(pattern, one, other) for pattern in (_SIGNED, _BITS, _MONEY, _SIGNS)) or _recased(one, other):
        return "letters"
    if _capital(a, b) or (not _TASKS.isdisjoint(a.bag & b.bag) and _respelt(a, b)):
        return "letters"
    if one.isascii() and other.isascii():
        return None
    bare, plain = _bare(one), _bare(other)
    return "letters" if bare == plain and _folded(one) != _folded(other) else None


def _differ(pattern: re.Pattern[str], one: str, other: str) -> bool:
    """Both have some, and not the same."""
    ours, theirs = pattern.findall(one), pattern.findall(other)
    return bool(ours and theirs) and sorted(ours) != sorted(theirs)


def _recased(one: str, other: str) -> bool:
    """Case is all the difference, and it is that of a unit, of a symbol (CO, Co), or of a word that is a name with a capital."""
    if one == other or one.casefold() != other.casefold() or one.isupper() or other.isupper():
        return False
    for place, (mine, theirs) in enumerate(zip(_CASED.finditer(one), _CASED.finditer(other), strict=False)):
        word, form = mine[2], theirs[2]
        if word == form:
            continue
        symbols = len(word) <= _SYMBOL and not word.islower() and not form.islower()
        if (symbols and place) or (mine[1] and word.casefold() in CASED_UNITS) or (place and word.casefold() in CAPITONYMS):
            return True
    return False


def _capital(a: Reading, b: Reading) -> bool:
    """A capital on one word is all the difference, and the word means another thing with it."""
    changed = a.names ^ b.names
    return len(changed) == 1 and a.content == b.content and not _CAPITONYMS.isdisjoint(changed)


def _respelt(a: Reading, b: Reading) -> bool:
    """Each has a word that the other has not in that very form."""
    ours, theirs = _written(a), _written(b)
    return len(a.content) == len(b.content) and bool(ours - theirs) and bool(theirs - ours)


def _written(reading: Reading) -> set[str]:
    return {word for meant, word in reading.surface.items() if meant not in LIGHT}


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _bare(text: str) -> str:
    """Without accents."""
    return "".join(mark for mark in unicodedata.normalize("NFKD", _folded(text)) if not unicodedata.combining(mark))
