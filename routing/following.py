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
# What is done to something that is there already: it has no object, a definite one, or one that an answer may always get.
_OBJECT = (
    r"(?:\W*$|\s+(?:it|its|that|this|the|them|these|those|your|everything|all|both|again|only|sure|(?:an? )?(?:unit )?tests?"
    r"|(?:some |more )?(?:comments|docs|docstrings|types|examples)|and (?:commit|push|merge|ship|run|test))\b)"
)
_GOES_ON = re.compile(
    r"(?:yes|sure|go (?:on|ahead|back|for it|with)|go\W*$|carry on|again|don't\b(?!.*\?\W*$)"
    r"|do (?:it|that|this|so|not|as|the (?:same|rest|others?|whole|first|second|third|next|last)|(?:all|both)(?:\W*$| of\b))"
    r"|(?:next|more)(?:\W*$|\s+(?:one|step|part|section|page|of (?:it|that|this|them|these|those)|details?|examples?|please)\b)"
    r"|(?:both|all)(?:\W*$|\s+(?:of (?:them|these|those)|please)\b)|option (?:\d{1,2}|[a-e]|one|two|three)\b"
    r"|(?:the )?(?:first|second|third|last|former|latter|other) (?:one|two|option|approach|version|way|part)s?\b"
    r"|the (?:first|second|third|last|former|latter|others?|rest)\W*$|why\W*$|\d{1,2}$|[a-e]\)?$"
    r"|(?:continue|proceed|keep|retry|try|redo|undo|revert|run|fix|commit|push|merge|ship|apply|approve|confirm|save|finish|use|make"
    r"|change|add|remove|delete|drop|update|rename|move|swap|replace|shorten)" + _OBJECT + r")(?:\b|$)",
)
# Whole words: what a single character begins may be any word (加密, 先天, 按揭).
_SOME_ZH = 5
_GOES_ON_ZH = re.compile(
    r"就[这這按]|(?:继续|繼續)(?!教育|医学|醫學)|接[着著]|下一步|[重再][来來试試]|再(?:改|加|短|长|長|详|詳|简|簡|具体|具體|说|說|做|多|检查|檢查)"
    r"|改(?:一下|成(?!绩|績)|为|為|回|用|下|掉|好|完)|[换換](?:成|个|個|一)|[试試](?:试|試|一下|一试|一試)"
    r"|第[一二三四五六七八九十\d]{1,2}(?:个|個|种|種|条|條|步|点|點|项|項|部分)|按照?(?:你|第|上|这|這|那)|照(?:做|办|辦|你|这|這|旧|舊)"
    r"|用(?:第|这|這|那|中文|英文|英语|英語|日[语文]|法语|德语)|加(?:上(?!海)|个|個|一|点|點|些)|去掉|[删刪](?:掉|了|除|去)|修(?:一下|好|掉|完)"
    r"|都(?:要|行|可以|改|加|用|做)|先(?:做|别|別|不|提交|这|這|改|用|写|寫)|不[用要](?:了|改|再|管|动|動|加)"
    r"|全部(?:都|改|加|[删刪]|提交|[换換]|$)|重新(?:写|寫|做|跑|生成|提交|运行|運行)"
    r"|(?:开始|開始|提交|执行|執行|运行|運行)(?:吧|一下|它|测试|測試|代码|代碼|[，。！,.!]|$)",
)
_LEADS_ON = r"(?:\W*$|[?.!,]|\W+(?:too|again|to|in|into|for|with|as|on|so|is|was|works?|means?|does?|happens?|fails?)\b)"
_POINTS_BACK = re.compile(
    r"\b(?:it|its|them|they)\b|\b(?:again|above|instead|these)\W*$|\b(?:as|see|from) above\b|\b(?:this|that|those)"
    + _LEADS_ON
    + r"|\bthat's\b|\bthis (?:one|code|function|method|class|file|test|error|bug|line|step|part|text|sentence|paragraph|answer)\b"
    r"|\bthe (?:previous|earlier|former|latter|above)\b|\bsame(?:\W*$|\s+(?:again|thing|for|with|as|in)\b)"
    r"|\b(?:the|that|second|other|last) one\b",
)
_POINTS_AT_LAST = re.compile(r"\b(?:for|to|of|in|with|about|from|into|on|as) (?:it|this|them|these|those)\W*$")
# An "it" that stands for nothing that was said, and one that stands for what the text itself speaks of.
_POINTS_NOWHERE = re.compile(
    r"\b(?:is|was) it\b.*\b(?:that|to|at|in|on|when|about)\b"
    r"|\b(?:does|did|would|could|can|will|should) it\b.*\b(?:that|to)\b|\bit(?:['’]s| is| was) (?:\w+ ){1,2}(?:that|to)\b"
    r"|\b(?:time|day|date|year|month|season) (?:is|was) it\b"
    r"|\bit(?:['’]s| is| was| gets| got)? (?:\w+ )?(?:rain|snow|hail|freez|thunder|dark|(?:cold|hot|warm)\b|sunny|windy|noon"
    r"|midnight|winter|summer)"
    r"|\b(?:my|our|an?|every|some) \w+.*\b(?:it|its|them|they)\b",
)
_POINTS_BACK_ZH = re.compile(
    r"(?<![和与與及])它|这个|這個|那个|那個|这些|這些|这样|這樣|上面|刚才|剛才|(?:^|[和跟像按照用])之前|前面|上述"
    r"|[改换換退]回[来來去]|^回[来來去]|(?:为什么|為什麼)[?？]?$",
)
_AND_ZH = re.compile(r"(?!.*(?:什么|什麼|怎|谁|誰|哪|几|幾|如何|多少|吗|嗎)).*呢[?？]?$")
# What it is about comes along with it.
_BRINGS = re.compile(r"[:：]\s*\w")
# What begins so is an ask, however short, if it says of what.
_ASKS = re.compile(
    r"(?:explain|describe|define|find|write|solve|implement|design|build|create|compute|calculate|derive|show|discuss|compare|list"
    r"|give|tell|name|draft|plan|outline|summari[sz]e|translate|sketch|prove|(?:what|who|whom|whose|when|where|which)(?:['’](?:s|re|d))?"
    r"|(?:(?:why|how|what|where|when)\s+)?(?:is|are|was|were|do|does|did|can|could|should|would|will))"
    r"\s+(?!(?:more|me|it|this|that|these|those|they|them|i|we|you)\b"
    r"|(?:is|are|was|were|do|does|did) (?:it|this|that|these|those|they)\b)\w"
    r"|(?:解释|解釋|证明|證明|写|寫|画|畫|求|计算|計算|介绍|介紹|推导|推導|实现|實現|设计|設計|什么是|什麼是|比较|比較|分析|列出|定义|定義)(?!一下)[㐀-鿿]"
    r"|(?!这|這|那|它|为|為|还|還)[㐀-鿿]{2,}(?:多[长長大高少远遠重久深]|[是在](?:什么|什麼|谁|誰|哪))"
    r"|(?:哪[个個些里裡位]|谁|誰)(?![更最比较較好]{1,2}[？?]?$|更|比)[㐀-鿿]{2,}",
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
    unknown = False
    for depth in range(FOLLOW_UPS):
        text = thread.ask()
        if not text:
            break
        verdict, units, alone = judging.ask(text, depth)
        if idle := verdict.idle and bool(depth or not thread.words_alone()):
            verdict = UNSURE
        found = harder(found, verdict)
        own = not idle and (alone or units > FOLLOW_UP_UNITS or not (goes_on(text) or too_short(text)))
        unknown = not own or (depth > 0 and verdict.score is None)
        reply = None if own else thread.reply()
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
    if _BRINGS.search(lower):
        return False
    size = _size(lower, SOME_MORE + 1)
    if (size <= SOME and _GOES_ON.match(lower)) or (size <= _SOME_ZH and _GOES_ON_ZH.match(lower)):
        return True
    return size <= SOME_MORE and _points_back(lower)


def _points_back(lower: str) -> bool:
    if _POINTS_BACK_ZH.search(lower) or _AND_ZH.match(lower) or _POINTS_AT_LAST.search(lower):
        return True
    return bool(_POINTS_BACK.search(lower)) and not (_ASKS.match(lower) or _POINTS_NOWHERE.search(lower))


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
