"""Follow-ups: a short ask ("yes", "continue", "改一下") is judged by the hardest of itself and what it follows up.

The walk goes backwards through the newest asks of a conversation, and to what the model proposed just before each. How a text is
judged, and which texts speak for themselves, is the classifier's business.

Rules
- Bounded: FOLLOW_UPS steps back, each within the bounds of `conversation`. Nothing raises for any body.
- A follow-up is short, and goes on with something or points back at it by its words, or has too few to be an ask by itself. Every
  other text is an ask of its own, and judged by itself, whether a classifier is sure about it or not.
- What follows up nothing, or what nobody can rate, is not called easy for its own few words: nobody knows how hard it is.
- Small talk is told from the newest ask alone, and only where that is words and no more (no picture beside them). Before it,
  small talk is stepped over: "thanks" between an ask and its "continue" makes that no easier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

from routing.conversation import thread_of
from routing.types import Verdict

FOLLOW_UPS = 6
FOLLOW_UP_UNITS = 90
FOLLOW_UP_CHARACTERS = 200
UNSURE = Verdict(None)
FEW = 3  # words; of a script without spaces two characters are one
SOME = 7
SOME_MORE = 8

_CLASSIFIED = frozenset({"chat", "completions", "responses", "messages"})

# What is said before the matter itself, and says nothing of it.
_OPENERS = re.compile(
    r"(?:(?:ok|okay|k|great|perfect|nice|cool|good|awesome|fine|thanks|thank you|please|pls|now|then|so|just|also|hmm|well"
    r"|can you|could you|would you|let's|好的?|嗯|请|請|那么?|那麼|现在|現在|然后|然後)(?:(?<=[㐀-鿿])|(?!\w))"
    r"[\s,.!;:，。！、；]*)+",
)
# An answer: alone, or set off from what else is said.
_ANSWERS = re.compile(
    r"(?:y|n|yes|yep|yeah|yup|no|nope|sure|right|correct|exactly|agreed|approved|confirmed|lgtm|actually|wait|instead"
    r"|sounds (?:good|great|fine|right)|looks (?:good|great|fine|right)"
    r"|是的?|行|可以|对|對|不对|不對|不是|不要|不行|没问题|沒問題|同意|确认|確認)(?:\s*[^\w\s'’]|\s*$)",
)
_JOINS = re.compile(r"(?:and|but|or|why not|what about|how about|what else|还有|還有|另外|但是?)(?:(?<=[㐀-鿿])|\b)")
# What is done to something that is there already.
_GOES_ON = re.compile(
    r"(?:yes|sure|go|continue|proceed|carry on|keep|do (?:it|that|this|so|the|both|all|not|as)|don't|next|more|again|retry|try"
    r"|redo|undo|revert|run|fix|commit|push|merge|ship|apply|approve|confirm|save|finish|use|make|change|add|remove|delete|drop"
    r"|update|rename|move|swap|replace|shorten|both|option|all of them|the (?:first|second|third|last|former|latter|other)"
    r"|first one|why\W*$|\d{1,2}$|[a-e]\)?$)(?:\b|$)",
)
_GOES_ON_ZH = """
    就这 就這 就按 继续 繼續 接着 接著 开始 開始 改 再 换 換 试 試 提交 第 按 照 用 加 去掉 删 刪 修 下一步 执行 執行 运行 運行
    重来 重來 重新 把 全部 都 先 不用 不要
