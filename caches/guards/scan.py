"""A text cut into tokens, by one regular expression and with every length bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator

TOKEN = re.compile(
    r"""
    (?P<link>(?:https?://|www\.)[^\s<>"'`]{1,500})
  | (?P<mail>[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,32}){1,4})
  | (?P<number>(?:[$£€¥₹₩]|(?<!\w)[vV](?=\d+\.\d))?\d[\d,]{0,40}(?:[.:]\d{1,20}){0,6}(?:%|°?[A-Za-zµ]{1,12})?)
  | (?P<han>[\u3400-\u9fff]{1,400})
  | (?P<flag>(?<![\w-])--?[A-Za-z][\w-]{0,40})
  | (?P<word>(?:[cC]\+\+|[cCfF]\#)(?!\w) | [^\W\d]\w{0,80}(?:(?:['’][^\W\d_]{1,4}(?!\w))|(?:\.\w{1,60}))*(?:\(\))?)
  | (?P<end>[.!?。！？\n:;]+)
  | (?P<sign>[+*=<>^|~\\{}\[\]()\-/&%#@$;])
    """,
    re.VERBOSE,
)
QUOTED = re.compile(
    r"""`([^`]{1,400})`|"([^"]{1,400})"|“([^”]{1,400})”|「([^」]{1,400})」|『([^』]{1,400})』|《([^》]{1,400})》"""
    r"""|«([^»]{1,400})»|(?<!\w)'([^'\n]{2,200})'(?!\w)|‘([^’\n]{2,200})’(?!\w)"""
)
_QUOTES = frozenset("`\"“「『《«'‘")


def tokens(text: str) -> Iterator[tuple[str, str]]:
    for match in TOKEN.finditer(text):
        yield match.lastgroup or "", match.group()


def quotations(text: str) -> tuple[str, ...]:
    """What stands between quotation marks or backticks."""
    if _QUOTES.isdisjoint(text):
        return ()
    return tuple(next(filter(None, match.groups()), "").strip() for match in QUOTED.finditer(text))
