"""Does an answer refuse? By how it begins, in English and Chinese; a guess that errs on the side of no.

A model that refuses is not always right to: of what asks for no more than a number, a class or a call a refusal is a failure.
"""

from __future__ import annotations

import re

_LOOKED_AT = 200
_CANNOT = r"(?:can(?:no|')?t|can not|am (?:not able|unable)|'m (?:not able|unable|afraid)|won't|am sorry|'m sorry|apologi[sz]e)"
_REFUSAL = re.compile(
    rf"\W*(?:(?:sorry|unfortunately|apologies|my apologies)\W[^.!?\n]{{0,80}}?\bi\s?{_CANNOT}"
    rf"|i\s?{_CANNOT}\b"
    r"|as an ai\b"
    r"|(?:很|非常|十分|真的)?(?:抱歉|对不起|對不起)[，,。！!、\s]{0,3}(?:我|但|作为|作為|这|這|无法|無法|不能)"
    r"|(?:我|作为(?:一个|一名)?(?:ai|人工智能)[^。\n]{0,20}?)(?:无法|無法|不能|没有办法|沒有辦法)(?:回答|提供|协助|協助|帮助|幫助|完成|满足|滿足|处理|處理))",
    re.IGNORECASE,
)


def refuses(text: str) -> bool:
    return _REFUSAL.match(text[:_LOOKED_AT].replace("’", "'")) is not None