"""
_STARTS_ZH = tuple(_GOES_ON_ZH.split())
_POINTS_BACK = re.compile(
    r"\b(?:it|its|this|those|them|they|same|above|previous|earlier|former|latter|again|(?:the|this|that|second|other|last) one)\b"
    r"|\bthat(?:'s|\b\W*(?:$|too|again|to|in|into|for|with|as|on)\b|[?.!,]|$)|\bthese\W*$",
)
_POINTS_BACK_ZH = re.compile(
    r"它|这个|這個|那个|那個|这些|這些|这样|這樣|上面|刚才|剛才|之前|前面|上述|回来|回來|回去|(?:为什么|為什麼|呢)[?？]?$",
)
# What begins so is an ask, however short, if it says of what.
_ASKS = re.compile(
    r"(?:explain|describe|define|find|write|solve|implement|design|build|create|compute|calculate|derive|show|discuss|compare|list"
    r"|give|tell|name|draft|plan|outline|summari[sz]e|translate|sketch|prove|(?:what|who|whom|whose|when|where|which)(?:['’](?:s|re|d))?"
    r"|is|are|was|do|does|did)\s+(?!more\b|me\b)\w"
    r"|(?:解释|解釋|证明|證明|写|寫|画|畫|求|计算|計算|介绍|介紹|推导|推導|实现|實現|设计|設計|什么是|什麼是|比较|比較|分析)(?!一下)[㐀-鿿]",
)
# Han, kana and Thai, which have no spaces between words.
_SPACELESS = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f"
_PIECES = re.compile(rf"[{_SPACELESS}]{{1,2}}|[^\W{_SPACELESS}]+")


class Judging(Protocol):
    """Asks and proposals, judged by themselves. `ask` is told how many steps back the text is, and whether there is more before
    it is the walk's business; it says the text's length in units (`features`) and whether the text stands alone. `middle`: the
    score from which a text is hard rather than easy.
    """

    @property
    def middle(self) -> float: ...

    def ask(self, text: str, depth: int) -> tuple[Verdict, int, bool]: ...

    def proposal(self, reply: str) -> Verdict: ...


def hardest(judging: Judging, body: Mapping[str, Any], endpoint: str) -> Verdict:
    """The verdict on the newest human ask of a request."""
    if endpoint not in _CLASSIFIED:
        return UNSURE
    thread = thread_of(body, endpoint)
    found = UNSURE
    bare = unknown = False
    for depth in range(FOLLOW_UPS):
        text = thread.ask()
        if not text:
            break
        verdict, units, alone = judging.ask(text, depth)
        if idle := verdict.idle and bool(depth or not thread.words_alone()):
            verdict = UNSURE
        found = harder(found, verdict)
        own = not idle and (alone or units > FOLLOW_UP_UNITS)
        reply = None if own else thread.reply()
        if reply is None and not depth:
            unknown = not own and found.score is not None and _bare(text)
            break
        if own or not (idle or goes_on(text) or too_short(text)):
            unknown = depth > 0 and verdict.score is None
            break
        if not depth:
            bare = _bare(text)
        unknown = bare
        if reply is None:
            break
        found = harder(found, judging.proposal(reply))
    if unknown and found.score is not None and found.score < judging.middle:
        return replace(found, score=None)
    return found


def harder(one: Verdict, other: Verdict) -> Verdict:
    if one.score is None or (other.score is not None and other.score > one.score):
        return other
    return one


def goes_on(text: str) -> bool:
    """Whether its words, which are few, say that it goes on with something, or point back at it."""
    lower = text.strip().lower()
    if _ANSWERS.match(lower) or _JOINS.match(lower):
        return True
    if opened := _OPENERS.match(lower):
        lower = lower[opened.end() :]
        if not lower or _ANSWERS.match(lower):
            return True
    size = _size(lower, SOME_MORE + 1)
    if size <= SOME and (_GOES_ON.match(lower) or lower.startswith(_STARTS_ZH)):
        return True
    return size <= SOME_MORE and bool(_POINTS_BACK.search(lower) or _POINTS_BACK_ZH.search(lower))


def _bare(text: str) -> bool:
    """Whether it goes on with something and says little else."""
    return _size(text, FEW + 1) <= FEW and goes_on(text)


def too_short(text: str) -> bool:
    """Whether it has too few words to be an ask by itself."""
    if len(text) > FOLLOW_UP_UNITS or _size(text, FEW + 1) > FEW:
        return False
    lower = text.strip().lower()
    opened = _OPENERS.match(lower)
    return not _ASKS.match(lower[opened.end() :] if opened else lower)


def _size(text: str, most: int) -> int:
    """Its words; no more than `most` are counted."""
    return sum(1 for _ in islice(_PIECES.finditer(text), most))
