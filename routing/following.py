"""Follow-ups: a short ask ("yes", "continue", "改一下") is judged by the hardest of itself and what it follows up.

The walk goes backwards through the newest asks of a conversation, and to what the model proposed just before each. How a text is
judged, and which texts speak for themselves, is the classifier's business.

Rules
- Bounded: FOLLOW_UPS steps back, each within the bounds of `conversation`. Nothing raises for any body.
- A text that a classifier is unsure about follows up unless it is long; one that it is sure about does when it is short and
  points back or goes on.
- Small talk is told from the newest ask alone, and only where that is words and no more (no picture beside them). Before it,
  small talk is stepped over: "thanks" between an ask and its "continue" makes that no easier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from routing.conversation import thread_of
from routing.types import Verdict

FOLLOW_UPS = 6
FOLLOW_UP_UNITS = 90
FOLLOW_UP_CHARACTERS = 200
UNSURE_UNITS = 240
UNSURE = Verdict(None)

_CLASSIFIED = frozenset({"chat", "completions", "responses", "messages"})

_GOES_ON = re.compile(
    r"(?:y|n|yes|yep|yeah|yup|no|nope|ok|okay|k|sure|right|correct|exactly|agreed|approved?|confirm(?:ed)?|lgtm|go|continue"
    r"|proceed|carry on|keep|do|please|pls|just|start|next|more|again|retry|try|redo|undo|revert|run|fix|commit|push|merge|ship"
    r"|apply|save|finish|great|perfect|nice|cool|good|awesome|sounds|looks|fine|and|also|but|then|now|so|or|instead|actually|wait"
    r"|hmm|why|how about|what about|what if|what else|use|make|change|add|remove|delete|update|rename|move|option|both|all|none"
    r"|either|first|second|third|the (?:first|second|third|last|former|latter|other)|\d{1,2}|[a-e])\b",
)
_GOES_ON_ZH = """
    是 好 行 可以 对 對 嗯 继续 繼續 接着 接著 开始 開始 同意 确认 確認 没问题 沒問題 就这 就這 改 再 换 換 那 还有 還有 然后
    然後 为什么 為什麼 怎么 怎麼 试 試 提交 第 按 照 用 加 去掉 删 刪 修 不 请继续 請繼續 下一步 执行 執行 运行 運行 重来 重來
    把它 把这 把這 全部 都 另外 但 先
"""
_STARTS_ZH = tuple(_GOES_ON_ZH.split())
_POINTS_BACK = re.compile(r"\b(?:it|its|that|this|these|those|them|they|same|above|previous|earlier|former|latter|one)\b")
_POINTS_BACK_ZH = re.compile(r"它|这个|這個|那个|那個|这些|這些|这样|這樣|上面|刚才|剛才|之前|前面|上述|一下")


class Judging(Protocol):
    """Asks and proposals, judged by themselves. `ask` is told how many steps back the text is, and whether there is more before
    it is the walk's business; it says the text's length in units (`features`) and whether the text stands alone.
    """

    def ask(self, text: str, depth: int) -> tuple[Verdict, int, bool]: ...

    def proposal(self, reply: str) -> Verdict: ...


def hardest(judging: Judging, body: Mapping[str, Any], endpoint: str) -> Verdict:
    """The verdict on the newest human ask of a request."""
    if endpoint not in _CLASSIFIED:
        return UNSURE
    thread = thread_of(body, endpoint)
    found = UNSURE
    for depth in range(FOLLOW_UPS):
        text = thread.ask()
        if not text:
            break
        verdict, units, alone = judging.ask(text, depth)
        if verdict.idle and (depth or not thread.words_alone()):
            verdict, alone = UNSURE, False
        found = harder(found, verdict)
        if alone or units > UNSURE_UNITS or (reply := thread.reply()) is None or not _follows_up(text, units, verdict):
            break
        found = harder(found, judging.proposal(reply))
    return found


def harder(one: Verdict, other: Verdict) -> Verdict:
    if one.score is None or (other.score is not None and other.score > one.score):
        return other
    return one


def _follows_up(text: str, units: int, verdict: Verdict) -> bool:
    """Whether a text that does not stand alone means something only after what was said before it."""
    if verdict.score is None:
        return True
    return units <= FOLLOW_UP_UNITS and goes_on(text)


def goes_on(text: str) -> bool:
    """Whether its words say that it goes on with something, or point back at it."""
    lower = text.lower()
    return (
        bool(_GOES_ON.match(lower) or _POINTS_BACK.search(lower))
        or lower.startswith(_STARTS_ZH)
        or bool(_POINTS_BACK_ZH.search(lower))
    )
